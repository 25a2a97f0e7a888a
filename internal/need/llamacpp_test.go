package need_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"speedmatrix/internal/need"
)

func TestRealLlamaCPPIsAsTheSettingPromises(t *testing.T) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, need.Setting(t, need.LlamaCPP)+"/props", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var props struct {
		Slots    int `json:"total_slots"`
		Defaults struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if err := json.NewDecoder(response.Body).Decode(&props); err != nil {
		t.Fatalf("status %s: %v", response.Status, err)
	}
	if props.Slots != 4 || props.Defaults.Context != 2048 {
		t.Errorf("%d slots of %d tokens, want 4 of 2,048", props.Slots, props.Defaults.Context)
	}
}
