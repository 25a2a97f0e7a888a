"""Records what the engine says of itself while a client measures it.

    watch.py URL FILE      one JSON line each 25 ms, until it is ended by SIGTERM

The figures are sums and counts of vLLM's /metrics.
"""

import http.client
import json
import re
import signal
import sys
import time
import urllib.parse

PERIOD = 0.025
NAMES = {
    "tokens": "generation_tokens_total",
    "running": "num_requests_running",
    "waiting": "num_requests_waiting",
    "first_sum": "time_to_first_token_seconds_sum",
    "first_count": "time_to_first_token_seconds_count",
    "between_sum": "inter_token_latency_seconds_sum",
    "between_count": "inter_token_latency_seconds_count",
    "prompt": "prompt_tokens_total",
    "cached": "prompt_tokens_cached_total",
}
PATTERNS = {key: re.compile(rf"^vllm:{name}(?:{{[^}}]*}})? (\S+)$", re.MULTILINE) for key, name in NAMES.items()}


def figures(text):
    return {key: float(pattern.search(text)[1]) for key, pattern in PATTERNS.items()}


def watch(url, out):
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=5)
    due = time.monotonic()
    while not ended:
        before = time.time()
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        sample = {"at": (before + time.time()) / 2, **figures(text)}
        print(json.dumps(sample), file=out, flush=True)
        due = max(due + PERIOD, time.monotonic())
        time.sleep(max(due - time.monotonic(), 0))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[2], "w") as file:
        watch(sys.argv[1], file)
