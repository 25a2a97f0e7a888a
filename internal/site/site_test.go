package site

import "testing"

func TestWorld(t *testing.T) {
	w := newWorld(t)
	w.put(seed(t, qwenSeed), ann, qwenChecks)
	a := w.put(seed(t, agentsSeed), bob, nil)
	w.invented(40)
	for _, path := range []string{"/runs/" + a, "/runs/" + a + "/checks", "/runs/" + a + "/history", "/hardware", "/hardware/rtx-3090-24gb", "/models", "/engines", "/engines/vllm", "/hardware/rtx-3090-24gb.json",
		"/runs/" + a + ".json", "/runs/" + a + ".csv", "/runs/" + a + ".md", "/runs/" + a + "/card.png", "/runs/" + a + "/badge.svg", "/runs/" + a + "/heatmap.svg", "/upload", "/signin"} {
		t.Log(path, len(w.page(path)))
	}
}
