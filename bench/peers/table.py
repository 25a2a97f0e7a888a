"""Prints what each client reported beside the engine's own account, as a Markdown table.

    table.py OUT PEER...      reads OUT/PEER, as peers.sh leaves it

Both sides give means: the engine's histograms have sums and counts. Its throughput is the tokens
of the load divided by the time from the first request to the last token.
"""

import datetime
import json
import os
import pathlib
import statistics
import sys

PAUSE = 0.5  # seconds without work that separate probes and warm-up from the load


# What each client reports: version, requests, mean TTFT and time between tokens in ms, tokens per second.


def client(folder):
    """Our programs with the official clients keep stamps; the figures are made here."""
    report = json.loads((folder / "stdout").read_text())
    requests = report["requests"]
    first = [r["stamps"][0] - r["sent"] for r in requests]
    between = [(r["stamps"][-1] - r["stamps"][0]) / (r["tokens"] - 1) for r in requests]
    seconds = max(r["stamps"][-1] for r in requests) - min(r["sent"] for r in requests)
    wrong = [f"{name}: {outcome}" for name, outcome in report["checks"].items() if outcome != "ok"]
    return {
        "version": report["version"], "requests": len(requests), "first": 1e3 * statistics.mean(first),
        "between": 1e3 * statistics.mean(between), "rate": sum(r["tokens"] for r in requests) / seconds,
        "note": "; ".join(wrong) or f"{len(report['checks'])} further routes and errors as expected",
    }


def guidellm(folder):
    report = json.loads((folder / "report.json").read_text())
    metrics = report["benchmarks"][0]["metrics"]
    mean = {name: metrics[name]["successful"]["mean"] for name in ("time_to_first_token_ms", "inter_token_latency_ms", "output_tokens_per_second")}
    return {
        "version": report["metadata"]["guidellm_version"], "requests": metrics["request_totals"]["successful"],
        "first": mean["time_to_first_token_ms"], "between": mean["inter_token_latency_ms"],
        "rate": mean["output_tokens_per_second"], "note": failures(metrics["request_totals"]["errored"]),
    }


def aiperf(folder):
    report = json.loads((folder / "aiperf/profile_export_aiperf.json").read_text())
    return {
        "version": report["aiperf_version"], "requests": int(report["request_count"]["avg"]),
        "first": report["time_to_first_token"]["avg"], "between": report["inter_token_latency"]["avg"],
        "rate": report["output_token_throughput"]["avg"], "note": failures(len(report["error_summary"])),
    }


def vllm(folder):
    report = json.loads((folder / "report.json").read_text())
    return {
        "version": (folder / "version").read_text().strip(), "requests": report["completed"], "first": report["mean_ttft_ms"],
        "between": report["mean_itl_ms"], "rate": report["output_throughput"], "note": failures(report["failed"]),
    }


def speedmatrix(folder):
    report = json.loads((folder / "run/run.json").read_text())
    cell = report["cells"][0]
    started = datetime.datetime.fromisoformat(cell["window_started_at"]).timestamp()
    return {
        "version": report["tool"]["version"], "requests": cell["ttft_ms"]["n"], "first": cell["ttft_ms"]["mean"],
        "between": cell["time_between_tokens_ms"]["mean"], "rate": cell["total_tokens_per_second"],
        "note": f"{cell['status']}; a window of {cell['window_seconds']:.1f} s in the steady state, TTFT of the first requests",
        "launched": started - cell["step_seconds"]["ramp"] - cell["step_seconds"]["launch"],
        "window": (started, started + cell["window_seconds"]),
    }


READERS = {
    "openai-python": client, "openai-go": client, "guidellm": guidellm, "aiperf": aiperf, "vllm": vllm, "speedmatrix": speedmatrix,
}
TITLES = {
    "openai-python": "OpenAI's client for Python", "openai-go": "OpenAI's client for Go", "guidellm": "guidellm", "aiperf": "aiperf",
    "vllm": "`vllm bench serve`", "speedmatrix": "`speedmatrix run`",
}


def failures(n):
    return "" if n == 0 else f"{n} requests failed"


# What the engine says of itself.


