#!/usr/bin/env bash
# Measures a real engine and holds the run against the engine's own account.
#
#   measure.sh llamacpp DIR [OUT]     3 contexts × 1, 2, 4 requests, then 8 requests on 4 slots
#   measure.sh vllm     DIR [OUT]     3 contexts × 1, 2, 4, 8 requests, then 12 requests where 8 run at once
#
# DIR holds the engine (see README.md); OUT, a folder that must not exist, takes the two runs (default DIR/runs-TIME).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
(($# >= 2)) || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
engine=$1 dir=$2 out=${3:-$2/runs-$(date -u +%Y%m%dT%H%M%SZ)}
duration=${DURATION:-10s}
case $engine in
  llamacpp) port=18080 contexts=0,512,1K prefill=512,1K concurrency=1,2,4 crowd=4,8 ;;
  vllm) port=18090 contexts=0,1K,2K prefill=1K,2K concurrency=1,2,4,8 crowd=8,12 ;;
  *) echo "measure.sh: unknown engine: $engine" >&2; exit 2 ;;
esac
mkdir -p "$out"
go build -C "$root" -o "$out/speedmatrix" ./cmd/speedmatrix
"$here/$engine.sh" start "$dir" "$port"
trap '"$here/$engine.sh" stop "$dir" "$port"' EXIT
url=http://127.0.0.1:$port
"$out/speedmatrix" run "$url" --contexts "$contexts" --prefill "$prefill" --concurrency "$concurrency" --duration "$duration" --out "$out/matrix"
"$out/speedmatrix" verify "$out/matrix"
"$out/speedmatrix" run "$url" --contexts 0 --prefill none --concurrency "$crowd" --duration "$duration" --out "$out/crowd"
"$out/speedmatrix" verify "$out/crowd"
cd "$root"
go run ./bench/engines/agree "$out/matrix" "$url" smollm2-135m
go run ./bench/engines/agree "$out/crowd"
rm -f "$out/speedmatrix"
