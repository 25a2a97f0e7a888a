"""Holds what load generators reported of a ground truth server against what it sent.

    truth.py table DIR       prints the tables of DIR/truth and DIR/ceiling, as truth.sh leaves them
    truth.py holds FOLDER    succeeds if the measurement in FOLDER was right: see right()
    truth.py imports TRUTH   compares the runs imported from the load generators' files with the files

Percentiles are linear between order statistics, as all of these tools but speedmatrix count them.
"""

import datetime
import json
import math
import pathlib
import statistics
import sys

import table

ORDER = ["speedmatrix", "aiperf", "guidellm", "vllm", "llama-benchy", "inference-perf"]
LATE = 5.0  # ms that the 99th percentile of arrivals may be late in ceiling
SHORT = 0.01  # share by which a total may be off in ceiling
STREAMS = 128  # of ceiling


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


# What each tool reported. TTFT and time between tokens in ms; `of` says what the latter's percentiles are over;
# `per_token` is the mean gap of a request where the former is over single gaps. NAME_chunks gives the arrival times
# of each answer in ms on any scale, where the tool keeps them.


def aiperf(folder):
    report = json.loads((folder / "aiperf/profile_export_aiperf.json").read_text())
    first, between = report["time_to_first_token"], report["inter_token_latency"]
    return {
        "version": report["aiperf_version"], "requests": int(report["request_count"]["avg"]), "first": (first["p50"], first["p99"]),
        "between": between["p50"], "of": "requests", "rate": report["output_token_throughput"]["avg"],
    }


def aiperf_chunks(folder):
    for line in (folder / "aiperf/profile_export.jsonl").read_text().splitlines():
        metrics = json.loads(line)["metrics"]
        yield running(metrics["time_to_first_token"]["value"], metrics["inter_chunk_latency"]["value"])


def guidellm(folder):
    report = json.loads((folder / "report.json").read_text())
    metrics = report["benchmarks"][0]["metrics"]
    first = metrics["time_to_first_token_ms"]["successful"]["percentiles"]
    return {
        "version": report["metadata"]["guidellm_version"], "requests": metrics["request_totals"]["successful"],
        "first": (first["p50"], first["p99"]), "between": metrics["inter_token_latency_ms"]["successful"]["percentiles"]["p50"],
        "of": "requests", "rate": metrics["output_tokens_per_second"]["successful"]["mean"],
    }


def vllm(folder):
    report = json.loads((folder / "report.json").read_text())
    return {
        "version": (folder / "version").read_text().strip(), "requests": report["completed"],
        "first": (report["p50_ttft_ms"], report["p99_ttft_ms"]), "between": report["p50_itl_ms"], "of": "gaps",
        "rate": report["output_throughput"], "per_token": report["p50_tpot_ms"],
    }


def vllm_chunks(folder):
    report = json.loads((folder / "report.json").read_text())
    for first, gaps in zip(report["ttfts"], report["itls"]):
        yield running(1e3 * first, [1e3 * g for g in gaps])


def llama_benchy(folder):
    """It gives means and their values: percentiles of TTFT are made here, of the time between tokens from its rate per request."""
    report = json.loads((folder / "report.json").read_text())
    b = report["benchmarks"][0]
    first = b["e2e_ttft"]["values"]
    return {
        "version": report["version"], "requests": len(first), "first": (quantile(first, 0.5), quantile(first, 0.99)),
        "between": 1e3 / statistics.median(b["tg_req_throughput"]["values"]), "of": "requests", "rate": b["tg_throughput"]["mean"],
        "bursts": len(b["tg_throughput"]["values"]) if b["concurrency"] > 1 else len(first),
    }


def inference_perf(folder):
    report = json.loads((folder / "inference-perf/summary_lifecycle_metrics.json").read_text())["successes"]
    first, between = report["latency"]["time_to_first_token"], report["latency"]["inter_token_latency"]
    return {
        "version": "0.7.0", "requests": report["count"], "first": (1e3 * first["median"], 1e3 * first["p99"]),
        "between": 1e3 * between["median"], "of": "gaps", "rate": report["throughput"]["output_tokens_per_sec"],
        "per_token": 1e3 * report["latency"]["time_per_output_token"]["median"],
    }