def loads(samples):
    """The stretches of work between pauses, each with the idle sample before it."""
    stretch, quiet = [samples[0]], 0.0
    for before, sample in zip(samples, samples[1:]):
        if sample["running"] + sample["waiting"] > 0 or sample["tokens"] > before["tokens"]:
            stretch.append(sample)
            quiet = sample["at"]
        elif sample["at"] - quiet > PAUSE:
            if len(stretch) > 1:
                yield stretch
            stretch = [sample]
        else:
            stretch.append(sample)
    if len(stretch) > 1:
        yield stretch


def grown(a, b, name):
    return b[name] - a[name]


def mean_ms(a, b, name):
    return 1e3 * grown(a, b, name + "_sum") / grown(a, b, name + "_count")


def whole(stretch):
    """The engine's account of a load from its first request to its last token."""
    base, end = stretch[0], stretch[-1]
    first = next(i for i, s in enumerate(stretch) if s["first_count"] > base["first_count"])
    last = max(i for i in range(1, len(stretch)) if stretch[i]["tokens"] > stretch[i - 1]["tokens"])
    began = moment(stretch, first) - mean_ms(base, stretch[first], "first") / 1e3
    return {
        "requests": int(grown(base, end, "first_count")), "first": mean_ms(base, end, "first"), "between": mean_ms(base, end, "between"),
        "rate": grown(base, end, "tokens") / (moment(stretch, last) - began),
    }


def moment(stretch, i):
    """When what the i-th sample is the first to show happened: midway since the one before it."""
    return (stretch[i - 1]["at"] + stretch[i]["at"]) / 2


def window(samples, reported):
    """The engine's account of a time span, and of the requests that were launched before it."""
    span, n = reported["window"], reported["requests"]
    base = [s for s in samples if s["at"] <= reported["launched"]][-1]
    opened = next(s for s in samples if s["first_count"] >= base["first_count"] + n)
    a, b = (between_samples(samples, at) for at in span)
    return {
        "requests": int(grown(base, opened, "first_count")), "first": mean_ms(base, opened, "first"),
        "between": mean_ms(a, b, "between"), "rate": grown(a, b, "tokens") / (span[1] - span[0]),
    }


def between_samples(samples, at):
    """The figures of an instant, on the straight line between two samples."""
    i = next(i for i, s in enumerate(samples) if s["at"] >= at)
    a, b = samples[i - 1], samples[i]
    share = (at - a["at"]) / (b["at"] - a["at"])
    return {name: a[name] + share * (b[name] - a[name]) for name in a}


def account(folder, reported):
    samples = [json.loads(line) for line in (folder / "watch.jsonl").read_text().splitlines()]
    if "window" in reported:
        return window(samples, reported)
    return whole(max(loads(samples), key=lambda s: grown(s[0], s[-1], "tokens")))


# The table.


def pair(reported, truth, digits):
    return f"{reported:,.{digits}f} / {truth:,.{digits}f}"


def row(peer, folder):
    title = TITLES[peer]
    if (folder / "failed").exists():
        return f"| {title} | | | | | | {(folder / 'failed').read_text().strip()} |"
    if not folder.exists():
        return f"| {title} | | | | | | not measured |"
    try:
        reported = READERS[peer](folder)
        truth = account(folder, reported)
    except (OSError, ValueError, LookupError, StopIteration) as problem:  # the other rows stand
        return f"| {title} | | | | | | its files cannot be read: {problem!r} |"
    off = 100 * (reported["rate"] / truth["rate"] - 1)
    return (
        f"| {title} | {reported['version']} | {reported['requests']} / {truth['requests']} | {pair(reported['first'], truth['first'], 1)} "
        f"| {pair(reported['between'], truth['between'], 2)} | {pair(reported['rate'], truth['rate'], 0)} ({off:+.1f} %) | {reported['note']} |"
    )


def machine():
    info = pathlib.Path("/proc/cpuinfo")
    cpu = [line.partition(": ")[2] for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    return f"{datetime.date.today()}, {os.cpu_count()} cores{', ' + cpu[0] if cpu else ''}, {sys.platform}, load average {load} at the end"


def main(out, *peers):
    print("| client | version | requests | mean TTFT, ms | mean time between tokens, ms | output tokens/s | remarks |")
    print("|---|---|---|---|---|---|---|")
    for peer in peers:
        print(row(peer, pathlib.Path(out) / peer))
    print(f"\nReported / the engine's own. {machine()}.")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
