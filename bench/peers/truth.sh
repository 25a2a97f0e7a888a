#!/usr/bin/env bash
# Measures a ground truth server with load generators of others and with speedmatrix, and prints what each
# reports beside what was sent, and what each takes.
#
#   truth.sh install DIR [PEER...]   puts these or all into DIR, each in an environment of its own, 8 GB
#   truth.sh run DIR [PEER...]       measures with these or all at each number of streams; about 25 minutes
#   truth.sh ceiling DIR [PEER...]   raises the rate, the client on one core, until its times or totals are wrong
#   truth.sh import DIR              imports every file that the load generators wrote and compares the figures
#   truth.sh table DIR               prints the tables of what was measured
#   truth.sh all DIR                 install, run, ceiling, import and table
#
# A PEER is one of: aiperf guidellm vllm llama-benchy inference-perf speedmatrix
#
# Settings, from the environment:
#   LEVELS='1 32 128 512 1024'              numbers of streams, of 50 tokens/s each
#   OUTPUT=256 INPUT=64                     lengths of a request in tokens; two requests a stream
#   RATES='12.5 25 50 75 100 150 200'       tokens/s of each of the 128 streams of ceiling
#   QUIET=                                  command that each measurement is run under
#   and those of common.sh: PORT, VLLM_VENV, PYTHON, PYTHON312
set -euo pipefail
# shellcheck source=bench/peers/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

read -ra levels <<<"${LEVELS:-1 32 128 512 1024}"
read -ra rates <<<"${RATES:-12.5 25 50 75 100 150 200}"
read -ra quiet <<<"${QUIET:-}"
output=${OUTPUT:-256} input=${INPUT:-64} model=truth
all=(aiperf guidellm vllm llama-benchy inference-perf speedmatrix)

build() {
  build_tools
  go build -C "$root" -o "$dir/bin/truth" ./bench/peers/truth
}

# measure PEER OUT RATE [SERVE...]: one peer against a fresh server whose streams have so many tokens/s. SERVE are
# further arguments of the server; $server_core and $client_core pin the two where they are set.
measure() {
  local out=$2 cmd=() serve=() pin=() from=$SECONDS
  ready "$1" "$out" || return 0
  compose "$1" "$out"
  serve=("$dir/bin/truth" -listen "127.0.0.1:$port" -out "$out/account.json" -limit "${limit}s"
    -gap "$(awk -v r="$3" 'BEGIN { printf "%dns", 1e9 / r }')" "${@:4}" --)
  if [[ -n ${client_core:-} ]]; then
    serve=(taskset -c "$server_core" "${serve[@]}")
    pin=(taskset -c "$client_core")
  fi
  limit=$((limit + 30)) run_peer "$1" "$out" "${quiet[@]}" "${serve[@]}" "${pin[@]}" "${cmd[@]}"
  say "$1, $streams streams of $3 tokens/s: $(cat "$out/failed" 2>/dev/null || echo done) after $((SECONDS - from)) s"
}

run() {
  local peer
  (($# > 0)) || set -- "${all[@]}"
  build
  duration=$(awk -v n="$output" 'BEGIN { printf "%.2fs", 2 * n / 50 }')
  for peer; do
    for streams in "${levels[@]}"; do
      requests=$((2 * streams))
      measure "$peer" "$dir/truth/$peer/$streams" 50
    done
  done
}

# ceiling measures load generators that are programs of an interpreter; bench/ceiling does it for speedmatrix, with
# every token held against its own departure.
ceiling() {
  local peer rate server_core=0 client_core=1
  (($# > 0)) || set -- aiperf guidellm vllm llama-benchy inference-perf
  build
  for peer; do
    streams=128 requests=256
    for rate in "${rates[@]}"; do
      output=$(awk -v r="$rate" 'BEGIN { print 5 * r }')
      measure "$peer" "$dir/ceiling/$peer/$rate" "$rate" -spread
      "$python" "$here/truth.py" holds "$dir/ceiling/$peer/$rate" || break
    done
  done
}

# import_files imports each file of a load generator and compares the run with the file.
import_files() {
  local file out
  for file in "$dir"/truth/*/*/{report.json,aiperf/profile_export_aiperf.json,inference-perf/summary_lifecycle_metrics.json}; do
    [[ -e $file ]] || continue
    out=${file#"$dir/truth/"}
    out=$dir/truth/$(cut -d / -f 1,2 <<<"$out")
    rm -rf "$out/imported"
    "$dir/bin/speedmatrix" import "$file" --concurrency "${out##*/}" --out "$out/imported" >"$out/import.log" 2>&1 ||
      echo "not imported: $(tail -n 1 "$out/import.log")" >"$out/import.failed"
    "$dir/bin/speedmatrix" report "$out/imported" >"$out/import.report" 2>&1 || true
  done
  "$python" "$here/truth.py" imports "$dir/truth"
}

table() { "$python" "$here/truth.py" table "$dir"; }

everything() {
  once install "${all[@]}"
  run
  ceiling
  import_files
  table
}

case ${1:-}:$# in
  table:2) main_verb "$@" ;;
  run:* | ceiling:*) main_verb "$@" ;;
  install:*) main_verb once "$2" install "${@:3}" ;;
  import:2) main_verb import_files "$2" ;;
  all:2) main_verb everything "$2" ;;
  *)
    sed -n '2,/^set -/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
