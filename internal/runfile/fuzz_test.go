package runfile

import (
	"bytes"
	"testing"
)

// FuzzDecode reads documents of any kind: none may end the program, and what was
// read is written and read again without an unknown field.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"schema":"speedmatrix.run/1"}`))
	f.Add([]byte(`{"schema":"speedmatrix.run/1","cells":[{"phase":"decode","context":16384,"concurrency":8,"status":"Valid","ttft_ms":{"p50":1.5,"n":3}}],"new":[{"a":1}]}`))
	f.Add([]byte(`{"schema":"speedmatrix.run/1","started_at":"2026-11-30T20:15:00Z","model":{"name":{"value":"m","source":"user","others":[{"value":2,"source":"log"}]}},"drift":{"cell":{}},"repeats":[{"index":1,"cells":[{}]}]}`))
	f.Add([]byte(`{"schema":"speedmatrix.run/2"}`))
	f.Add([]byte("{\"schema\":\n\"speedmatrix.run/1\",\n\"cells\":{}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = Validate(data) // an error is an answer
		run, warnings, err := Decode(data)
		if strict, strictErr := DecodeStrict(data); err == nil && (strictErr == nil) != (len(warnings) == 0) {
			t.Fatalf("%d unknown fields, and strictly %v %v", len(warnings), strict != nil, strictErr)
		}
		if err != nil {
			return
		}
		var text bytes.Buffer
		if Encode(&text, run) != nil {
			return // a number that JSON does not know
		}
		again, err := DecodeStrict(text.Bytes())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		var second bytes.Buffer
		if err := Encode(&second, again); err != nil || !bytes.Equal(text.Bytes(), second.Bytes()) {
			t.Fatalf("written a second time it differs (%v):\n%s\n%s", err, text.Bytes(), second.Bytes())
		}
	})
}
