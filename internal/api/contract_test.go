package api

import (
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"
)

func TestContract(t *testing.T) {
	mux := http.NewServeMux()
	s := New(mux, Options{Base: "http://127.0.0.1:8090", Name: "speedmatrix", Version: "1", Limits: DefaultLimits(), Now: time.Now, Log: slog.Default()})
	y, err := s.api.OpenAPI().DowngradeYAML()
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile("/tmp/sm/openapi.yaml", y, 0o644)
}
