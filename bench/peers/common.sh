# What the measurements with clients of others share: their packages and their command lines.
#
# A script sets `all`, the clients it knows, and `dir`, where everything lies. Settings, from the environment:
#   PORT=18431           where the server listens, on 127.0.0.1
#   VLLM_VENV=DIR/vllm   environment that has `vllm bench serve`; install does not make it:
#                        bench/engines/vllm.sh install DIR2 makes DIR2/venv
#   PYTHON=python3       interpreter with venv and pip, 3.11 was tried
#   PYTHON312=python3.12 the same for inference-perf, which wants 3.12 or newer
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
port=${PORT:-18431} python=${PYTHON:-python3}
url=http://127.0.0.1:$port limit=180

declare -A packages=([openai-python]=openai==3.57.0 [guidellm]=guidellm==0.8.1 [aiperf]=aiperf==0.13.0
  [llama-benchy]=llama-benchy==0.4.0 [inference-perf]=inference-perf==0.7.0)
declare -A interpreters=([inference-perf]=${PYTHON312:-python3.12})

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# install PEER...: those that are Python packages; what this tree builds is built before each measurement.
install() {
  local name interpreter
  (($# > 0)) || set -- "${all[@]}"
  for name; do
    if [[ -z ${packages[$name]:-} || -e $dir/$name/complete ]]; then continue; fi
    say "installing ${packages[$name]}"
    rm -rf "${dir:?}/$name"
    interpreter=${interpreters[$name]:-$python}
    if { "$interpreter" -m venv "$dir/$name" &&
      "$dir/$name/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[$name]}"; } >"$dir/$name.log" 2>&1; then
      touch "$dir/$name/complete"
    else
      say "${packages[$name]} was not installed: $(tail -n 1 "$dir/$name.log")"
    fi
  done
}

# once COMMAND...: one such call at a time in the folder.
once() (
  flock 9
  "$@" 9>&-
) 9>"$dir/lock"

# build_tools: what of this tree every measurement needs.
build_tools() {
  mkdir -p "$dir/bin"
  go build -C "$root" -o "$dir/bin/speedmatrix" ./cmd/speedmatrix
  "$python" "$here/tokenizer.py" "$root/internal/simserver/vocab.txt" "$dir/tokenizer"
}

# compose PEER OUT: fills the array cmd for a load on $model of $streams requests at once, $requests in all, of $input and
# $output tokens. All ask for the same load; what they call things differs.
compose() {
  local tokenizer=$dir/tokenizer
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
        --percentile-metrics ttft,tpot,itl --metric-percentiles 50,99
        --save-result --save-detailed --result-dir "$2" --result-filename report.json)
      ;;
    llama-benchy)
      # It downloads a novel to make prompts of, unless its cache has one.
      local book=$url/book.txt library=$2/home/.cache/llama-benchy
      mkdir -p "$library"
      cp "$root/LICENSE" "$library/$(printf %s "$book" | md5sum | cut -d ' ' -f 1).txt"
      cmd=(env HF_HUB_OFFLINE=1 HOME="$2/home" "$dir/llama-benchy/bin/llama-benchy" --base-url "$url/v1" --model "$model"
        --tokenizer "$tokenizer" --book-url "$book" --pp "$input" --tg "$output" --runs "$((requests / streams))"
        --concurrency "$streams" --no-warmup --skip-coherence --no-adapt-prompt --exact-tg
        --save-result "$2/report.json" --format json)
      ;;
    inference-perf)
      # Random prompts go with completions only.
      cat >"$2/config.yml" <<EOF
load: {type: concurrent, num_workers: 1, stages: [{concurrency_level: $streams, num_requests: $requests}]}
api: {type: completion, streaming: true}
server: {type: vllm, model_name: $model, base_url: "$url", ignore_eos: true}
tokenizer: {pretrained_model_name_or_path: "$tokenizer"}
data:
  type: random
  input_distribution: {min: $input, max: $input, mean: $input, std_dev: 0, total_count: $requests}
  output_distribution: {min: $output, max: $output, mean: $output, std_dev: 0, total_count: $requests}
report: {request_lifecycle: {per_request: true, per_request_fields: {request: false, response: false, response_chunks: false}}}
storage: {local_storage: {path: "$2/inference-perf"}}
EOF
      cmd=(env HF_HUB_OFFLINE=1 "$dir/inference-perf/bin/inference-perf" -c "$2/config.yml")
      ;;
    speedmatrix)
      cmd=("$dir/bin/speedmatrix" run "$url" --contexts 0 --concurrency "$streams" --prefill none
        --max-output "$output" --duration "${duration:-12s}" --out "$2/run" --yes)
      ;;
    *) die "no peer $1; there are: ${all[*]}" ;;
  esac
}

# why_not PEER: nothing if it can run, otherwise the reason.
why_not() {
  case $1 in
    openai-python | guidellm | aiperf | llama-benchy | inference-perf)
      [[ -e $dir/$1/complete ]] || echo "not installed: $(tail -n 1 "$dir/$1.log" 2>/dev/null || echo "run peers.sh install first")"
      ;;
    vllm) [[ -x $vllm/bin/vllm ]] || echo "not installed: VLLM_VENV names no environment with it" ;;
  esac
}

# run_peer PEER OUT COMMAND...: runs the command and keeps what it prints; a reason in OUT/failed where it fails.
run_peer() {
  local out=$2 status=0
  if [[ $1 == vllm ]]; then # its file does not say
    "$vllm/bin/python" -c 'import importlib.metadata; print(importlib.metadata.version("vllm"))' >"$out/version"
  fi
  HF_HOME=$dir/hf timeout "$limit" "${@:3}" >"$out/stdout" 2>"$out/stderr" </dev/null || status=$?
  if ((status != 0)); then echo "exit status $status: $(tail -n 1 "$out/stderr")" >"$out/failed"; fi
  return 0
}

# ready PEER OUT: an empty folder for its files; fails with the reason in OUT/failed where it cannot run.
ready() {
  local reason
  rm -rf "${2:?}"
  mkdir -p "$2"
  reason=$(why_not "$1")
  [[ -n $reason ]] || return 0
  echo "$reason" >"$2/failed"
  say "$1: $reason"
  return 1
}

# main_verb VERB DIR...: makes the folder and calls the function of that name with the rest.
main_verb() {
  mkdir -p "$2"
  dir=$(cd "$2" && pwd -P)
  vllm=${VLLM_VENV:-$dir/vllm}
  "$1" "${@:3}"
}
