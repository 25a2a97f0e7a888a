package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"speedmatrix"
)

// wrong is a command line that cannot be followed.
type wrong struct {
	args  []string
	files map[string]string
	code  int
	what  string // the first line, after the program's name
	next  string // in what follows, whatever the line breaks
}

// wrongUsage are command lines of exit code 2, and files of the user's that are at fault.
var wrongUsage = []wrong{
	{args: []string{"reprot"}, what: `there is no command "reprot"`, next: "Did you mean: speedmatrix report"},
	{args: []string{"frobnicate"}, what: `there is no command "frobnicate"`, next: "All commands: speedmatrix help"},
	{args: []string{"help", "rum"}, what: `there is no command "rum"`, next: "Did you mean: speedmatrix run"},
	{args: []string{"help", "run", "twice"}, what: `there is no command "run twice"`},
	{args: []string{"--quik"}, what: "there is no flag --quik", next: "All flags: speedmatrix --help"},
	{args: []string{"run", "--contexs", "1K"}, what: "there is no flag --contexs", next: "Did you mean --contexts?"},
	{args: []string{"run", "-c", "1"}, what: "there is no flag -c", next: "All flags: speedmatrix run --help"},
	{args: []string{"run", "--contexts"}, what: "--contexts needs a value"},
	{args: []string{"run", "a", "b"}, what: "run takes one URL, but was given 2 arguments", next: "Usage: speedmatrix run [URL] [flags]"},
	{args: []string{"report"}, what: "report takes one run directory, but was given 0 arguments", next: "Usage: speedmatrix report RUN [flags]"},
	{args: []string{"report", "--csv", "--json", "x"}, what: "a report has one form, but several were asked for", next: "Choose one of --html, --text, --markdown, --csv, --json, --svg, --png and --open."},
	{args: []string{"verify", "a", "b"}, what: "verify takes one run directory, but was given 2 arguments"},
	{args: []string{"version", "x"}, what: `version takes no argument, but was given "x"`},

	{args: []string{"run", "--contexts", "-5"}, what: `--contexts: "-5" is not a number of tokens (write 16384, 16K or 1M)`},
	{args: []string{"run", "--contexts", ""}, what: `--contexts: "" is not a number of tokens`},
	{args: []string{"run", "--contexts", "1K,,2K"}, what: `--contexts: "" is not a number of tokens`},
	{args: []string{"run", "--contexts", "200M"}, what: "a context of 209715200 cannot be measured", next: "It is a whole number from 0 to 100,000,000."},
	{args: []string{"run", "--contexts", "9999999999999999999999"}, what: `--contexts: "9999999999999999999999" is more than 2,147,483,647 tokens`},
	{args: []string{"run", "--contexts", "16K,16384"}, what: "the context 16K is given twice", next: "Give each once."},
	{args: []string{"run", "--contexts", "max,0,max"}, what: "the context max is given twice"},
	{args: []string{"run", "--concurrency", "0"}, what: "a concurrency of 0 cannot be measured", next: "It is a whole number from 1 to 16,384."},
	{args: []string{"run", "--concurrency", "-1"}, what: "a concurrency of -1 cannot be measured"},
	{args: []string{"run", "--concurrency", "20000"}, what: "a concurrency of 20000 cannot be measured"},
	{args: []string{"run", "--concurrency", "4,1,4"}, what: "the concurrency 4 is given twice"},
	{args: []string{"run", "--concurrency", "1.5"}, what: `--concurrency: "1.5" is no number of requests; write a list such as 1,2,4,8`},
	{args: []string{"run", "--concurrency", "99999999999999999999"}, what: `--concurrency: "99999999999999999999" is no number of requests`},
	{args: []string{"run", "--prefill", "0"}, what: "a prefill size of 0 cannot be measured"},
	{args: []string{"run", "--prefill", "8K,8K"}, what: "the prefill size 8K is given twice"},
	{args: []string{"run", "--prefill", "max"}, what: `--prefill: "max" is not a number of tokens`},

	{args: []string{"run", "--duration", "30"}, what: `--duration: "30" is no time; write it like 30s, 20m or 1h`},
	{args: []string{"run", "--duration", "1s"}, what: "--duration 1s is too short to be compared with other runs", next: "Take 5s or more, or --quick"},
	{args: []string{"run", "--duration", "2h"}, what: "is longer than an hour", next: "A window of 30s is the default."},
	{args: []string{"run", "--quick", "--duration", "30s"}, what: "--quick measures each cell for 5 s", next: "Leave one of the two out."},
	{args: []string{"run", "--quick=maybe"}, what: `--quick: "maybe" is neither true nor false`},
	{args: []string{"run", "--max-time", "-5s"}, what: "--max-time: -5s is no time that can be measured"},
	{args: []string{"run", "--max-output", "5"}, what: "--max-output 5 cannot be measured", next: "It is at least 64 tokens."},
	{args: []string{"run", "--max-output", "0"}, what: "--max-output: 0 tokens cannot be measured"},
	{args: []string{"run", "--precision", "0"}, what: `--precision: "0" is no share; write it like 1% or 0.01`},
	{args: []string{"run", "--precision", "NaN"}, what: `--precision: "NaN" is no share`},
	{args: []string{"run", "--precision", "60%"}, what: "--precision 0.6 is out of range", next: "below 50%"},
	{args: []string{"run", "--repeat", "0"}, what: `--repeat: "0" is no whole number above 0`},
	{args: []string{"run", "--repeat", "101"}, what: "--repeat 101 is out of range", next: "It is from 1 to 100."},
	{args: []string{"run", "--prompts", "copied"}, what: `--prompts cannot be "copied"`, next: "It is distinct, shared or shared-prefix."},
	{args: []string{"run", "--kv-plan", "guess"}, what: `--kv-plan cannot be "guess"`, next: "It is observe or reserve."},
	{args: []string{"run", "--method", "best"}, what: `there is no method "best"`, next: "The methods: standard/1, quick/1, compat/llm-inference-bench."},
	{args: []string{"run", "--temperature", "1x"}, what: `--temperature: "1x" is no number`},
	{args: []string{"run", "--temperature", "NaN"}, what: `--temperature: "NaN" is no number`},
	{args: []string{"run", "--temperature", "-1"}, what: `--temperature cannot be "-1"`, next: `Give a number such as 0.8, or "server"`},
	{args: []string{"run", "--body", "[]"}, what: `--body: it must be one JSON object, such as {"top_p":0.95}`},
	{args: []string{"run", "--body", "null"}, what: "--body: it must be one JSON object"},
	{args: []string{"run", "--body", "{"}, what: `--body: it must be one JSON object, such as {"top_p":0.95}: unexpected end of JSON input`},
	{args: []string{"run", "--api", "grpc"}, what: `--api: there is no API "grpc"; it is auto, chat, completions, responses, anthropic, ollama, tgi`},
	{args: []string{"run", "--state", "gpu=RTX"}, what: "--state gpu=RTX states nothing", next: "Write model.KEY=VALUE, engine.KEY=VALUE, hardware.KEY=VALUE or launch_command=VALUE"},

	{args: []string{"run", "--header", "nothing"}, what: "--header needs NAME: VALUE", next: `Such as --header "X-Team: speed".`},
	{args: []string{"run", "--header", "a b: c"}, what: "--header needs NAME: VALUE"},
	{args: []string{"run", "--header", "X-Key: a\nb"}, what: "--header needs NAME: VALUE"},
	{args: []string{"run", "--api-key", "one\ntwo"}, what: "the API key holds a line break", next: "Look at the file or the variable that it comes from."},
	{args: []string{"run", "--api-key-file", "none"}, what: "the key file cannot be read: open none: no such file or directory"},
	{args: []string{"run", "--ca-file", "none"}, what: "the certificate file cannot be read: open none: no such file or directory"},
	{args: []string{"run", "--ca-file", "ca"}, files: map[string]string{"ca": "x"}, what: "ca holds no certificate in PEM form", next: "It begins with -----BEGIN CERTIFICATE-----."},
	{args: []string{"run", "--text", "none"}, what: "the text for the prompts cannot be read: open none: no such file or directory"},
	{args: []string{"run", "--text", "t"}, files: map[string]string{"t": "\n"}, what: `the text "t" is empty`, next: "about 4 characters per token"},
	{args: []string{"run", "--text", "t"}, files: map[string]string{"t": "\xff"}, what: `the text "t" is not UTF-8`, next: "convert the file"},

	{args: []string{"run", "--plan", "none"}, what: "the plan file cannot be read: open none: no such file or directory"},
	{args: []string{"run", "--plan", "p.yaml"}, files: map[string]string{"p.yaml": "contexts: [0]\nconcurency: [1]\n"},
		what: `p.yaml line 2: unknown field "concurency"; did you mean "concurrency"?`, next: "A plan file holds the flags of run under their names: speedmatrix run --help"},
	{args: []string{"run", "--plan", "p.yaml"}, files: map[string]string{"p.yaml": "contexts: [0, 16K, -3]\n"}, what: `p.yaml: contexts: "-3" is not a number of tokens`},
	{args: []string{"run", "--plan", "p.yaml"}, files: map[string]string{"p.yaml": "repeat: twice\n"}, what: `p.yaml: repeat: "twice" is no whole number above 0`},
	{args: []string{"run", "--plan", "p.yaml"}, files: map[string]string{"p.yaml": "contexts: [0\n"}, what: "p.yaml line 1:"},
	{args: []string{"run", "--plan", "p.yaml"}, files: map[string]string{"p.yaml": "repeat: 2\nrepeat: 3\n"}, what: `p.yaml line 2: the field "repeat" is given twice, first on line 1`},

	{args: []string{"run", "ftp://x"}, what: `not a server's URL: the scheme "ftp" is neither http nor https`, next: "A URL looks like http://127.0.0.1:8000."},
	{args: []string{"run", "http://"}, what: "not a server's URL: it names no host"},
	{args: []string{"run", "http://ann:pass@host"}, what: "not a server's URL: it carries a user name or a password", next: "--header 'Authorization: Basic …'"},
	{args: []string{"run", "http://host/v1?key=1"}, what: "not a server's URL: it carries a query"},
}

