package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"speedmatrix/internal/need"
	"speedmatrix/internal/yamldoc"
)

// action is the repository's action.yml, workflow its reusable workflow: what of their forms they use.
type action struct {
	Name        string                 `yaml:"name"`
	Description string                 `yaml:"description"`
	Inputs      map[string]actionInput `yaml:"inputs"`
	Outputs     map[string]struct {
		Description string `yaml:"description"`
		Value       string `yaml:"value"`
	} `yaml:"outputs"`
	Runs struct {
		Using string `yaml:"using"`
		Steps []step `yaml:"steps"`
	} `yaml:"runs"`
}

type actionInput struct {
	Description string `yaml:"description"`
	Type        string `yaml:"type"`
	Required    bool   `yaml:"required"`
	Default     any    `yaml:"default"`
}

type workflow struct {
	Name string `yaml:"name"`
	On   struct {
		Call struct {
			Inputs  map[string]actionInput `yaml:"inputs"`
			Outputs any                    `yaml:"outputs"`
		} `yaml:"workflow_call"`
	} `yaml:"on"`
	Jobs struct {
		Gate struct {
			RunsOn      string            `yaml:"runs-on"`
			Timeout     string            `yaml:"timeout-minutes"`
			Concurrency string            `yaml:"concurrency"`
			Permissions map[string]string `yaml:"permissions"`
			Outputs     map[string]string `yaml:"outputs"`
			Steps       []step            `yaml:"steps"`
		} `yaml:"gate"`
	} `yaml:"jobs"`
}

type step struct {
	Name  string            `yaml:"name"`
	ID    string            `yaml:"id"`
	If    string            `yaml:"if"`
	Uses  string            `yaml:"uses"`
	With  map[string]string `yaml:"with"`
	Shell string            `yaml:"shell"`
	Env   map[string]string `yaml:"env"`
	Run   string            `yaml:"run"`
}

// job follows the steps of a job as GitHub's runner does: each script in a bash of its own, with the files through which
// steps speak.
type job struct {
	t         *testing.T
	root      string // the repository of the action
	workspace string
	temp      string
	env       []string
	action    *action
	// values are inputs, outputs of steps and what else expressions name, by their paths.
	values map[string]string
	failed bool
	// uploaded are the paths that became artifacts.
	uploaded []string
}

func newJob(t *testing.T, workspace string, inputs map[string]string) *job {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	j := &job{t: t, root: root, workspace: workspace, temp: t.TempDir(), values: map[string]string{"github.event_name": "pull_request", "github.event.number": "17", "github.token": "token"}}
	j.env = append(os.Environ(), "GITHUB_WORKSPACE="+workspace, "GITHUB_ACTION_PATH="+root, "RUNNER_TEMP="+j.temp)
	j.values["github.action_path"] = root
	j.action = &action{}
	readYAML(t, filepath.Join(root, "action.yml"), j.action)
	for name, value := range inputs {
		j.values["inputs."+name] = value
	}
	return j
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = yamldoc.Decode(path, data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// follow runs the steps; after one that fails only those that ask for it.
func (j *job) follow(steps []step) {
	j.t.Helper()
	for i := range steps {
		s := &steps[i]
		condition := strings.TrimSuffix(strings.TrimPrefix(s.If, "${{"), "}}")
		if j.failed && !strings.Contains(condition, "cancelled()") || condition != "" && !j.evaluate(condition) {
			continue
		}
		switch {
		case s.Run != "":
			j.script(s)
		case strings.HasPrefix(s.Uses, "actions/setup-go@"):
			if _, err := os.Stat(j.expand(s.With["go-version-file"])); err != nil {
				j.t.Error(err)
			}
		case strings.HasPrefix(s.Uses, "actions/checkout@"):
			if path := s.With["path"]; path != "" && j.expand(s.With["repository"]) != "example/speedmatrix" {
				j.t.Errorf("%s is checked out of %q", path, j.expand(s.With["repository"]))
			}
		case strings.HasPrefix(s.Uses, "actions/upload-artifact@"):
			j.uploaded = append(j.uploaded, filepath.Join(j.workspace, s.With["path"]))
		case s.Uses == "./.speedmatrix":
			j.composite(s)
		default:
			j.t.Fatalf("nothing is known of %q", s.Uses)
		}
	}
}

// composite follows the action itself: its inputs are its own, and its outputs are the step's.
func (j *job) composite(s *step) {
	j.t.Helper()
	inside := *j
	inside.values = map[string]string{"github.action_path": j.root}
	for name, input := range j.action.Inputs {
		inside.values["inputs."+name] = fmt.Sprint(input.Default)
	}
	for name, value := range s.With {
		if _, known := j.action.Inputs[name]; !known {
			j.t.Errorf("the action has no input %q", name)
		}
		inside.values["inputs."+name] = j.expand(value)
	}
	inside.follow(j.action.Runs.Steps)
	for name, output := range j.action.Outputs {
		j.values["steps."+s.ID+".outputs."+name] = inside.expand(output.Value)
	}
	j.failed = inside.failed
}

// script runs a step's script.
func (j *job) script(s *step) {
	j.t.Helper()
	if s.Shell != "bash" {
		j.t.Fatalf("%s: shell %q", s.Name, s.Shell)
	}
	files := map[string]string{}
	for _, name := range []string{"GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY", "script"} {
		files[name] = filepath.Join(j.temp, name)
		if name == "GITHUB_STEP_SUMMARY" {
			continue
		}
		if err := os.WriteFile(files[name], nil, 0o600); err != nil {
			j.t.Fatal(err)
		}
	}
	if err := os.WriteFile(files["script"], []byte(j.expand(s.Run)), 0o600); err != nil {
		j.t.Fatal(err)
	}
	cmd := exec.CommandContext(j.t.Context(), need.Program(j.t, "bash"), "--noprofile", "--norc", "-eo", "pipefail", files["script"])
	cmd.Dir, cmd.Env = j.workspace, append([]string{}, j.env...)
	for _, name := range []string{"GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"} {
		cmd.Env = append(cmd.Env, name+"="+files[name])
	}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+j.expand(value))
	}
	out, err := cmd.CombinedOutput()
	j.t.Logf("%s: %v\n%s", s.Name, err, out)
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		j.t.Fatal(err)
	}
	j.failed = j.failed || err != nil
	for line := range strings.SplitSeq(strings.TrimSpace(j.read(files["GITHUB_OUTPUT"])), "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			j.values["steps."+s.ID+".outputs."+name] = value
		}
	}
	if path := strings.TrimSpace(j.read(files["GITHUB_PATH"])); path != "" {
		j.env = append(j.env, "PATH="+path+string(os.PathListSeparator)+j.path())
	}
}

