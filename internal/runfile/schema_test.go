package runfile

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
)

type node struct {
	Ref         string          `json:"$ref"`
	Description string          `json:"description"`
	AnyOf       []node          `json:"anyOf"`
	Type        any             `json:"type"`
	Enum        []string        `json:"enum"`
	Properties  map[string]node `json:"properties"`
	Required    []string        `json:"required"`
	Additional  any             `json:"additionalProperties"`
	Items       *node           `json:"items"`
	Defs        map[string]node `json:"$defs"`
}

func readSchema(t *testing.T) node {
	t.Helper()
	var root node
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	return root
}

// place is a part of the schema beside the type that it describes.
type place struct {
	root, node node
	of         reflect.Type
	path       string
	optional   bool
}

func (p place) sub(n node, of reflect.Type, name string) place {
	return place{root: p.root, node: n, of: of, path: p.path + name}
}

func TestTheSchemaHasEveryFieldOfTheTypesAndNoOther(t *testing.T) {
	root := readSchema(t)
	agree(t, place{root: root, node: root, of: reflect.TypeFor[speedmatrix.Run](), path: "run"})
}

// agree walks schema and type side by side.
func agree(t *testing.T, p place) {
	t.Helper()
	of, nullable := p.of, p.of.Kind() == reflect.Pointer
	if nullable {
		of = of.Elem()
	}
	target, null := resolve(p.root, p.node)
	if null != nullable && !(p.optional && nullable) && of.Kind() != reflect.Interface {
		t.Errorf("%s: null allowed %v, the type says %v", p.path, null, nullable)
	}
	names := map[reflect.Kind]string{
		reflect.Map: "object", reflect.String: "string", reflect.Int: "integer", reflect.Float64: "number", reflect.Bool: "boolean",
	}
	switch {
	case of == reflect.TypeFor[time.Time]():
		want(t, p.path, target.Type, "string")
	case of.Kind() == reflect.Struct:
		agreeObject(t, p.sub(target, of, ""))
	case of.Kind() == reflect.Slice:
		if target.Items == nil {
			t.Fatalf("%s: no list in the schema", p.path)
		}
		agree(t, p.sub(*target.Items, of.Elem(), "[]"))
	case names[of.Kind()] != "":
		want(t, p.path, target.Type, names[of.Kind()])
	}
}

func agreeObject(t *testing.T, p place) {
	t.Helper()
	if p.node.Additional != false {
		t.Errorf("%s: other properties are allowed", p.path)
	}
	var names, required []string
	for f := range p.of.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
		if options != "omitempty" {
			required = append(required, name)
		}
		property, ok := p.node.Properties[name]
		if !ok {
			continue
		}
		if property.Description == "" {
			t.Errorf("%s.%s has no description", p.path, name)
		}
		// A fact may hold facts: once is enough.
		if f.Type != reflect.SliceOf(p.of) {
			sub := p.sub(property, f.Type, "."+name)
			sub.optional = options == "omitempty"
			agree(t, sub)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(p.node.Properties))); diff != "" {
		t.Errorf("%s: fields of the type (−) and of the schema (+):\n%s", p.path, diff)
	}
	slices.Sort(required)
	if diff := cmp.Diff(required, slices.Sorted(slices.Values(p.node.Required))); diff != "" {
		t.Errorf("%s: required fields of the type (−) and of the schema (+):\n%s", p.path, diff)
	}
}

// resolve follows a reference and says whether null is allowed.
func resolve(root, n node) (node, bool) {
	switch {
	case n.Ref != "":
		return root.Defs[strings.TrimPrefix(n.Ref, "#/$defs/")], false
	case len(n.AnyOf) == 2:
		target, _ := resolve(root, n.AnyOf[0])
		return target, n.AnyOf[1].Type == "null"
	}
	list, ok := n.Type.([]any)
	if !ok {
		return n, false
	}
	n.Type = list[0]
	return n, list[len(list)-1] == "null"
}

func want(t *testing.T, path string, got any, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v in the schema, %s in the type", path, got, want)
	}
}

func TestTheSchemaListsTheWordsOfTheVocabulary(t *testing.T) {
	root := readSchema(t)
	cell := root.Defs["cell"].Properties
	var statuses []string
	for _, s := range speedmatrix.Statuses() {
		statuses = append(statuses, string(s))
	}
	tests := map[string]struct{ have, want []string }{
		"status": {cell["status"].Enum, statuses},
		"phase":  {cell["phase"].Enum, []string{string(speedmatrix.PhasePrefill), string(speedmatrix.PhaseDecode)}},
		"origin": {root.Properties["origin"].Enum, []string{
			string(speedmatrix.OriginMeasured), string(speedmatrix.OriginPredicted), string(speedmatrix.OriginImported),
		}},
		"ttft_kind": {cell["ttft_kind"].Enum, []string{
			"", string(speedmatrix.TTFTCold), string(speedmatrix.TTFTWarm), string(speedmatrix.TTFTMixed), string(speedmatrix.TTFTUnknown),
		}},
		"token_source": {cell["token_source"].Enum, []string{
			"", string(speedmatrix.TokensPerEventUsage), string(speedmatrix.TokensFinalUsage), string(speedmatrix.TokensTokenizer),
			string(speedmatrix.TokensCounters), string(speedmatrix.TokensWarmUp), string(speedmatrix.TokensEvents),
		}},
		"verdict": {root.Defs["throttle"].Properties["verdict"].Enum, []string{
			string(speedmatrix.ThrottleHardware), string(speedmatrix.ThrottleThermal), string(speedmatrix.ThrottlePowerCap), string(speedmatrix.ThrottleNone),
		}},
		"of": {root.Defs["telemetry"].Properties["of"].Enum, []string{speedmatrix.TelemetryOfServer, speedmatrix.TelemetryOfClient}},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, test.have); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestTheSchemaRefusesWhatNoRunMayHold(t *testing.T) {
	tests := map[string]struct{ from, to, says string }{
		"status":        {`"status": "Valid"`, `"status": "Fine"`, "/cells/0/status"},
		"phase":         {`"phase": "decode"`, `"phase": "burst"`, "/cells/0/phase"},
		"origin":        {`"origin": "measured"`, `"origin": "guessed"`, "/origin"},
		"missing":       {`"queued_share": 0.25,`, ``, "queued_share"},
		"share above 1": {`"queued_share": 0.25`, `"queued_share": 1.25`, "queued_share"},
		"local time":    {`123456789Z`, `123456789+02:00`, "started_at"},
		"null list":     {`"index": 3,`, `"index": null,`, "/repeats/0/index"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			data := encoded(t, fullRun(t))
			changed := bytes.ReplaceAll(data, []byte(test.from), []byte(test.to))
			if bytes.Equal(changed, data) {
				t.Fatal("nothing was changed")
			}
			wantOutput(t, Validate(changed), "does not match its schema", test.says)
		})
	}
}
