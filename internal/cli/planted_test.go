package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"speedmatrix/internal/launch"
	"speedmatrix/internal/report"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// plant is a secret or an identity as it may come in, and the part of it that must not go out.
type plant struct{ text, needle string }

const annaHome = "/" + "home/annegret"

// plants are fifty kinds and more.
var plants = []plant{
	{"sk-proj-planted0123456789abcdef", "planted0123456789"},
	{"sk-ant-api03-planted1123456789abc", "planted1123456789"},
	{"Authorization: Bearer planted-bearer-22", "planted-bearer-22"},
	{"proxy-authorization: Basic cGxhbnRlZDpiYXNpYw==", "cGxhbnRlZDpiYXNp"},
	{"X-Api-Key: planted-header-33", "planted-header-33"},
	{"Cookie: session=planted-cookie-44", "planted-cookie-44"},
	{"Set-Cookie: sid=planted-cookie-45; Path=/", "planted-cookie-45"},
	{"--api-key planted-flag-55", "planted-flag-55"},
	{"--api-key=planted-flag-56", "planted-flag-56"},
	{`--api-key "planted flag 57"`, "planted flag 57"},
	{"--hf-token planted-flag-58", "planted-flag-58"},
	{"--token planted-flag-59", "planted-flag-59"},
	{"HF_TOKEN=planted-env-61", "planted-env-61"},
	{"OPENAI_API_KEY=planted-env-62", "planted-env-62"},
	{"AWS_SECRET_ACCESS_KEY=planted/env+63", "planted/env+63"},
	{"DB_PASSWORD=planted-env-64", "planted-env-64"},
	{"WANDB_API_KEY: planted-env-65", "planted-env-65"},
	{`{"api_key": "planted-json-71"}`, "planted-json-71"},
	{`{'password': 'planted-json-72'}`, "planted-json-72"},
	{`{"access_token":"planted-json-73"}`, "planted-json-73"},
	{`{"client_secret":"planted-json-74"}`, "planted-json-74"},
	{"https://planteduser:plantedpass@data.example.org/x", "plantedpass"},
	{"https://data.example.org/x?api_key=planted-query-81", "planted-query-81"},
	{"https://data.example.org/x?a=b&token=planted-query-82", "planted-query-82"},
	{"https://data.example.org/x?X-Amz-Signature=planted-query-83", "planted-query-83"},
	{"postgres://db:plantedpg@db.example.org/x", "plantedpg"},
	{"hf_plantedplantedplanted91", "plantedplantedplanted91"},
	{"ghp_plantedplantedplanted92", "plantedplantedplanted92"},
	{"github_pat_planted_planted_planted93", "planted_planted_planted93"},
	{"glpat-plantedplanted94xyz", "plantedplanted94"},
	{"xoxb-planted-planted-95", "planted-planted-95"},
	{"AKIAPLANTEDPLANTED96", "PLANTEDPLANTED96"},
	{"AIzaPlantedPlantedPlantedPlantedPla97", "PlantedPlantedPlantedPlantedPla97"},
	{"ya29.plantedplantedplanted98", "plantedplantedplanted98"},
	{"eyJwbGFudGVkOTki.eyJwbGFudGVkIjoxfQ.cGxhbnRlZC1zaWc", "eyJwbGFudGVkIjoxfQ"},
	{"npm_plantedplantedplantedplanted9A", "plantedplantedplantedplanted9A"},
	{"gsk_plantedplantedplanted9B", "plantedplantedplanted9B"},
	{"nvapi-plantedplantedplanted9C", "plantedplantedplanted9C"},
	{"r8_plantedplantedplanted9D", "plantedplantedplanted9D"},
	{"SG.plantedplanted9E00.plantedplanted9E01", "plantedplanted9E00"},
	{"sk_live_plantedplanted9F", "plantedplanted9F"},
	{"12345678:AAplantedplantedplantedplanted9G012", "plantedplantedplantedplanted9G"},
	{"hooks.slack.com/services/T0/B0/plantedplanted9H", "plantedplanted9H"},
	{"-----BEGIN PRIVATE KEY-----\\nUExBTlRFRA\\n-----END PRIVATE KEY-----", "UExBTlRFRA"},
	{annaHome + "/models/steady", annaHome},
	{"/" + "Users/annegreta/models", "annegreta"},
	{`C:\Users\annegretb\models`, "annegretb"},
	{"user=annegret", "annegret"},
	{"annegret@plantbox7:~", "annegret@"},
	{"http://plantbox7:8000/v1", "plantbox7"},
	{"plantbox7.example.org", "plantbox7"},
	{"ip-10-99-98-97.ec2.internal", "10-99-98-97"},
	{"anne.gret@mail.example.org", "anne.gret@"},
	{"10.99.98.97", "10.99.98.97"},
	{"[2001:db8:99::97]:8000", "2001:db8:99::97"},
	{"0a:99:98:97:96:95", "0a:99:98:97:96:95"},
	{"GPU-99999999-1234-5678-9abc-def012345678", "99999999-1234"},
	{"Serial Number: PLANT1321620", "PLANT1321620"},
	{"machine-id=99999999aaaabbbbccccdddd99999999", "99999999aaaabbbb"},
	{"AGE-SECRET-KEY-1PLANTEDPLANTEDPLANTED", "PLANTEDPLANTEDPLANTED"},
}

