"""Runs a load generator against the ground truth server at rising numbers of streams, and prints what
it reports beside the server's own account, as Markdown tables.

    truth.py run DIR PEER LEVEL...     measures; DIR is that of peers.sh, with the programs in DIR/bin
    truth.py rate DIR PEER GAP_MS...   the highest rate: 128 streams on one core, at shorter and shorter gaps
    truth.py table DIR                 prints the tables of all measurements again

Everything is kept under DIR/truth/PEER-LEVEL. Processor time is that of the client and all its children,
without the server; memory is the greatest sum of their resident sets, looked at each 50 ms.
"""

import datetime
import json
import math
import os
import pathlib
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

OUTPUT, INPUT, GAP, WAIT, LIMIT = 256, 64, 20.0, 100.0, 150

HERE = pathlib.Path(__file__).resolve().parent


def percentile(values, share):
    """The value at a share of the sorted values, on the straight line between two of them."""
    values = sorted(values)
    place = share * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


# The commands. All ask for the same: 64 tokens in, 256 out, two requests for each stream.


def commands(peer, at, url, out, streams):
    tokenizer, requests = at / "tokenizer", 2 * streams
    offline = {"HF_HUB_OFFLINE": "1"}
    if peer == "aiperf":  # with the hub's offline switch a folder is refused as a tokenizer
        return {}, [at / "aiperf/bin/aiperf", "profile", "--model", "truth", "--url", url, "--endpoint-type", "chat", "--streaming",
                    "--tokenizer", tokenizer, "--isl", INPUT, "--osl", OUTPUT, "--concurrency", streams, "--request-count", requests,
                    "--extra-inputs", "ignore_eos:true", "--output-artifact-dir", out / "aiperf", "--ui", "none"]
    if peer == "guidellm":
        return offline, [at / "guidellm/bin/guidellm", "run", "--backend", f"kind=openai_http,target={url}", "--profile",
                         f"kind=concurrent,streams={streams}", "--constraint", f"kind=max_requests,count={requests}", "--data",
                         f"kind=synthetic_text,prompt_tokens={INPUT},output_tokens={OUTPUT}", "--tokenizer", f"kind=hf_auto,model={tokenizer}",
                         "--disable-console-interactive", "--output", "kind=console", "--output", f"kind=json,path={out}/report.json"]
    if peer == "vllm":
        return offline, [pathlib.Path(os.environ.get("VLLM_VENV", at / "vllm")) / "bin/vllm", "bench", "serve", "--backend", "openai-chat",
                         "--endpoint", "/v1/chat/completions", "--base-url", url, "--model", "truth", "--tokenizer", tokenizer,
                         "--dataset-name", "random", "--random-input-len", INPUT, "--random-output-len", OUTPUT, "--num-prompts", requests,
                         "--max-concurrency", streams, "--ignore-eos", "--save-result", "--save-detailed", "--result-dir", out,
                         "--result-filename", "report.json"]
    if peer == "llama-benchy":
        return offline, [at / "llama-benchy/bin/llama-benchy", "--base-url", url + "/v1", "--model", "truth", "--tokenizer", tokenizer,
                         "--book-url", (at / "book.url").read_text().strip(), "--pp", INPUT, "--tg", OUTPUT, "--runs", 2, "--concurrency", streams, "--no-warmup",
                         "--skip-coherence", "--no-adapt-prompt", "--exact-tg", "--save-result", out / "report.json", "--format", "json"]
    if peer == "inference-perf":
        config = out / "config.yml"
        config.write_text(inference_perf(url, tokenizer, out, streams))
        return offline, [at / "inference-perf/bin/inference-perf", "-c", config]
    if peer == "speedmatrix":  # a request lasts longer than the window, as it does against an engine
        return {}, [at / "bin/speedmatrix", "run", url, "--contexts", "0", "--concurrency", streams, "--prefill", "none",
                    "--duration", "10s", "--out", out / "run", "--yes", "--lines"]
    sys.exit(f"no peer {peer}")


def inference_perf(url, tokenizer, out, streams):
    lengths = lambda n: f"{{min: {n}, max: {n}, mean: {n}, std_dev: 0, total_count: {2 * streams}}}"
    return f"""load:
  type: concurrent
  stages:
  - concurrency_level: {streams}
    num_requests: {2 * streams}
  num_workers: 1
api: {{type: completion, streaming: true}}
server: {{type: vllm, model_name: truth, base_url: "{url}", ignore_eos: true}}
tokenizer: {{pretrained_model_name_or_path: "{tokenizer}"}}
data:
  type: random
  input_distribution: {lengths(INPUT)}
  output_distribution: {lengths(OUTPUT)}
storage: {{local_storage: {{path: "{out}/ip"}}}}
"""


# What each reports: TTFT p50 and p99 and time between tokens p50 in ms, tokens a second, version.


