package cli_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/launch"
	"speedmatrix/internal/runfile"
)

// simCommand starts the simulated server in a process of its own on a free port.
func simCommand(t *testing.T) (command, address string) {
	t.Helper()
	port := freePort(t)
	return asProgram + "=1 " + launch.Quote([]string{os.Args[0], "sim", "--port", port}), "127.0.0.1:" + port
}

// freePort is a port on loopback at which nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// listens says whether anything listens at an address.
func listens(address string) bool {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// until waits for something, as long as a busy machine may take.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come to pass that %s", what)
		}
	}
}

// A real server, started, measured and stopped: nothing of it is left.
func TestRealRunStartsAServerAndStopsIt(t *testing.T) {
	command, address := simCommand(t)
	dir := filepath.Join(t.TempDir(), "run")
	out, err := program(t, "run", "--launch", command, "--quick", "--contexts", "0", "--concurrency", "1", "--prefill", "none", "--yes", "--out", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if listens(address) {
		t.Error("the server was left running")
	}
	open, err := runfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	doc, _, err := open.LoadRun()
	if err != nil {
		t.Fatal(err)
	}
	if launched, _ := doc.Engine.Bool(speedmatrix.EngineLaunched); !launched || doc.Engine[speedmatrix.EngineReadySeconds].Value == nil || doc.FindCell(speedmatrix.PhaseDecode, 0, 1).TotalTokensPerSecond == nil {
		t.Errorf("engine %v", doc.Engine)
	}
	if log, err := open.Log(); err != nil || !strings.Contains(string(log), "Serves") {
		t.Errorf("%v; the log is %q", err, log)
	}
}

// A program that is killed takes its server along, however deep that stands.
func TestRealServerOfAKilledRunEnds(t *testing.T) {
	command, address := simCommand(t)
	cmd := program(t, "run", "http://"+address, "--launch", launch.Quote([]string{"sh", "-c", "(" + command + ") & wait"}), "--contexts", "0", "--yes",
		"--out", filepath.Join(t.TempDir(), "run"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.HasPrefix(lines.Text(), "Ready"); {
	}
	if !listens(address) {
		t.Fatal("the server was not started")
	}
	_ = cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	until(t, "the server ends", func() bool { return !listens(address) })
}

// The process behind a port is found, here this test itself.
func TestRealListenerIsFound(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := launch.Listening(t.Context(), l.Addr().(*net.TCPAddr).Port)
	if p == nil {
		t.Skip("this system does not show which process listens")
	}
	if p.PIDs[0] != os.Getpid() || !strings.Contains(strings.Join(p.Args, " "), filepath.Base(os.Args[0])) {
		t.Errorf("%s is not %+v", strconv.Itoa(os.Getpid()), p)
	}
}