// planting is a world whose machine is Annegret's.
func (w *world) planting() {
	w.who = who{home: annaHome, user: "annegret", host: "plantbox7.example.org"}
	for i, p := range plants {
		w.environ = append(w.environ, fmt.Sprintf("VLLM_NOTE_%d=%s", i, p.text))
	}
	w.environ = append(w.environ, "MY_SECRET=bare-env-planted-1", "OTHER_TOKEN=bare-env-planted-2", "HOME="+annaHome)
}

// echoes is a server that repeats in its errors, one after the other, all that was planted, and what it was sent.
func echoes(s *truth.Script) {
	s.Fail = func(c truth.Call) *truth.Failure {
		if c.Request < 12 || c.Request%2 != 0 {
			return nil
		}
		n := (c.Request - 12) / 2
		p := wire.EngineBusy()
		p.Message = fmt.Sprintf("no: %s; bare-env-planted-1 bare-env-planted-2 key-given-planted", plants[n%len(plants)].text)
		if n%2 == 0 {
			return &truth.Failure{Kind: truth.FailStatus, Problem: p}
		}
		return &truth.Failure{Kind: truth.FailEvent, After: 3, Problem: p}
	}
}

// none fails the test if anything that was planted is in what came out.
func (w *world) none(dir string) {
	w.t.Helper()
	texts := map[string]string{"standard output": w.out.String(), "standard error": w.err.String()}
	w.addFiles(dir, texts)
	w.addRows(dir, texts)
	for _, form := range []string{"--html", "--text", "--markdown", "--csv", "--json", ""} {
		w.addReport(texts, dir, form)
	}
	for _, p := range report.Pictures() {
		w.addReport(texts, dir, "--svg="+p.Name)
	}
	if len(texts) < 20 {
		w.t.Errorf("only %d texts were searched", len(texts))
	}
	needles := []string{"bare-env-planted-1", "bare-env-planted-2", "key-given-planted"}
	for _, p := range plants {
		needles = append(needles, p.needle)
	}
	for name, text := range texts {
		for _, needle := range needles {
			if i := strings.Index(text, needle); i >= 0 {
				w.t.Errorf("%s holds %q: … %s …", name, needle, text[max(0, i-60):min(len(text), i+60)])
			}
		}
	}
	w.t.Logf("%d secrets, %d texts", len(needles), len(texts))
}

func (w *world) addReport(texts map[string]string, dir, form string) {
	args := []string{"report", dir}
	if form != "" {
		args = append(args, form)
	}
	w.main(args...)
	texts["report "+form] = w.out.String() + w.err.String()
}

