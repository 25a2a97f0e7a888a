#!/usr/bin/env bash
# LiteLLM's proxy in front of another engine, from Python packages alone.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage='usage: litellm.sh install DIR
       litellm.sh start   DIR PORT [arguments of litellm]
       litellm.sh stop    DIR PORT

Settings, from the environment:
  UPSTREAM       base URL of the server behind it       (http://127.0.0.1:8080)
  MODEL          the model as that server names it      (smollm2-135m)
  PYTHON         interpreter with venv and pip, 3.11 was tried    (python3)
  READY_SECONDS  how long start waits                   (300)'

# shellcheck source=bench/engines/common.sh
source "$here/common.sh"
health=/health/liveliness

install_engine() {
  local venv=$dir/venv
  [[ ! -e $venv/complete ]] || return 0
  say "installing LiteLLM"
  rm -rf "$venv"
  "$python" -m venv "$venv"
  pip_install "$venv/bin/python" -r "$here/litellm.txt"
  touch "$venv/complete"
}

# It serves this machine alone, so it needs no key. drop_params makes it take fields that it
# does not know, as a proxy for many engines is set up.
compose() {
  local upstream=${UPSTREAM:-http://127.0.0.1:8080} model=${MODEL:-smollm2-135m}
  cat >"$dir/$port.yaml" <<YAML
model_list:
  - model_name: $model
    litellm_params: {model: openai/$model, api_base: $upstream/v1, api_key: none}
litellm_settings: {drop_params: true, telemetry: false}
general_settings: {dangerously_permit_weak_or_unset_master_key: true}
YAML
  export LITELLM_LOCAL_MODEL_COST_MAP=True NO_DOCS=True
  cmd=("$dir/venv/bin/litellm" --config "$dir/$port.yaml" --host 127.0.0.1 --port "$port" "$@")
}

engine_main "$@"
