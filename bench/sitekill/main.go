// Command sitekill shows that a results site survives being killed: it uploads runs to one, at the same time and in both ways,
// kills it (SIGKILL) at random moments and starts it again. At the end each run that was acknowledged must be there, whole,
// and no other run.
//
//	go run ./bench/sitekill [-runs 200] [-at-once 8] [-seed N] [-dir DIR]
//
// It runs from the root of the repository, whose testdata has the run that it uploads under many names.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"speedmatrix/internal/siteclient"
)

// A kill comes at random between these times after the site answers.
const (
	earliest = 200 * time.Millisecond
	latest   = 2500 * time.Millisecond
)

func main() {
	runs := flag.Int("runs", 200, "how many runs are uploaded")
	atOnce := flag.Int("at-once", 8, "how many at a time")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random moments")
	dir := flag.String("dir", "", "folder of the site, kept afterwards (default: a temporary one)")
	flag.Parse()
	fmt.Printf("seed %d\n", *seed)
	t := &trial{runs: *runs, atOnce: *atOnce, random: rand.New(rand.NewPCG(*seed, 0)), acknowledged: map[string]string{}}
	if err := t.all(context.Background(), *dir); err != nil {
		fmt.Fprintln(os.Stderr, "sitekill:", err)
		os.Exit(1)
	}
}

// trial is one site that is killed several times.
type trial struct {
	runs, atOnce int
	random       *rand.Rand
	program, dir string
	base         string
	client       *siteclient.ClientWithResponses

	mu           sync.Mutex
	acknowledged map[string]string // the site's name for each run, by its own
	lost         int               // uploads whose answer never came
}

func (t *trial) all(ctx context.Context, folder string) error {
	work, err := os.MkdirTemp("", "speedmatrix-sitekill-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	t.program, t.dir = filepath.Join(work, "speedmatrix"), folder
	if t.dir == "" {
		t.dir = filepath.Join(work, "site")
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", t.program, "speedmatrix/cmd/speedmatrix")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the program: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t.base = "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	if t.client, err = siteclient.NewClientWithResponses(t.base+"/api/v1", siteclient.WithHTTPClient(&http.Client{Timeout: 2 * time.Minute})); err != nil {
		return err
	}
	return t.upload(ctx)
}

// upload uploads every run while the site is killed again and again, and then looks at what is there.
func (t *trial) upload(ctx context.Context) error {
	left := make(chan int, t.runs)
	for i := range t.runs {
		left <- i
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var senders sync.WaitGroup
	failed := make(chan error, t.atOnce)
	for range t.atOnce {
		senders.Go(func() { failed <- t.sender(ctx, left) })
	}
	all := make(chan struct{})
	go func() {
		senders.Wait()
		close(all)
	}()
	kills, start := 0, time.Now()
	for done := false; !done; {
		site, err := t.start(ctx)
		if err != nil {
			return err
		}
		after := earliest + time.Duration(t.random.Int64N(int64(latest-earliest)))
		select {
		case <-all:
			done = true
		case <-time.After(after):
			kills++
		}
		_ = site.Process.Kill()
		_ = site.Wait() // it was killed
	}
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	fmt.Printf("%d runs acknowledged in %.1f s, %d kills, %d answers lost\n", len(t.acknowledged), time.Since(start).Seconds(), kills, t.lost)
	return t.look(ctx)
}

// start starts the site and waits until it answers.
func (t *trial) start(ctx context.Context) (*exec.Cmd, error) {
	site := exec.CommandContext(ctx, t.program, "serve", "--addr", t.base[len("http://"):], "--data", t.dir)
	log, err := os.OpenFile(t.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	site.Stderr = log
	if err := site.Start(); err != nil {
		return nil, err
	}
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		r, err := http.Get(t.base + "/healthz")
		if err != nil {
			continue
		}
		_ = r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return site, nil
		}
	}
	_ = site.Process.Kill()
	return nil, errors.Join(errors.New("the site does not answer within a minute; its log is "+t.dir+".log"), site.Wait())
}

// look compares what the site has with what it acknowledged.
func (t *trial) look(ctx context.Context) error {
	site, err := t.start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		_ = site.Process.Kill()
		_ = site.Wait()
	}()
	mine, err := t.client.ListMyRunsWithResponse(ctx)
	if err != nil {
		return err
	}
	if mine.JSON200 == nil || len(mine.JSON200.Runs) != t.runs {
		return fmt.Errorf("the site should have %d runs: %.200s", t.runs, mine.Body)
	}
	files, bytes := 0, int64(0)
	for name, id := range t.acknowledged {
		n, size, err := t.whole(ctx, id, name)
		if err != nil {
			return fmt.Errorf("run %s (%s): %w", id, name, err)
		}
		files, bytes = files+n, bytes+size
	}
	left, err := filepath.Glob(filepath.Join(t.dir, "uploads", "*", "*"))
	fmt.Printf("each is there once and whole: %d files, %.1f MB read again with their hashes; left over in the folder of uploads: %d\n", files, float64(bytes)/1e6, len(left))
	return err
}

// get reads an address of the site.
func (t *trial) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base+path, nil)
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", path, r.Status)
	}
	return data, err
}
