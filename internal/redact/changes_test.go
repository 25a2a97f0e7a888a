package redact

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChangesNameThePlaceTheWordsAndWhatStandsThere(t *testing.T) {
	r := New(Options{Home: "/" + "home/annika"})
	before := map[string]any{
		"launch/command": "serve /" + "home/annika/models --api-key sk-abcdefghijklmnopqrstuvwx",
		"list":           []any{"plain", "/" + "home/annika/x", 4},
		"gone":           r.Mark(APIKey, "whatever"),
	}
	after, err := Copy(r, before)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Changes(before, after)
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{Pointer: "/gone", After: before["gone"].(string)},
		{Pointer: "/launch~1command", Before: before["launch/command"].(string), After: after["launch/command"].(string)},
		{Pointer: "/list/1", Before: "/" + "home/annika/x", After: after["list"].([]any)[1].(string)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNotRedactedIsNoChange(t *testing.T) {
	got, err := Changes([]string{"a"}, []string{"a"})
	if err != nil || len(got) != 0 {
		t.Errorf("changes %v, error %v", got, err)
	}
}