def read_aiperf(out):
    report = json.loads((out / "aiperf/profile_export_aiperf.json").read_text())
    first, between = report["time_to_first_token"], report["inter_token_latency"]
    return report["aiperf_version"], first["p50"], first["p99"], between["p50"], report["output_token_throughput"]["avg"]


def read_guidellm(out):
    report = json.loads((out / "report.json").read_text())
    metrics = report["benchmarks"][0]["metrics"]
    first = metrics["time_to_first_token_ms"]["successful"]["percentiles"]
    between = metrics["inter_token_latency_ms"]["successful"]["percentiles"]
    return report["metadata"]["guidellm_version"], first["p50"], first["p99"], between["p50"], metrics["output_tokens_per_second"]["successful"]["mean"]


def read_vllm(out):
    report = json.loads((out / "report.json").read_text())
    return "0.32.0", report["median_ttft_ms"], report["p99_ttft_ms"], report["median_itl_ms"], report["output_throughput"]


def read_benchy(out):
    report = json.loads((out / "report.json").read_text())
    b = report["benchmarks"][0]
    return "0.4.0", b["e2e_ttft"]["mean"], None, 1e3 / b["tg_req_throughput"]["mean"], b["tg_throughput"]["mean"]


def read_inference_perf(out):
    report = json.loads(next(out.glob("ip/**/summary_lifecycle_metrics.json")).read_text())["successes"]
    first, between = report["latency"]["time_to_first_token"], report["latency"]["inter_token_latency"]
    middle = "median" if "median" in first else "p50"
    return "0.7.0", 1e3 * first[middle], 1e3 * first["p99"], 1e3 * between[middle], report["throughput"]["output_tokens_per_sec"]


def read_speedmatrix(out):
    report = json.loads((out / "run/run.json").read_text())
    cell = report["cells"][0]
    return ("this tree", cell["ttft_ms"]["p50"], cell["ttft_ms"]["p99"] or cell["ttft_ms"]["max"], cell["time_between_tokens_ms"]["p50"],
            cell["total_tokens_per_second"])


READERS = {
    "aiperf": read_aiperf, "guidellm": read_guidellm, "vllm": read_vllm, "llama-benchy": read_benchy, "inference-perf": read_inference_perf,
    "speedmatrix": read_speedmatrix,
}
TITLES = {"vllm": "`vllm bench serve`", "speedmatrix": "`speedmatrix run`"}


# What the server did, over the requests that the client counts.


def truth(peer, out, streams):
    account = json.loads((out / "account.json").read_text())
    if peer == "speedmatrix":
        return truth_of_window(out, account, streams)
    counted = [r for r in account if len(r["sent"]) == OUTPUT]
    counted = counted[-2 * streams:]  # those before are the client's own trials
    first = [1e3 * (r["sent"][0] - r["arrived"]) for r in counted]
    between = [1e3 * (r["sent"][-1] - r["sent"][0]) / (OUTPUT - 1) for r in counted]
    began, ended = min(r["arrived"] for r in counted), max(r["sent"][-1] for r in counted)
    tokens = OUTPUT * len(counted)
    rate = tokens / (ended - began)
    if peer == "llama-benchy":  # its rate is that of the decode phase alone
        rate = statistics.mean(1e3 / b for b in between) * streams
    return {"first": first, "between": statistics.median(between), "rate": rate, "tokens": sum(len(r["sent"]) for r in account)}


def truth_of_window(out, account, streams):
    cell = json.loads((out / "run/run.json").read_text())["cells"][0]
    began = datetime.datetime.fromisoformat(cell["window_started_at"]).timestamp()
    ended = began + cell["window_seconds"]
    # The requests of the launch run from before the window to its end; the drift of the first cell is measured again later.
    cell_requests = [r for r in account if r["sent"] and r["sent"][0] <= began and r["sent"][-1] >= ended - 0.1]
    first = [1e3 * (r["sent"][0] - r["arrived"]) for r in cell_requests]
    tokens, between = 0, []
    for r in cell_requests:
        inside = [t for t in r["sent"] if began < t <= ended + 5e-4]
        tokens += len(inside)
        if len(inside) > 20:
            between.append(1e3 * (inside[-1] - inside[0]) / (len(inside) - 1))
    return {"first": first, "between": statistics.median(between), "rate": tokens / cell["window_seconds"],
            "tokens": sum(len(r["sent"]) for r in account)}


# One measurement.


class Watcher(threading.Thread):
    """Looks at the memory of all processes of a session."""

    def __init__(self, session):
        super().__init__(daemon=True)
        self.session, self.peak, self.ended = session, 0, threading.Event()

    def run(self):
        page = os.sysconf("SC_PAGE_SIZE")
        while not self.ended.wait(0.05):
            total = 0
            for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
                try:
                    fields = stat.read_text().rpartition(")")[2].split()
                    if int(fields[3]) == self.session:
                        total += int(fields[21]) * page
                except (OSError, IndexError, ValueError):
                    continue
            self.peak = max(self.peak, total)