def inference_perf_chunks(folder):
    for request in json.loads((folder / "inference-perf/per_request_lifecycle_metrics.json").read_text()):
        yield [1e3 * t for t in request["info"]["response_metrics"]["chunk_times"]]


def speedmatrix(folder):
    cell = json.loads((folder / "run/run.json").read_text())["cells"][0]
    mean = table.speedmatrix(folder)
    first = cell["ttft_ms"]
    return {
        "version": mean["version"], "requests": first["n"], "first": (first["p50"], first["p99"]),
        "between": cell["time_between_tokens_ms"]["p50"], "of": "requests", "rate": cell["total_tokens_per_second"],
        "status": cell["status"], "launched": mean["launched"], "window": mean["window"],
    }


READERS = {
    "aiperf": aiperf, "guidellm": guidellm, "vllm": vllm, "llama-benchy": llama_benchy, "inference-perf": inference_perf,
    "speedmatrix": speedmatrix,
}
CHUNKS = {"aiperf": aiperf_chunks, "vllm": vllm_chunks, "inference-perf": inference_perf_chunks}
TITLES = {**table.TITLES, "llama-benchy": "llama-benchy", "inference-perf": "inference-perf"}


def running(first, gaps):
    times = [first]
    for gap in gaps:
        times.append(times[-1] + gap)
    return times


# What the server sent, in ms since its command was started.


class Truth:
    def __init__(self, folder):
        account = json.loads((folder / "account.json").read_text())
        self.began = account["started_ns"]
        self.cpu, self.memory = account["cpu_seconds"], account["peak_rss"]
        self.samples = [(self.ms(s["at_ns"]), s["cpu_seconds"]) for s in account["samples"]]
        self.requests = [(self.ms(r["arrived_ns"]), [self.ms(t) for t in r["sent_ns"]]) for r in account["requests"]]
        self.ended = self.ms(account["ended_ns"])

    def ms(self, ns):
        return (ns - self.began) / 1e6

    def used(self, at):
        """The processor time of the command until then, on the straight line between samples."""
        before = (0.0, 0.0)
        for sample in [*self.samples, (self.ended, self.cpu)]:
            if sample[0] >= at:
                share = (at - before[0]) / (sample[0] - before[0])
                return before[1] + share * (sample[1] - before[1])
            before = sample
        return self.cpu


def account(peer, reported, truth):
    """The server's figures of the requests and the time that a tool reports of."""
    if peer == "speedmatrix":
        return account_window(reported, truth)
    most = max(len(sent) for _, sent in truth.requests)
    load = sorted(r for r in truth.requests if len(r[1]) == most)[-reported["requests"]:]
    begin, end = load[0][0], max(sent[-1] for _, sent in load)
    figures = of_requests(load, reported["of"])
    if peer == "llama-benchy":
        figures["rate"] = statistics.mean(burst_rate(b) for b in bursts(load, reported["bursts"]))
    else:
        figures["rate"] = 1e3 * len(load) * most / (end - begin)
    return figures | {"requests": len(load), "tokens": len(load) * most, "begin": begin, "end": end}


def account_window(reported, truth):
    """speedmatrix: TTFT of the requests that open the cell, the rest between the ends of its window."""
    launched, start, end = (1e3 * t - truth.began / 1e6 for t in (reported["launched"], *reported["window"]))
    opened = sorted(r for r in truth.requests if r[0] >= launched - 1 and r[1])[: reported["requests"]]
    spans = [[t for t in sent if start <= t <= end] for _, sent in truth.requests]
    figures = of_requests(opened, "requests")
    figures["between"] = quantile([(s[-1] - s[0]) / (len(s) - 1) for s in spans if len(s) > 10], 0.5)
    inside = sum(start < t <= end for _, sent in truth.requests for t in sent)
    tokens = sum(launched <= t <= end for _, sent in truth.requests for t in sent)
    return figures | {
        "rate": 1e3 * inside / (end - start), "requests": len(opened), "tokens": tokens, "begin": launched, "end": end,
    }


