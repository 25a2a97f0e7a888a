package launch

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"speedmatrix"
)

// Process is the process behind a listening socket.
type Process struct {
	// PIDs are the process that listens and all that it started, the listener first.
	PIDs []int
	Args []string
	// Env has the allowed variables only.
	Env []string
	// Program is the path of the executable.
	Program string
	// LogFile is the file to which the output goes; "" where it goes to none.
	LogFile string
	// Elsewhere says that it passes everything on to a server that may be on another machine: a tunnel or a proxy.
	Elsewhere bool
}

// Listening finds the process that listens on a TCP port of this machine; nil where none can be seen, as when it runs
// in a container or belongs to somebody else.
func Listening(ctx context.Context, port int) *Process { return listening(ctx, port) }

// Command is the command line of the process; nil where it is no engine's that is known: a proxy or a tunnel listens
// in the place of a server and says nothing about it.
func (p *Process) Command() *Command {
	if p.Elsewhere {
		return nil
	}
	c := Of(p.Args, p.Env)
	if c.see().engine == nil {
		return nil
	}
	return c
}

// packages are the engines' packages of Python.
var packages = map[string]string{nameVLLM: "vllm", nameSGLang: "sglang"}

// Version is the version of the engine's Python package beside the program; "" where there is none.
func (p *Process) Version() string {
	c := p.Command()
	if c == nil || packages[c.EngineName()] == "" {
		return ""
	}
	for _, program := range append([]string{p.Program}, p.Args[:min(2, len(p.Args))]...) {
		root := filepath.Dir(filepath.Dir(program))
		found, err := filepath.Glob(filepath.Join(root, "lib", "python3*", "site-packages", packages[c.EngineName()]+"-*.dist-info"))
		if err != nil || len(found) != 1 {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(found[0]), ".dist-info")
		return name[strings.LastIndexByte(name, '-')+1:]
	}
	return ""
}

// logHead is how much of the beginning of a log file is read: what an engine says of itself stands there.
const logHead = 512 << 10

// LogFacts gives what the beginning of the server's log file says; nothing where there is none.
func (p *Process) LogFacts() speedmatrix.Facts {
	if p.LogFile == "" {
		return speedmatrix.Facts{}
	}
	file, err := os.Open(p.LogFile)
	if err != nil {
		return speedmatrix.Facts{}
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, logHead))
	if err != nil {
		return speedmatrix.Facts{}
	}
	return ReadLog(strings.Split(string(data), "\n"))
}

// SourceLog is the source of facts that a log gave.
const SourceLog = "log"

// logFacts are what engines say of themselves when they start, by the key of the fact.
var logFacts = []struct {
	key  string
	line *regexp.Regexp
}{
	{speedmatrix.EngineAttention, regexp.MustCompile(`Using (\S+?) (?:attention )?backend`)},
	{speedmatrix.EngineAttention, regexp.MustCompile(`Using AttentionBackendEnum\.([A-Z0-9_]+) backend`)},
	{speedmatrix.EngineKVTokens, regexp.MustCompile(`(?:GPU|CPU) KV cache size: ([0-9,]+) tokens`)},
	{speedmatrix.EngineKVTokens, regexp.MustCompile(`max_total_num_tokens=([0-9]+)`)},
	{"kv_unified", regexp.MustCompile(`n_slots = \d+, n_ctx_slot = \d+, kv_unified = '?(true|false)`)},
}

// ReadLog gives the facts in the lines of an engine's log.
func ReadLog(lines []string) speedmatrix.Facts {
	facts := speedmatrix.Facts{}
	for _, line := range lines {
		for _, f := range logFacts {
			m := f.line.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			switch n, whole := humanInt(strings.ReplaceAll(m[1], ",", "")); {
			case whole:
				facts.Set(f.key, n, SourceLog)
			case m[1] == "true" || m[1] == "false":
				facts.Set(f.key, m[1] == "true", SourceLog)
			default:
				facts.Set(f.key, strings.Trim(m[1], "."), SourceLog)
			}
		}
	}
	return facts
}

// forwarders listen in the place of servers in containers of this machine, proxies in the place of any.
var (
	forwarders = []string{"docker-proxy", "rootlessport", "rootlesskit", "pasta", "slirp4netns"}
	proxies    = []string{"ssh", "sshd", "autossh", "kubectl", "nginx", "haproxy", "envoy", "caddy", "traefik", "socat", "litellm"}
)

// listener is the process with these arguments, as far as it is not one that only passes on.
func listener(pids []int, args []string) *Process {
	if len(args) == 0 || slices.Contains(forwarders, baseName(args[0])) {
		return nil
	}
	p := &Process{PIDs: pids, Args: args}
	for _, word := range args[:min(2, len(args))] { // a script's name stands behind its interpreter
		p.Elsewhere = p.Elsewhere || slices.Contains(proxies, baseName(word))
	}
	return p
}