// wrongOutput are places of exit code 6.
var wrongOutput = []wrong{
	{args: []string{"run", "--out", "there"}, files: map[string]string{"there": ""}, what: "there exists already", next: "Choose another directory."},
	{args: []string{"run", "--out", "there"}, files: map[string]string{"there/run.json": "{}"}, what: "there exists already",
		next: "Choose another directory, or go on with this run: speedmatrix run --resume there"},
	{args: []string{"run", "--out", "file/run"}, files: map[string]string{"file": ""}, what: "cannot write file/run: a part of the path is a file, not a directory"},
	{args: []string{"run", "--resume", "none"}, what: "there is no run directory none", next: "it holds run.json"},
	{args: []string{"run", "--resume", "file"}, files: map[string]string{"file": ""}, what: "file is a file, not a run directory"},
	{args: []string{"run", "--resume", "dir"}, files: map[string]string{"dir/x": ""}, what: "there is no run.json in dir"},
	{args: []string{"run", "--resume", "dir"}, files: map[string]string{"dir/run.json": "{\n\"schema\": 5"}, what: "run.json is damaged at byte 13, line 2"},
	{args: []string{"run", "--resume", "dir"}, files: map[string]string{"dir/run.json": `{"schema":"speedmatrix.run/9"}`}, what: `the run has the schema "speedmatrix.run/9"`},
	{args: []string{"report", "none"}, what: "there is no run directory none", next: "Name the directory that a run wrote"},
	{args: []string{"verify", "none"}, what: "there is no run directory none"},
}