// stating gives all that was planted as stated facts.
func stating() (args []string) {
	for i, p := range plants {
		section := []string{"hardware", "engine", "model"}[i%3]
		args = append(args, "--state", fmt.Sprintf("%s.note_%d=%s", section, i, p.text))
	}
	return append(args, "--state", "hardware.serial=4711000", "--state", "hardware.hostname=plantbox7")
}

// flagged gives all that was planted as words of a command line.
func flagged() (words []string) {
	for i, p := range plants {
		words = append(words, fmt.Sprintf("--note-%d", i), p.text)
	}
	return append(words, "--served-model-name", plants[0].text)
}

func TestNothingPlantedLeavesARunThatStartsItsServer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.planting()
		s := steady()
		s.Model, s.Auth = "steady-"+plants[0].text, "key-given-planted"
		echoes(&s)
		var log strings.Builder
		for _, p := range plants {
			log.WriteString("INFO " + strings.ReplaceAll(p.text, `\n`, "\n") + " said\n")
		}
		w.start = w.starter(s, log.String())
		words := slices.Concat([]string{"vllm", "serve", annaHome + "/models/steady", "--port", "8000"}, flagged(), []string{"--api-key", "key-given-planted"})
		command := "SOME_TOKEN=bare-env-planted-2 " + launch.Quote(words)
		args := append([]string{"run", "--launch", command, "--contexts", "0", "--concurrency", "1,4", "--prefill", "none", "--max-output", "64", "--quick", "--out", "run"}, stating()...)
		w.main(args...)
		w.ended(7, "cells failed")
		if log, err := os.ReadFile("run/engine.log"); err != nil || strings.Count(string(log), "\n") < len(plants) {
			t.Errorf("%v; the log is %s", err, log)
		}
		w.none("run")
	})
}

func TestNothingPlantedLeavesARunOfAServerWhoseProcessIsRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.planting()
		s := steady()
		s.Auth = "key-given-planted"
		echoes(&s)
		w.truth(local, s)
		w.listening = func(context.Context, int) *launch.Process {
			return &launch.Process{PIDs: []int{1}, Args: append([]string{annaHome + "/venv/bin/python", "/bin/vllm", "serve", annaHome + "/m", "--api-key", "key-given-planted"}, flagged()...),
				Env: launch.Allowed(w.environ)}
		}
		var plan strings.Builder
		plan.WriteString("api-key: key-given-planted\nheader:\n")
		for i, p := range plants {
			if !strings.Contains(p.text, `"`) && !strings.Contains(p.text, "'") {
				plan.WriteString(fmt.Sprintf("  X-Note-%d: '%s'\n", i, p.text))
			}
		}
		writeFile(t, "plan.yaml", plan.String()+"state:\n  engine.note: '"+plants[0].text+"'\n")
		w.main("run", local, "--plan", "plan.yaml", "--contexts", "0", "--concurrency", "1,4", "--prefill", "none", "--max-output", "64", "--quick", "--events", "--out", "run",
			"--body", `{"user":"annegret","metadata":{"api_key":"key-given-planted"}}`)
		w.ended(7, "cells failed")
		if doc := w.document("run"); doc.LaunchCommand == nil || !strings.Contains(fmt.Sprint(doc.LaunchCommand.Value), "vllm serve") {
			t.Errorf("the launch command is %+v", doc.LaunchCommand)
		}
		if err := os.Remove("plan.yaml"); err != nil {
			t.Error(err)
		}
		w.none("run")
	})
}

func TestNothingPlantedLeavesWithTheProperties(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.planting()
		s := steady()
		s.Engine, s.Model = truth.LlamaCpp, annaHome+"/"+plants[1].text+".gguf"
		server := truth.New(s)
		t.Cleanup(server.Close)
		var all []string
		for _, p := range plants {
			all = append(all, p.text)
		}
		w.handles(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
			if q.URL.Path != "/props" {
				server.Handler().ServeHTTP(rw, q)
				return
			}
			rw.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(rw).Encode(map[string]any{"default_generation_settings": map[string]any{"n_ctx": 4096}, "total_slots": 4,
				"model_path": annaHome + "/" + strings.Join(all, " "), "model_ftype": strings.Join(all, " "), "build_info": strings.Join(all, " "), "chat_template": "x"})
		}))
		w.main("run", local, "--contexts", "0", "--concurrency", "1", "--prefill", "none", "--max-output", "64", "--quick", "--out", "run")
		w.ended(0)
		w.none("run")
	})
}

