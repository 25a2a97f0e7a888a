#!/usr/bin/env bash
# Measures the simulated engine with load generators and clients of others, and prints what each
# reports beside the engine's own account.
#
#   peers.sh install DIR [PEER...]   puts these or all into DIR, each in an environment of its own, 7 GB
#   peers.sh run DIR [PEER...]       measures with these or all, and prints the table
#   peers.sh table DIR               prints the table of the last measurement again
#
# A PEER is one of: openai-python openai-go guidellm aiperf vllm speedmatrix
#
# Settings, from the environment:
#   STREAMS=8 REQUESTS=32 OUTPUT=300 INPUT=64   requests at once, in all, and their lengths in tokens
#   PROFILE=rtx3090-agents-a1-4b-fp8            what the engine simulates
#   and those of common.sh: PORT, VLLM_VENV, PYTHON
set -euo pipefail
# shellcheck source=bench/peers/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

streams=${STREAMS:-8} requests=${REQUESTS:-32} output=${OUTPUT:-300} input=${INPUT:-64}
profile=${PROFILE:-rtx3090-agents-a1-4b-fp8} model=bench
all=(openai-python openai-go guidellm aiperf vllm speedmatrix)

# build makes everything of this tree that a measurement needs.
build() {
  build_tools
  go build -C "$here/openaigo" -o "$dir/bin/openaigo" .
}

sim='' watcher=''
stop() {
  local process
  for process in "$watcher" "$sim"; do
    [[ -n $process ]] || continue
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  sim='' watcher=''
}

# until_true SECONDS PROCESS COMMAND...: waits for the command to succeed while the process lives.
until_true() {
  local deadline=$((SECONDS + $1)) process=$2
  until "${@:3}" 2>/dev/null; do
    kill -0 "$process" 2>/dev/null && ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}
answers() { (exec 8<>"/dev/tcp/127.0.0.1/$port"); }

# serve OUT: a fresh engine, nothing in its cache, and a watcher that has seen it idle.
serve() {
  ! answers 2>/dev/null || die "port $port belongs to another server"
  "$dir/bin/speedmatrix" sim "$profile" --port "$port" >"$1/sim.log" 2>&1 &
  sim=$!
  until_true 30 "$sim" answers || die "the engine does not serve on port $port: $(tail -n 3 "$1/sim.log")"
  "$python" "$here/watch.py" "$url" "$1/watch.jsonl" 2>"$1/watch.log" &
  watcher=$!
  until_true 30 "$watcher" test -s "$1/watch.jsonl" || die "the watcher sees nothing: $(tail -n 1 "$1/watch.log")"
}

# measure PEER: one peer against a fresh engine, everything it writes under DIR/out/PEER.
measure() {
  local out=$dir/out/$1 cmd=() from=$SECONDS
  ready "$1" "$out" || return 0
  compose "$1" "$out"
  serve "$out"
  run_peer "$1" "$out" "${cmd[@]}"
  sleep 1
  if ! kill -0 "$watcher" || ! kill -0 "$sim"; then echo "the engine or its watcher ended early: see $out" >"$out/failed"; fi
  stop
  say "$1: done after $((SECONDS - from)) s"
}

# check_tokenizer: the folder and the server must count alike, where an environment has the package for it.
check_tokenizer() {
  local name out=$dir/out/tokenizer
  for name in aiperf guidellm; do
    [[ -e $dir/$name/complete ]] || continue
    mkdir -p "$out"
    serve "$out"
    "$dir/$name/bin/python" "$here/tokenizer.py" --check "$dir/tokenizer" "$url"
    stop
    return
  done
}

run() {
  local peer
  (($# > 0)) || set -- "${all[@]}"
  build
  trap stop EXIT
  check_tokenizer
  for peer; do measure "$peer"; done
  table
}

table() { "$python" "$here/table.py" "$dir/out" "${all[@]}"; }

case ${1:-}:$# in
  table:2 | run:*) main_verb "$@" ;;
  install:*) main_verb once "$2" install "${@:3}" ;;
  *)
    sed -n '2,/^set -/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
