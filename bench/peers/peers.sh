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
#   PORT=18431                                  where it listens, on 127.0.0.1
#   VLLM_VENV=DIR/vllm                          environment that has `vllm bench serve`; install does not
#                                               make it: bench/engines/vllm.sh install DIR2 makes DIR2/venv
#   PYTHON=python3                              interpreter with venv and pip, 3.11 was tried
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

streams=${STREAMS:-8} requests=${REQUESTS:-32} output=${OUTPUT:-300} input=${INPUT:-64}
profile=${PROFILE:-rtx3090-agents-a1-4b-fp8} port=${PORT:-18431} python=${PYTHON:-python3}
all=(openai-python openai-go guidellm aiperf vllm speedmatrix)
declare -A packages=([openai-python]=openai==3.57.0 [guidellm]=guidellm==0.8.1 [aiperf]=aiperf==0.13.0)
url=http://127.0.0.1:$port limit=180

say() { printf 'peers.sh: %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# install PEER...: those that are Python packages; what this tree builds is built before each measurement.
install() {
  local name
  (($# > 0)) || set -- "${all[@]}"
  for name; do
    if [[ -z ${packages[$name]:-} || -e $dir/$name/complete ]]; then continue; fi
    say "installing ${packages[$name]}"
    rm -rf "${dir:?}/$name"
    "$python" -m venv "$dir/$name"
    if "$dir/$name/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[$name]}" >"$dir/$name.log" 2>&1; then
      touch "$dir/$name/complete"
    else
      say "${packages[$name]} was not installed: $(tail -n 1 "$dir/$name.log")"
    fi
  done
}

# build makes everything of this tree that a measurement needs.
build() {
  mkdir -p "$dir/bin"
  go build -C "$root" -o "$dir/bin/speedmatrix" ./cmd/speedmatrix
  go build -C "$here/openaigo" -o "$dir/bin/openaigo" .
  "$python" "$here/tokenizer.py" "$root/internal/simserver/vocab.txt" "$dir/tokenizer"
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

# compose PEER OUT: fills the array cmd. All ask for the same load; what they call things differs.
compose() {
  local model=bench tokenizer=$dir/tokenizer
  case $1 in
    openai-python) cmd=("$dir/openai-python/bin/python" "$here/chat.py" "$url" "$streams" "$requests" "$output") ;;
    openai-go) cmd=("$dir/bin/openaigo" "$url" "$streams" "$requests" "$output") ;;
    guidellm)
      cmd=(env HF_HUB_OFFLINE=1 "$dir/guidellm/bin/guidellm" run --backend "kind=openai_http,target=$url"
        --profile "kind=concurrent,streams=$streams" --constraint "kind=max_requests,count=$requests"
        --data "kind=synthetic_text,prompt_tokens=$input,output_tokens=$output"
        --tokenizer "kind=hf_auto,model=$tokenizer" --disable-console-interactive
        --output kind=console --output "kind=json,path=$2/report.json")
      ;;
    aiperf)
      # Without the hub's offline switch: with it a folder is refused as a tokenizer.
      cmd=(env -u HF_HUB_OFFLINE "$dir/aiperf/bin/aiperf" profile --model "$model" --url "$url" --endpoint-type chat --streaming
        --tokenizer "$tokenizer" --isl "$input" --osl "$output" --concurrency "$streams" --request-count "$requests"
        --extra-inputs ignore_eos:true --output-artifact-dir "$2/aiperf" --ui none)
      ;;
    vllm)
      cmd=(env HF_HUB_OFFLINE=1 "$vllm/bin/vllm" bench serve --backend openai-chat --endpoint /v1/chat/completions --base-url "$url"
        --model "$model" --tokenizer "$tokenizer" --dataset-name random --random-input-len "$input"
        --random-output-len "$output" --num-prompts "$requests" --max-concurrency "$streams" --ignore-eos
        --save-result --result-dir "$2" --result-filename report.json)
      ;;
    speedmatrix)
      cmd=("$dir/bin/speedmatrix" run "$url" --contexts 0 --concurrency "$streams" --prefill none
        --max-output "$output" --duration 12s --out "$2/run" --yes)
      ;;
    *) die "no peer $1; there are: ${all[*]}" ;;
  esac
}

# why_not PEER: nothing if it can run, otherwise the reason.
why_not() {
  case $1 in
    openai-python | guidellm | aiperf)
      [[ -e $dir/$1/complete ]] || echo "not installed: $(tail -n 1 "$dir/$1.log" 2>/dev/null || echo "run peers.sh install first")"
      ;;
    vllm) [[ -x $vllm/bin/vllm ]] || echo "not installed: VLLM_VENV names no environment with it" ;;
  esac
}

# measure PEER: one peer against a fresh engine, everything it writes under DIR/out/PEER.
measure() {
  local out=$dir/out/$1 cmd=() reason status=0 from=$SECONDS
  rm -rf "$out"
  mkdir -p "$out"
  reason=$(why_not "$1")
  if [[ -n $reason ]]; then
    echo "$reason" >"$out/failed"
    say "$1: $reason"
    return
  fi
  compose "$1" "$out"
  if [[ $1 == vllm ]]; then # its file does not say
    "$vllm/bin/python" -c 'import importlib.metadata; print(importlib.metadata.version("vllm"))' >"$out/version"
  fi
  serve "$out"
  HF_HOME=$dir/hf timeout "$limit" "${cmd[@]}" >"$out/stdout" 2>"$out/stderr" </dev/null || status=$?
  sleep 1
  if ((status != 0)); then echo "exit status $status: $(tail -n 1 "$out/stderr")" >"$out/failed"; fi
  if ! kill -0 "$watcher" || ! kill -0 "$sim"; then echo "the engine or its watcher ended early: see $out" >"$out/failed"; fi
  stop
  say "$1: status $status after $((SECONDS - from)) s"
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
  vllm=${VLLM_VENV:-$dir/vllm}
  build
  trap stop EXIT
  check_tokenizer
  for peer; do measure "$peer"; done
  table
}

table() { "$python" "$here/table.py" "$dir/out" "${all[@]}"; }

verb=${1:-} dir=${2:-}
case $verb:$# in
  table:2 | install:* | run:*) ;;
  *) verb='' ;;
esac
if [[ -z $verb || -z $dir ]]; then
  sed -n '2,/^set -/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
mkdir -p "$dir"
dir=$(cd "$dir" && pwd -P)
"$verb" "${@:3}"