def measure(at, peer, streams, gap=GAP, spread=False, pin=False):
    out = at / "truth" / (f"{peer}-{streams}" if gap == GAP else f"{peer}-rate-{gap:g}")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    serve = [at / "bin/truth", "-gap", f"{gap}ms", "-wait", f"{WAIT}ms", "-account", out / "account.json"] + (["-spread"] if spread else [])
    on = lambda core: ["taskset", "-c", core] if pin else []
    server = subprocess.Popen(on("0") + serve, stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().strip()
    env, command = commands(peer, at, url, out, streams)
    env = {**{k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}, "HF_HOME": str(at / "hf"), **env}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.time()
    with open(out / "stdout", "w") as stdout, open(out / "stderr", "w") as stderr:
        client = subprocess.Popen(on("1") + [str(c) for c in command], env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True)
        watcher = Watcher(client.pid)
        watcher.start()
        try:
            status = client.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(client.pid, signal.SIGKILL)
            status = client.wait()
    took = time.time() - began
    watcher.ended.set()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    server.send_signal(signal.SIGTERM)
    server.wait()
    first = [r["arrived"] for r in json.loads((out / "account.json").read_text())]
    record = {"peer": peer, "streams": streams, "gap": gap, "status": status, "cpu": cpu, "peak": watcher.peak, "took": took,
              "start": min(first) - began if first else None}
    (out / "use.json").write_text(json.dumps(record))
    print(peer, streams, gap, {k: round(v, 2) if isinstance(v, float) else v for k, v in record.items()}, file=sys.stderr)
    return out


# The tables.


def error(reported, true, digits):
    return f"{reported:,.{digits}f} ({reported - true:+,.{digits}f})"


def row(out):
    use = json.loads((out / "use.json").read_text())
    title = TITLES.get(use["peer"], use["peer"])
    try:
        version, p50, p99, between, rate = READERS[use["peer"]](out)
        t = truth(use["peer"], out, use["streams"])
    except (OSError, ValueError, LookupError, StopIteration, TypeError, ZeroDivisionError) as problem:
        return f"| {title} | {use['streams']} | exit status {use['status']} after {use['took']:.0f} s: {problem!r:.80} | | | | | | | |"
    off = 100 * (rate / t["rate"] - 1)
    tail = error(p99, percentile(t["first"], 0.99), 1) if p99 is not None else "not given"
    return (f"| {title} {version} | {use['streams']} | {error(p50, percentile(t['first'], 0.5), 1)} | {tail} | {error(between, t['between'], 2)} "
            f"| {rate:,.0f} ({off:+.1f} %) | {use['cpu']:.1f} | {1e6 * use['cpu'] / t['tokens']:.0f} | {use['peak'] / 1e6:,.0f} | {use['start']:.1f} |")


def table(at):
    print("| client | streams | TTFT p50, ms (error) | TTFT p99, ms (error) | time between tokens, ms (error) | output tokens/s (error) "
          "| CPU, s | CPU, µs a token | memory, MB | start to first request, s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    runs = [p.parent for p in (at / "truth").glob("*/use.json") if "-rate-" not in p.parent.name]
    for out in sorted(runs, key=lambda p: (int(re.search(r"(\d+)$", p.name)[1]), list(READERS).index(p.name.rpartition("-")[0]))):
        print(row(out))
    rates = [p.parent for p in (at / "truth").glob("*/use.json") if "-rate-" in p.parent.name]
    if rates:
        print("\n| client on one core, 128 streams | tokens/s sent | reported | TTFT p99 error, ms | time between tokens error, ms |")
        print("|---|---|---|---|---|")
    for out in sorted(rates):
        print(rate_row(out))


def rate_row(out):
    use = json.loads((out / "use.json").read_text())
    try:
        _, _, p99, between, rate = READERS[use["peer"]](out)
        t = truth(use["peer"], out, use["streams"])
    except (OSError, ValueError, LookupError, StopIteration, TypeError, ZeroDivisionError) as problem:
        return f"| {use['peer']} | {1e3 / use['gap'] * use['streams']:,.0f} planned | {problem!r:.80} | | |"
    tail = "" if p99 is None else f"{p99 - percentile(t['first'], 0.99):+.1f}"
    return f"| {use['peer']} | {t['rate']:,.0f} | {rate:,.0f} ({100 * (rate / t['rate'] - 1):+.1f} %) | {tail} | {between - t['between']:+.3f} |"


def main(verb, at, *rest):
    at = pathlib.Path(at).resolve()
    if verb == "run":
        for level in rest[1:]:
            measure(at, rest[0], int(level))
    elif verb == "rate":
        for gap in rest[1:]:
            measure(at, rest[0], 128, float(gap), spread=True, pin=True)
    elif verb == "table":
        table(at)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
