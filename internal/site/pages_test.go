package site

import (
	"testing"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
)

// visit is a page and who looks at it.
type visit struct {
	path    string
	visitor account.Visitor
}

// fullWorld is a site with both published runs, invented ones, a draft, a withdrawn run and people, and a visit to each kind
// of page.
func fullWorld(t testing.TB) (*world, map[string]visit) {
	w := newWorld(t)
	agents := w.put(seed(t, agentsSeed), bob, nil)
	qwen := w.put(seed(t, qwenSeed), ann, nil)
	draft := w.put(seed(t, qwenSeed), ann, func(rec *catalog.Record) { rec.Entry.Visibility = catalog.Draft })
	gone := w.put(seed(t, agentsSeed), bob, nil)
	anonymous := w.put(seed(t, agentsSeed), nobodyAtAll, func(rec *catalog.Record) { rec.Entry.Visibility = catalog.Quarantined })
	w.invented(600)
	w.visitor = bob
	if out := w.post("/upload/"+gone+"/visibility", map[string][]string{"to": {"withdrawn"}, "why": {"Measured beside another program."}}); out.Code != 303 {
		t.Fatalf("withdraw: %d %s", out.Code, out.Body)
	}
	w.visitor = nobodyAtAll
	return w, map[string]visit{
		"run": {"/runs/" + qwen, nobodyAtAll}, "run-own": {"/runs/" + agents, bob}, "checks": {"/runs/" + qwen + "/checks", nobodyAtAll}, "history": {"/runs/" + gone + "/history", nobodyAtAll},
		"withdrawn": {"/runs/" + gone, nobodyAtAll}, "quarantined": {"/runs/" + anonymous, nobodyAtAll},
		"compare": {"/compare?run=" + agents + "&run=" + qwen, nobodyAtAll}, "refused": {"/compare?run=" + agents + "&run=01k00000000000000000000006", nobodyAtAll},
		"hardware": {"/hardware/rtx-3090-24gb", nobodyAtAll}, "hardwares": {"/hardware", nobodyAtAll}, "model": {"/models/gpt-oss-20b", nobodyAtAll}, "models": {"/models", nobodyAtAll},
		"engine": {"/engines/vllm", nobodyAtAll}, "engines": {"/engines", nobodyAtAll}, "upload": {"/upload", ann}, "upload-nobody": {"/upload", nobodyAtAll}, "review": {"/upload/" + draft, ann},
		"me": {"/me", ann}, "user": {"/users/ann", nobodyAtAll}, "tokens": {"/me/tokens", ann}, "signin": {"/signin", nobodyAtAll}, "device": {"/device?code=WDJB-MJHT", ann},
		"home": {"/", nobodyAtAll}, "runs": {"/runs", nobodyAtAll}, "runs-narrowed": {"/runs?model=qwen3-8b&engine=vllm&sort=users&facet=gpu", nobodyAtAll}, "runs-empty": {"/runs?model=qwen3-8b&gpu=tpu&q=none", nobodyAtAll},
		"board": {"/boards/16kx8?model=qwen3-8b", nobodyAtAll}, "board-users": {"/boards/32kx1?by=users", nobodyAtAll}, "boards": {"/boards", nobodyAtAll},
		"moderate": {"/moderate", mod}, "missing": {"/runs/01knothing", nobodyAtAll},
	}
}
