package site

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestTheCacheStaysWithinItsBoundAndKeepsWhatIsUsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCache(20_000)
		for range rapid.IntRange(1, 200).Draw(t, "asked") {
			key, size := fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "key")), rapid.IntRange(0, 4000).Draw(t, "size")
			if _, err := c.get(key, func() ([][]byte, error) { return [][]byte{make([]byte, size)}, nil }); err != nil {
				t.Fatal(err)
			}
			sum := 0
			for at := c.order.Front(); at != nil; at = at.Next() {
				sum += at.Value.(*cached).size
			}
			if sum != c.size || c.size > c.most || c.order.Len() != len(c.byKey) || len(c.doing) != 0 {
				t.Fatalf("%d bytes of %d, counted as %d; %d in order, %d by key", sum, c.most, c.size, c.order.Len(), len(c.byKey))
			}
		}
	})
	c := newCache(8 * 1300)
	made := 0
	ask := func(key string) {
		_, _ = c.get(key, func() ([][]byte, error) { made++; return [][]byte{make([]byte, 1000)}, nil })
	}
	ask("a")
	for i := range 30 {
		ask(fmt.Sprint(i))
		ask("a")
	}
	if made != 31 {
		t.Errorf("made %d times: what is asked for all the time was dropped", made)
	}
}

func TestWhoAsksForWhatIsBeingMadeWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(1 << 20)
		var made atomic.Int32
		release := make(chan struct{})
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				data, err := c.get("key", func() ([][]byte, error) { made.Add(1); <-release; return [][]byte{[]byte("x")}, nil })
				if err != nil || string(data[0]) != "x" {
					t.Errorf("%q, %v", data, err)
				}
			})
		}
		synctest.Wait()
		close(release)
		wait.Wait()
		if made.Load() != 1 {
			t.Errorf("made %d times", made.Load())
		}
	})
}

func TestFewAreMadeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(1 << 20)
		var now, most atomic.Int32
		var wait sync.WaitGroup
		for i := range 50 {
			wait.Go(func() {
				_, err := c.get(fmt.Sprint(i), func() ([][]byte, error) {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Second)
					now.Add(-1)
					return nil, nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if want := int32(cap(c.seats)); most.Load() != want {
			t.Errorf("%d at once, want %d", most.Load(), want)
		}
	})
}

func TestWhatCannotBeMadeIsNotKept(t *testing.T) {
	c := newCache(1 << 20)
	broken := errors.New("broken")
	if _, err := c.get("key", func() ([][]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = c.get("key", func() ([][]byte, error) { panic("a fault") })
	}()
	if data, err := c.get("key", func() ([][]byte, error) { return [][]byte{[]byte("x")}, nil }); err != nil || string(data[0]) != "x" {
		t.Errorf("%q, %v", data, err)
	}
}