// Every fault that can be seen without the server is told before anything is sent, and leaves nothing behind.
func TestAWrongCommandLineIsExplainedBeforeAnythingIsSent(t *testing.T) {
	for _, tt := range wrongUsage {
		tt.code = 2
		t.Run(strings.Join(tt.args, " "), tt.test)
	}
	for _, tt := range wrongOutput {
		tt.code = 6
		t.Run(strings.Join(tt.args, " "), tt.test)
	}
}

func (tt wrong) test(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		dialled := w.dialled()
		for name, text := range tt.files {
			writeFile(t, name, text)
		}
		args := tt.args
		if args[0] == "run" && !strings.Contains(strings.Join(args, " "), "://") {
			args = append([]string{"run", local}, args[1:]...)
		}
		if len(tt.args) > 1 && tt.args[1] == "a" {
			args = tt.args
		}
		w.main(args...)
		w.ended(tt.code, tt.next)
		lines := strings.Split(strings.TrimSuffix(w.err.String(), "\n"), "\n")
		if !strings.HasPrefix(lines[0], "speedmatrix: ") || !strings.Contains(lines[0], tt.what) {
			t.Errorf("the first line is %q, want %q", lines[0], tt.what)
		}
		if len(lines) < 2 {
			t.Errorf("nothing says what to do next: %s", w.err.String())
		}
		for _, line := range lines[1:] {
			if utf8.RuneCountInString(line) > 80 && !strings.Contains(line, "speedmatrix ") || !strings.HasPrefix(line, "  ") {
				t.Errorf("not a line of what comes next: %q", line)
			}
		}
		if w.out.String() != "" {
			t.Errorf("standard output: %s", w.out.String())
		}
		if dialled() {
			t.Error("something was sent before")
		}
		for name := range tt.files {
			if err := os.RemoveAll(strings.Split(name, "/")[0]); err != nil {
				t.Error(err)
			}
		}
		w.nothingLeft()
	})
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A place that cannot be written: without permissions, which the super-user ignores, or in the system's own tree.
func TestAPlaceThatCannotBeWrittenIsRefusedBeforeAnythingIsSent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		dialled := w.dialled()
		place := "closed"
		if err := os.Mkdir(place, 0o500); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			place = "/sys"
		}
		w.main("run", local, "--out", filepath.Join(place, "run"))
		w.ended(6, "cannot write "+place+"/run:", "Choose another directory")
		if dialled() {
			t.Error("something was sent before")
		}
		if err := os.Remove("closed"); err != nil {
			t.Error(err)
		}
		w.nothingLeft()
	})
}