def of_requests(load, of):
    first = [sent[0] - arrived for arrived, sent in load]
    if of == "gaps":
        between = [b - a for _, sent in load for a, b in zip(sent, sent[1:])]
    else:
        between = [(sent[-1] - sent[0]) / (len(sent) - 1) for _, sent in load]
    return {"first": (quantile(first, 0.5), quantile(first, 0.99)), "between": quantile(between, 0.5)}


def bursts(load, n):
    size = len(load) // n
    return [load[i * size : (i + 1) * size] for i in range(n)]


def burst_rate(load):
    """Tokens behind the first of each request, by the time from the first token of all to the last."""
    first, last = min(sent[0] for _, sent in load), max(sent[-1] for _, sent in load)
    return 1e3 * sum(len(sent) - 1 for _, sent in load) / (last - first)


# The tables.


def measurements(folder):
    """(peer, level, folder) of what is there, in the order of the tables."""
    for peer in ORDER:
        levels = [f for f in (folder / peer).glob("*") if f.is_dir()]
        for level in sorted(levels, key=lambda f: float(f.name)):
            yield peer, level.name, level


def read(peer, folder):
    """Reported, true, and the whole account; or the reason why not."""
    if (folder / "failed").exists():
        return (folder / "failed").read_text().strip()
    try:
        reported, truth = READERS[peer](folder), Truth(folder)
        return reported, account(peer, reported, truth), truth
    except (OSError, ValueError, LookupError, StopIteration) as problem:  # the other rows stand
        return f"its files cannot be read: {problem!r}"


def off(reported, true, digits=1):
    if reported is None:
        return "–"
    return f"{reported:,.{digits}f} ({reported - true:+,.{digits}f})"


def fidelity_row(peer, level, found):
    if isinstance(found, str):
        return f"| {TITLES[peer]} | {level} | | | | | {found} |"
    reported, true, _ = found
    rate = reported["rate"]
    return (
        f"| {TITLES[peer]} | {level} | {off(reported['first'][0], true['first'][0])} | {off(reported['first'][1], true['first'][1])} "
        f"| {off(reported['between'], true['between'], 2)} | {rate:,.0f} ({100 * (rate / true['rate'] - 1):+.2f} %) | {reported.get('status', '')} |"
    )


def cost_row(peer, level, found):
    if isinstance(found, str):
        return f"| {TITLES[peer]} | {level} | | | | | | | {found} |"
    _, true, truth = found
    load = truth.used(true["end"]) - truth.used(true["begin"])
    thousands = true["tokens"] / 1e3
    sent = sorted(r[0] for r in truth.requests)[0]
    return (
        f"| {TITLES[peer]} | {level} | {true['tokens']:,} | {truth.cpu:.2f} | {load:.2f} | {1e3 * truth.cpu / thousands:,.1f} "
        f"| {1e3 * load / thousands:,.1f} | {truth.memory / 1e6:,.0f} | {sent / 1e3:.1f} / {true['begin'] / 1e3:.1f} |"
    )


def late(folder, peer, gap):
    """The 99th percentile, in ms, by which chunks came later than the earliest of their answer lets expect, and
    the same of the server's own sends. Of the first two seconds nothing counts: it is the burst of the start."""
    _, _, truth = read(peer, folder)
    begin = min(sent[0] for _, sent in truth.requests if len(sent) > 1)
    sent = [s for arrived, s in truth.requests if len(s) > 1 and s[0] > begin + 2000]
    got = list(CHUNKS[peer](folder)) if peer in CHUNKS else []
    return quantile(lags(got, gap), 0.99) if got else None, quantile(lags(sent, gap), 0.99)


def lags(answers, gap):
    for times in answers:
        ahead = [t - i * gap for i, t in enumerate(times)]
        earliest = min(ahead)
        yield from (a - earliest for a in ahead)