// A file of another tool is kept beside the run without them, under a name without them, and is still that tool's file.
func TestNothingPlantedLeavesAnImportedFile(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.planting()
		var result map[string]any
		data, err := os.ReadFile(filepath.Join(w.home, "../importer/testdata/vllm-bench-serve-0.32.0.json"))
		if err == nil {
			err = json.Unmarshal(data, &result)
		}
		if err != nil {
			t.Fatal(err)
		}
		notes := []any{map[string]any{"hostname": "plantbox7", "serial": 4711000, "password": "bare-env-planted-1", "api_key": "key-given-planted"}}
		for i, p := range plants {
			notes = append(notes, p.text)
			result[fmt.Sprint("note ", i)] = p.text
			result[p.text] = i
		}
		result["notes"], result["model_id"] = notes, annaHome+"/models/steady"
		if data, err = json.Marshal(result); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"plantbox7.json", "a/result.json", "b/result.json"} {
			writeFile(t, name, string(data))
		}
		w.main("import", "plantbox7.json", "a/result.json", "b/result.json", "--out", "run")
		w.ended(0)
		w.none("run")
		kept, err := os.ReadDir("run/source")
		if err != nil || len(kept) != 3 {
			t.Fatalf("kept are %v: %v", kept, err)
		}
		for _, file := range kept {
			w.main("import", "run/source/"+file.Name(), "--out", file.Name()+".run")
			w.ended(0)
		}
		text, err := os.ReadFile("run/source/result.json")
		if err != nil || !strings.Contains(string(text), `"serial":"«redacted: serial number`) || !strings.Contains(string(text), `"hostname":"«redacted: host name`) {
			t.Errorf("%v: the kept file does not show what was taken out of it", err)
		}
	})
}

// A look at a server shows and prints no more than a run would.
func TestNothingPlantedLeavesALookAtAServer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.planting()
		s := steady()
		s.Model, s.Auth = "steady-"+plants[0].text, "key-given-planted"
		w.truth(local, s)
		w.listening = func(context.Context, int) *launch.Process {
			return &launch.Process{PIDs: []int{1}, Args: append([]string{"vllm", "serve", annaHome + "/m", "-q", plants[1].text}, flagged()...), Env: launch.Allowed(w.environ)}
		}
		for _, form := range [][]string{nil, {"--json"}} {
			w.main(slices.Concat([]string{"probe", local, "--api-key", "key-given-planted"}, form, stating())...)
			w.ended(0)
			text := strings.Join(strings.Fields(w.out.String()+w.err.String()), " ")
			for _, p := range plants {
				if strings.Contains(text, p.needle) {
					t.Errorf("probe %v shows %q", form, p.needle)
				}
			}
		}
	})
}

// What is wrong with a command line is said without what is secret in it.
func TestNothingPlantedLeavesInAnError(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.planting()
		for _, p := range plants {
			for _, args := range [][]string{
				{"run", local, "--state", p.text}, {"run", local, "--header", p.text}, {"run", local, "--contexts", p.text}, {"run", local, "--plan", p.text},
				{"run", local, "--out", "x/" + p.text + "/run"}, {"run", local, "--body", p.text}, {"run", "--launch", "nothing " + p.text}, {"report", p.text}, {p.text},
			} {
				if w.main(args...) == 0 {
					continue
				}
				if text := w.out.String() + w.err.String(); strings.Contains(strings.Join(strings.Fields(text), " "), p.needle) {
					t.Errorf("%q: %s", args, text)
				}
			}
		}
	})
}