func (j *job) path() (path string) {
	for _, entry := range j.env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	return path
}

func (j *job) read(path string) string {
	j.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		j.t.Fatal(err)
	}
	return string(data)
}

// summary is what the steps wrote onto the page of the job.
func (j *job) summary() string { return j.read(filepath.Join(j.temp, "GITHUB_STEP_SUMMARY")) }

var expression = regexp.MustCompile(`\$\{\{\s*([^}]*?)\s*\}\}`)

// expand puts values in the place of expressions, which in texts are names alone.
func (j *job) expand(text string) string {
	return expression.ReplaceAllStringFunc(text, func(e string) string { return j.value(expression.FindStringSubmatch(e)[1]) })
}

// value is that of a name or of a quoted text.
func (j *job) value(name string) string {
	if quoted, ok := strings.CutPrefix(name, "'"); ok {
		return strings.TrimSuffix(quoted, "'")
	}
	if !regexp.MustCompile(`^(inputs|steps|github)(\.[a-z_-]+)+$`).MatchString(name) {
		j.t.Fatalf("%q is no name", name)
	}
	return j.values[name]
}

// evaluate tells a condition of names, comparisons, && and ||, in which && binds first.
func (j *job) evaluate(condition string) bool {
	for either := range strings.SplitSeq(condition, "||") {
		all := true
		for term := range strings.SplitSeq(either, "&&") {
			all = all && j.holds(strings.TrimSpace(term))
		}
		if all {
			return true
		}
	}
	return false
}

func (j *job) holds(term string) bool {
	if term == "!cancelled()" {
		return true
	}
	if a, b, ok := strings.Cut(term, " != "); ok {
		return j.value(a) != j.value(b)
	}
	if a, b, ok := strings.Cut(term, " == "); ok {
		return j.value(a) == j.value(b)
	}
	return j.value(term) != "" && j.value(term) != "false"
}

// What the recipe shows of a workflow names inputs that there are, and gives those that must be given.
func TestTheRecipeOfTheGateNamesItsInputs(t *testing.T) {
	page, err := os.ReadFile("../../docs/recipes/regression-gate.md")
	if err != nil {
		t.Fatal(err)
	}
	var gate workflow
	var act action
	readYAML(t, "../../.github/workflows/speed-gate.yml", &gate)
	readYAML(t, "../../action.yml", &act)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of YAML", len(blocks))
	}
	var caller struct {
		On   string `yaml:"on"`
		Jobs map[string]struct {
			Uses        string            `yaml:"uses"`
			With        map[string]string `yaml:"with"`
			Permissions map[string]string `yaml:"permissions"`
		} `yaml:"jobs"`
	}
	var steps []step
	for i, into := range []any{&caller, &steps} {
		if err := yamldoc.Decode("the recipe", []byte(blocks[i][1]), into); err != nil {
			t.Fatal(err)
		}
	}
	job := caller.Jobs["speed"]
	if !strings.Contains(job.Uses, "/.github/workflows/speed-gate.yml@") || fmt.Sprint(job.Permissions) != fmt.Sprint(gate.Jobs.Gate.Permissions) {
		t.Errorf("it uses %s with %v", job.Uses, job.Permissions)
	}
	for _, given := range []struct {
		with   map[string]string
		inputs map[string]actionInput
	}{{job.With, gate.On.Call.Inputs}, {steps[0].With, act.Inputs}} {
		for name := range given.with {
			if _, known := given.inputs[name]; !known {
				t.Errorf("there is no input %q", name)
			}
		}
		for name, input := range given.inputs {
			if _, there := given.with[name]; input.Required && !there {
				t.Errorf("the input %q is missing", name)
			}
		}
	}
	for name := range act.Inputs {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the recipe does not name the input %q", name)
		}
		if _, passed := gate.On.Call.Inputs[name]; !passed && name != "out" {
			t.Errorf("the workflow does not hand on %q", name)
		}
	}
}
