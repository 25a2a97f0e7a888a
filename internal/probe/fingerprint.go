package probe

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"speedmatrix"
)

// traces are what an answer carries of the engine that made it, through any proxy.
type traces struct {
	Fingerprint string `json:"system_fingerprint"`
	Provider    string `json:"provider"`
}

// fingerprints are the forms in which engines sign their answers; the first group is the version.
var fingerprints = []struct {
	form *regexp.Regexp
	kind Kind
}{
	{regexp.MustCompile(`^vllm-(\d[\w.+]*)`), KindVLLM},
	{regexp.MustCompile(`^(b\d+-[0-9a-f]{6,})$`), KindLlamaCpp},
	{regexp.MustCompile(`^fp_(ollama)$`), KindOllama},
	{regexp.MustCompile(`^(\d+\.\d+\.\d+\S*?)-\d+\.\d+\.\d+\S*-(?:macOS|Linux)\S*`), KindMLX},
	{regexp.MustCompile(`^(\d+\.\d+\.\d+(?:-dev0)?)-(?:native|sha-\w+|[0-9a-f]{40})$`), KindTGI},
}

const sourceFingerprint = "system_fingerprint of an answer"

// signature reads the kind and the version that a fingerprint names; "" for others.
func signature(fingerprint string) (kind Kind, version string) {
	for _, f := range fingerprints {
		m := f.form.FindStringSubmatch(fingerprint)
		if m == nil {
			continue
		}
		version = m[1]
		switch f.kind {
		case KindOllama:
			version = ""
		case KindLlamaCpp:
			version = llamaVersion(version)
		}
		return f.kind, version
	}
	return "", ""
}

// readTraces takes from a streamed answer, and its headers, what they tell of the engine: of
// one behind a proxy nothing else does.
func (s *Server) readTraces(a *answer) {
	engine := s.Facts.Engine
	if v := a.header.Get("X-Litellm-Version"); v != "" {
		engine.Set(speedmatrix.EngineProxy, string(KindLiteLLM), "header x-litellm-version")
		engine.Set(speedmatrix.EngineProxyVersion, v, "header x-litellm-version")
	}
	if v := a.header.Get("X-Litellm-Model-Name"); v != "" {
		engine.Set(speedmatrix.EngineProxyUpstream, v, "header x-litellm-model-name")
	}
	s.readRateLimit(a)
	t := tracesOf(a.body)
	if t.Provider != "" && engine.Text(speedmatrix.EngineProxy) != "" {
		engine.Set(speedmatrix.EngineProxyUpstream, t.Provider, "provider of an answer")
	}
	kind, version := signature(t.Fingerprint)
	switch {
	case kind != "" && kind == s.Kind || kind != "" && (s.Kind == KindOpenAI || s.engine.proxy):
		engine.Set(speedmatrix.EngineName, string(kind), sourceFingerprint)
		s.setVersion(version, sourceFingerprint)
	case kind != "":
		engine.Set(speedmatrix.EngineName, string(kind), sourceFingerprint)
		s.warn("engines_disagree", "the server's routes are those of %s, but its answers are signed by %s: one may stand behind the other", s.Kind, kind)
	}
	// LiteLLM passes the headers of the server behind it on under other names.
	if strings.HasPrefix(a.header.Get("Llm_provider-Server"), "llama.cpp") {
		engine.Set(speedmatrix.EngineName, string(KindLlamaCpp), "header llm_provider-server")
	}
}

// tracesOf looks through the events of a stream, or the one document.
func tracesOf(body []byte) (found traces) {
	for line := range bytes.Lines(body) {
		data := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("data:")))
		var t traces
		if len(data) == 0 || data[0] != '{' || json.Unmarshal(data, &t) != nil {
			continue
		}
		found.Fingerprint, found.Provider = orText(found.Fingerprint, t.Fingerprint), orText(found.Provider, t.Provider)
		if found.Fingerprint != "" {
			break
		}
	}
	return found
}

// nameEngine records what the engine is and where its source lies.
func (s *Server) nameEngine(kind Kind, repository, source string) {
	s.Facts.Engine.Set(speedmatrix.EngineName, string(kind), source)
	if repository != "" {
		s.Facts.Engine.Set(speedmatrix.EngineRepository, repository, source)
	}
}

// setVersion records a version that says something.
func (s *Server) setVersion(version, source string) {
	if version = strings.TrimSpace(version); version != "" && len(version) <= 80 {
		s.Facts.Engine.Set(speedmatrix.EngineVersion, version, source)
	}
}

// Title names the server for people: "vLLM 0.32.0", "LiteLLM 1.80 in front of llama.cpp",
// "OpenAI-compatible server behind nginx".
func (s *Server) Title() string {
	engine := s.Facts.Engine
	name := engine.Text(speedmatrix.EngineName)
	if name == "" && !s.engine.proxy {
		name = string(s.Kind)
	}
	if version := engine.Text(speedmatrix.EngineVersion); version != "" && name != "" {
		name += " " + version
	}
	proxy := engine.Text(speedmatrix.EngineProxy)
	if proxy == "" {
		return name
	}
	if version := engine.Text(speedmatrix.EngineProxyVersion); version != "" {
		proxy += " " + version
	}
	return proxy + " in front of " + orText(name, "an engine that it does not name")
}
