package truth

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"speedmatrix/internal/stamp"
)

func TestABeatSendsEveryTokenAndAccountsForIt(t *testing.T) {
	for _, spread := range []bool{false, true} {
		s, err := StartBeat(Beat{Gap: time.Millisecond, Spread: spread})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, seed := range []string{"7", "8"} { // two answers on one connection
			body := `{"model":"truth","messages":[{"role":"user","content":"go"}],"max_tokens":5,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"seed":` + seed + `}`
			answer, err := http.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || strings.Count(string(text), `"content":`) != 5 || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
				t.Errorf("%v: %s", err, text)
			}
			for _, part := range []string{`"completion_tokens":1}`, `"completion_tokens":5}`, `"finish_reason":"length"`} {
				if !strings.Contains(string(text), part) {
					t.Errorf("no %s in %s", part, text)
				}
			}
		}
		account := s.Account()
		if len(account) != 2 || account[0].Seed != 7 || account[1].Seed != 8 {
			t.Fatalf("account %+v", account)
		}
		for _, r := range account {
			last := r.ArrivedNS
			for _, sent := range r.Sent {
				if sent.BeganNS < last || sent.EndedNS < sent.BeganNS {
					t.Errorf("sent %+v after %d", sent, last)
				}
				last = sent.EndedNS
			}
			if len(r.Sent) != 5 {
				t.Errorf("%d tokens", len(r.Sent))
			}
		}
		fetched, err := FetchAccount(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		if difference := cmp.Diff(account, fetched); difference != "" {
			t.Errorf("fetched another account:\n%s", difference)
		}
	}
}

func TestABeatRefusesWhatItCannotRead(t *testing.T) {
	s, err := StartBeat(Beat{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, body := range []string{"{", `{"messages":[{"role":"user","content":"go"}]}`} {
		answer, err := http.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", body, answer.StatusCode)
		}
	}
	s.Close()
	if _, err := FetchAccount(s.URL()); err == nil {
		t.Error("a closed server gave its account")
	}
}

func TestABeatServesWhatLoadGeneratorsAskFor(t *testing.T) {
	const wait = 20 * time.Millisecond
	s, err := StartBeat(Beat{Gap: time.Millisecond, Wait: wait})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		method, path, body, want string
		status                   int
	}{
		{"GET", "/v1/models", "", `"id":"truth"`, http.StatusOK},
		{"GET", "/health", "", "", http.StatusOK},
		{"HEAD", "/metrics", "", "", http.StatusNotFound},
		{"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"go"}],"max_tokens":5}`, "only streams", http.StatusBadRequest},
		{"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"one two"}],"max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`,
			`"usage":{"prompt_tokens":13,"total_tokens":16,"completion_tokens":3}`, http.StatusOK},
		{"POST", "/v1/completions", `{"prompt":[1,2,3],"max_tokens":4,"stream":true}`, `"text":`, http.StatusOK},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, s.URL()+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.status || !strings.Contains(string(text), c.want) {
			t.Errorf("%s %s: %v, status %d: %s", c.method, c.path, err, answer.StatusCode, text)
		}
		if c.want == `"text":` && strings.Contains(string(text), "usage") {
			t.Errorf("usage for who did not ask: %s", text)
		}
	}
	account := s.Account()
	if len(account) != 2 || len(account[0].Sent) != 3 || len(account[1].Sent) != 4 {
		t.Fatalf("account %+v", account)
	}
	for _, r := range account {
		if waited := time.Duration(r.Sent[0].BeganNS - r.ArrivedNS); waited < wait {
			t.Errorf("the first token left after %v", waited)
		}
	}
}

func TestABeatListensWhereItIsTold(t *testing.T) {
	s, err := StartBeat(Beat{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	address := strings.TrimPrefix(s.URL(), "http://")
	if _, err := StartBeat(Beat{Address: address}); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("two servers at one address: %v", err)
	}
	s.Close()
	again, err := StartBeat(Beat{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.URL() != s.URL() {
		t.Errorf("it listens at %s", again.URL())
	}
}

func TestAllStreamsOfABeatGoTogetherOrSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gap, streams = 10 * time.Millisecond, 100
		for _, spread := range []bool{false, true} {
			clock := stamp.NewClock()
			s := &BeatServer{beat: Beat{Gap: gap, Spread: spread, Clock: clock}, began: clock.Now()}
			time.Sleep(123456 * time.Microsecond)
			var waits []int64
			for i := range streams {
				wait := s.first(i) - clock.Now()
				if wait <= 0 || wait > int64(gap) {
					t.Fatalf("stream %d begins in %v", i, time.Duration(wait))
				}
				waits = append(waits, wait)
			}
			slices.Sort(waits)
			if !spread && (waits[0] != waits[streams-1] || waits[0] != int64(10*time.Millisecond-3456*time.Microsecond)) {
				t.Errorf("in lockstep they begin in %v … %v", waits[0], waits[streams-1])
			}
			for i := 1; spread && i < streams; i++ {
				if apart := waits[i] - waits[i-1]; apart > 3*int64(gap)/streams {
					t.Errorf("two are %v apart, the average is %v", time.Duration(apart), gap/streams)
				}
			}
		}
	})
}

func TestTheQueueIsOrderedByDueTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q beatQueue
		var want []int64
		for range rapid.IntRange(1, 3000).Draw(t, "steps") {
			if len(want) > 0 && rapid.Bool().Draw(t, "take") {
				slices.Sort(want)
				if got := q.first().due; got != want[0] {
					t.Fatalf("first due %d, want %d", got, want[0])
				}
				q.take()
				want = want[1:]
				continue
			}
			due := rapid.Int64Range(0, 50).Draw(t, "due")
			q.add(&beatStream{due: due})
			want = append(want, due)
		}
		slices.Sort(want)
		for _, due := range want {
			if q.first().due != due {
				t.Fatalf("first due %d, want %d", q.first().due, due)
			}
			q.take()
		}
		if q.first() != nil {
			t.Fatal("something is left")
		}
	})
}
