package metricstext

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func scrape(t *testing.T) Families {
	t.Helper()
	file, err := os.Open("testdata/vllm.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	families, err := Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func TestSumsRunOverLabelSets(t *testing.T) {
	f := scrape(t)
	for _, c := range []struct {
		name  string
		where []Label
		want  float64
		ok    bool
	}{
		{"vllm:num_requests_running", nil, 5, true},
		{"vllm:num_requests_running", []Label{{"engine", "1"}}, 3, true},
		{"vllm:num_requests_running", []Label{{"engine", "1"}, {"model_name", "smollm2"}}, 3, true},
		{"vllm:num_requests_running", []Label{{"engine", "2"}}, 0, false},
		{"vllm:num_requests_running", []Label{{"rank", ""}}, 0, false},
		{"vllm:num_requests_waiting_by_reason", []Label{{"reason", "deferred"}}, 0, true},
		{"vllm:num_requests_waiting", nil, 0, false},
		{"vllm:generation_tokens_total", nil, 1234567, true},
		{"vllm:request_num_preemptions_sum", nil, 2, true},
		{"vllm:request_num_preemptions_count", nil, 4, true},
		{"vllm:request_num_preemptions", nil, 0, false},
		{"odd", nil, 0, false},
	} {
		if got, ok := f.Sum(c.name, c.where...); got != c.want || ok != c.ok {
			t.Errorf("sum of %s %v = %v, %v; want %v, %v", c.name, c.where, got, ok, c.want, c.ok)
		}
	}
}

func TestSharesAreAveraged(t *testing.T) {
	f := scrape(t)
	if got, ok := f.Mean("vllm:kv_cache_usage_perc"); got != 0.5 || !ok {
		t.Errorf("mean %v, %v", got, ok)
	}
	if got, ok := f.Mean("vllm:kv_cache_usage_perc", Label{"engine", "1"}); got != 0.75 || !ok {
		t.Errorf("mean of one engine %v, %v", got, ok)
	}
	if _, ok := f.Mean("vllm:gpu_cache_usage_perc"); ok {
		t.Error("a metric that is not there has a mean")
	}
}

func TestLabelsAreRead(t *testing.T) {
	f := scrape(t)
	if got, ok := f.Label("vllm:cache_config_info", "kv_cache_size_tokens"); got != "46592" || !ok {
		t.Errorf("label %q, %v", got, ok)
	}
	if got := f.Labels("vllm:cache_config_info", "kv_cache_size_tokens"); !slices.Equal(got, []string{"46592", "46720"}) {
		t.Errorf("labels %q", got)
	}
	if _, ok := f.Label("vllm:cache_config_info", "nothing"); ok {
		t.Error("a label that is not there has a value")
	}
	if !f.Has("vllm:") || f.Has("sglang:") {
		t.Error("prefixes are not told apart")
	}
	var none Families
	if _, ok := none.Sum("x"); ok || none.Has("") {
		t.Error("the zero value holds something")
	}
}

func TestAScrapeThatDoesNotReadToItsEndGivesNothing(t *testing.T) {
	for name, text := range map[string]string{
		"web page":  "<!DOCTYPE html><html><body>hello</body></html>\n",
		"exemplar":  "# TYPE a counter\na_total 1 # {trace_id=\"x\"} 1\n",
		"truncated": "# TYPE a gauge\na{b=\"c\"} 1\na{b=\"d",
	} {
		f, err := Parse(strings.NewReader(text))
		if err == nil || f.Has("") {
			t.Errorf("%s: no error, or something read: %v", name, err)
		}
	}
	if f, err := Parse(strings.NewReader("")); err != nil || f.Has("") {
		t.Errorf("an empty scrape: %v", err)
	}
}

func TestHistogramsSummariesAndUntypedAreKept(t *testing.T) {
	f, err := Parse(strings.NewReader("plain 4\n# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 7\ns_count 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"plain": 4, "s_sum": 7, "s_count": 3} {
		if got, ok := f.Sum(name); got != want || !ok {
			t.Errorf("%s = %v, %v; want %v", name, got, ok, want)
		}
	}
}

// Buckets are most of a scrape, and help texts may be long: neither changes what is read, nor
// what a histogram's name begins.
func TestBucketsAndHelpAreLeftOut(t *testing.T) {
	text := "# HELP x " + strings.Repeat("long ", 3000) + "\n# TYPE x histogram\nx_bucket{le=\"1\"} 1\nx_bucket{le=\"" + strings.Repeat("1", 9000) + "\"} 1\nx_bucket{le=\"+Inf\"} 2\nx_sum 3\nx_count 2\n" +
		"# TYPE x_bucket_size gauge\nx_bucket_size 7\n# TYPE y gauge\ny{a=\"" + strings.Repeat("z", 9000) + "\"} 5\ny_bucket{le=\"1\"} 4\n"
	f, err := Parse(iotest.OneByteReader(strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"x_sum": 3, "x_count": 2, "x_bucket_size": 7, "y": 5, "y_bucket": 4} {
		if got, ok := f.Sum(name); got != want || !ok {
			t.Errorf("%s = %v, %v", name, got, ok)
		}
	}
	if _, ok := f.Sum("x_bucket"); ok {
		t.Error("buckets were read")
	}
}
