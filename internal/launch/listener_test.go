//go:build linux

package launch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tables are what the system shows of its sockets: 8000 on loopback, 8001 on IPv6, a connection to 8000.
const (
	tcp = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 111 1 0
   1: 0100007F:C001 0100007F:1F40 01 00000000:00000000 00:00000000 00000000  1000        0 222 1 0
   2: 0100007F:1F43 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 444 1 0
   3: 0100007F:1F44 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 555 1 0
   4: 0100007F:1F45 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 666 1 0
`
	tcp6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:1F41 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 333 1 0
`
)

// someProc is a proc file system of a few processes.
func someProc(t *testing.T) string {
	t.Helper()
	proc := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("net/tcp", tcp)
	write("net/tcp6", tcp6)
	log := filepath.Join(proc, "server.log")
	write("server.log", "GPU KV cache size: 1,000 tokens\n")
	site := filepath.Join(proc, "venv")
	write("venv/lib/python3.12/site-packages/vllm-0.32.0.dist-info/METADATA", "")
	process := func(pid, parent string, args, env []string, links map[string]string) {
		write(pid+"/cmdline", strings.Join(args, "\x00")+"\x00")
		write(pid+"/environ", strings.Join(env, "\x00")+"\x00")
		write(pid+"/stat", pid+" (a (strange) name) S "+parent+" 1 1 0")
		if err := os.MkdirAll(filepath.Join(proc, pid, "fd"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, to := range links {
			if err := os.Symlink(to, filepath.Join(proc, pid, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	vllm := []string{filepath.Join(site, "bin/python"), filepath.Join(site, "bin/vllm"), "serve", "m", "--max-num-seqs", "8"}
	process("100", "1", vllm, []string{"HF_TOKEN=x", "VLLM_USE_V1=1", "PATH=/bin"},
		map[string]string{"fd/3": "socket:[111]", "fd/2": log, "exe": "/usr/bin/python3.12"})
	process("101", "100", []string{"VLLM::EngineCore"}, nil, map[string]string{"fd/3": "socket:[111]"})
	process("102", "101", []string{"worker"}, nil, nil)
	process("103", "1", []string{"curl"}, nil, map[string]string{"fd/3": "socket:[222]"})
	process("104", "1", []string{"/usr/bin/llama-server", "-m", "x.gguf"}, nil, map[string]string{"fd/5": "socket:[333]", "fd/2": "/dev/null"})
	process("105", "1", []string{"/usr/bin/docker-proxy", "-proto", "tcp"}, nil, map[string]string{"fd/5": "socket:[444]"})
	process("106", "1", []string{"ssh", "-L", "8004:gpu:8000", "gpu", "vllm", "serve", "m"}, nil, map[string]string{"fd/5": "socket:[555]"})
	process("107", "1", []string{"/opt/bin/python3", "/opt/bin/litellm", "--port", "8005"}, nil, map[string]string{"fd/5": "socket:[666]"})
	return proc
}

func TestTheProcessBehindAPortIsFound(t *testing.T) {
	proc := someProc(t)
	p := listeningUnder(proc, 8000)
	if p == nil {
		t.Fatal("not found")
	}
	if !slices.Equal(p.PIDs, []int{100, 101, 102}) || p.Args[2] != "serve" || !slices.Equal(p.Env, []string{"VLLM_USE_V1=1"}) {
		t.Errorf("%+v", p)
	}
	if v := p.Version(); v != "0.32.0" {
		t.Errorf("version %q", v)
	}
	if n, _ := p.LogFacts().Int("kv_cache_tokens"); n != 1000 {
		t.Errorf("the log tells %v", p.LogFacts())
	}
	if _, engine := p.Command().Facts(); engine.Text("running_limit_requests") != "8" {
		t.Errorf("facts %v", engine)
	}
	if p := listeningUnder(proc, 8001); p == nil || p.Command().EngineName() != "llama.cpp" || p.LogFile != "" || p.Version() != "" {
		t.Errorf("on IPv6: %+v", p)
	}
	if p := listeningUnder(proc, 8003); p != nil {
		t.Errorf("a proxy was taken for a server: %+v", p)
	}
	for port, program := range map[int]string{8004: "ssh", 8005: "litellm"} {
		if p := listeningUnder(proc, port); p == nil || !p.Elsewhere || p.Command() != nil {
			t.Errorf("%s passes on to where it likes: %+v", program, p)
		}
	}
	if p := listeningUnder(proc, 8002); p != nil {
		t.Errorf("where nothing listens: %+v", p)
	}
	if p := (&Process{Args: []string{"/usr/bin/python3", "app.py"}}); p.Command() != nil {
		t.Error("a program that is no engine has a launch command")
	}
}