def right(peer, level, folder):
    """(whether it held, a line): the total is within 1 % of the truth and the 99th percentile of arrivals at most
    5 ms late; where a tool keeps no arrivals, the 99th percentile of TTFT stands for them."""
    found = read(peer, folder)
    if isinstance(found, str):
        return False, f"| {TITLES[peer]} | {level} | | | | {found} |"
    reported, true, truth = found
    total = reported["rate"] / true["rate"] - 1
    arrivals, own = late(folder, peer, 1e3 / float(level))
    first = reported["first"][1] - true["first"][1]
    worst = first if arrivals is None else arrivals
    held = abs(total) <= SHORT and abs(worst) <= LATE
    told = "TTFT" if arrivals is None else "arrivals"
    return held, (
        f"| {TITLES[peer]} | {STREAMS * float(level):,.0f} | {true['rate']:,.0f} ({100 * total:+.2f} %) | {worst:,.1f} ({told}) "
        f"| {own:.2f} | {'held' if held else 'not held'} |"
    )


def show(root):
    print("| tool | streams | TTFT p50, ms | TTFT p99, ms | time between tokens p50, ms | total tok/s | |\n|---|---|---|---|---|---|---|")
    found = [(peer, level, read(peer, folder)) for peer, level, folder in measurements(root / "truth")]
    for one in sorted(found, key=lambda f: (float(f[1]), ORDER.index(f[0]))):
        print(fidelity_row(*one))
    print("\n| tool | streams | tokens | CPU s, all | CPU s, load | CPU ms per 1,000 tokens, all | load | peak MB | first request / load, s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for one in sorted(found, key=lambda f: (float(f[1]), ORDER.index(f[0]))):
        print(cost_row(*one))
    print("\n| tool | nominal tok/s | true total (reported off by) | p99 late, ms | server's own p99, ms | |\n|---|---|---|---|---|---|")
    for one in measurements(root / "ceiling"):
        print(right(*one)[1])
    print("\nVersions: " + "; ".join(dict.fromkeys(f"{TITLES[p]} {f[0]['version']}" for p, _, f in found if not isinstance(f, str))))
    print(f"\n{table.machine()}.")


# What comes back from imported files.


def imported(peer, folder):
    """The differences between a source's own figures and those of the run made of it, printed with all digits."""
    if (folder / "import.failed").exists():
        return (folder / "import.failed").read_text().strip()
    cells = json.loads((folder / "imported/run.json").read_text())["cells"]
    cell = next(c for c in cells if c["phase"] == "decode")
    own = READERS[peer](folder)
    first = cell["ttft_ms"]
    pairs = {"total tok/s": (own["rate"], cell["total_tokens_per_second"])}
    if peer != "llama-benchy":  # its file has means alone
        pairs |= {"TTFT p50": (own["first"][0], first["p50"]), "TTFT p99": (own["first"][1], first["p99"])}
        pairs["time between tokens p50"] = (own.get("per_token", own["between"]), cell["time_between_tokens_ms"]["p50"])
    else:
        b = json.loads((folder / "report.json").read_text())["benchmarks"][0]
        pairs["TTFT mean"] = (b["e2e_ttft"]["mean"], first["mean"])
    wrong = [f"{name}: {a!r} in the file, {b!r} in the run" for name, (a, b) in pairs.items() if b is None or not math.isclose(a, b, rel_tol=1e-12)]
    return "; ".join(wrong) or f"{len(pairs)} figures equal: {', '.join(pairs)}"


def imports(root):
    for peer, level, folder in measurements(root):
        if peer in READERS and (folder / "imported").exists() or (folder / "import.failed").exists():
            print(f"{peer}, {level} streams: {imported(peer, folder)}")


def main(verb, folder):
    folder = pathlib.Path(folder)
    if verb == "table":
        show(folder)
    elif verb == "imports":
        imports(folder)
    elif verb == "holds":
        held, line = right(folder.parent.name, folder.name, folder)
        print(line, file=sys.stderr)
        sys.exit(0 if held else 3)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