func TestHelpFitsEightyColumns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pages := [][]string{{}, {"help"}, {"--help"}, {"help", "run"}, {"run", "--help"}, {"help", "report"}, {"help", "verify"}, {"help", "compare"}, {"version", "--help"}}
		for _, args := range pages {
			w.main(args...)
			w.ended(0)
			if w.err.String() != "" {
				t.Errorf("%v: standard error: %s", args, w.err.String())
			}
			for line := range strings.Lines(w.out.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
					t.Errorf("%v: %d columns: %s", args, n, line)
				}
			}
		}
		w.main("help", "run")
		w.golden("help-run.txt", w.out.String())
	})
}

// Every exit code that the program can give is in its help.
func TestHelpNamesEveryExitCode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.main("help")
		for kind := speedmatrix.KindInternal; kind <= speedmatrix.KindInterrupted; kind++ {
			code, _ := json.Marshal(kind.ExitCode())
			if !strings.Contains(w.out.String(), "  "+string(code)+"  ") {
				t.Errorf("exit code %s is not explained:\n%s", code, w.out.String())
			}
		}
	})
}

func TestShellCompletionIsThere(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
			w.main("completion", shell)
			w.ended(0)
			if !strings.Contains(w.out.String(), "speedmatrix") {
				t.Errorf("%s: %s", shell, w.out.String())
			}
		}
		w.main("__complete", "run", "--conc")
		if !strings.Contains(w.out.String(), "--concurrency") {
			t.Errorf("--conc is not completed:\n%s", w.out.String())
		}
	})
}
