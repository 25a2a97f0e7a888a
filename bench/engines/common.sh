# What the engine scripts share: verbs, installing once, starting, waiting, stopping.
#
# A script sets `usage`, defines the functions below and ends with: engine_main "$@"
#   install_engine     puts what is missing under $dir
#   compose ARGS...    fills the array `cmd` with the command line that serves on $port;
#                      may export settings for it
#   when_ready         optional: what is left to do when the server answers on $health
#   try_again STATUS   optional: the server ended with STATUS before it was ready;
#                      success means that another start may go better
#
# Each server owns three files: $dir/PORT.pid, $dir/PORT.log, and the process group
# that carries its process number.
set -euo pipefail

python=${PYTHON:-python3}
ready_seconds=${READY_SECONDS:-300}
health=/health # what answers 200 when the server is ready

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
  say "$@"
  exit 1
}

try_again() { return 1; }
when_ready() { :; }

# pip with the settings that every install here has in common.
pip_install() {
  "${1:?interpreter}" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --no-deps --only-binary=:all: "${@:2}"
}

# unpack_wheel NAME REQUIREMENT SHA256: one wheel without its dependencies, as $dir/NAME.
unpack_wheel() {
  local target=$dir/$1
  [[ ! -d $target ]] || return 0
  say "installing $2"
  rm -rf "$target.partial"
  printf '%s --hash=sha256:%s\n' "$2" "$3" >"$target.requirement"
  pip_install "$python" --require-hashes --no-compile --target "$target.partial" -r "$target.requirement"
  rm "$target.requirement"
  mv "$target.partial" "$target"
}

# One installation at a time in a folder, however many tests ask for it.
install_once() {
  "$python" -m pip --version >/dev/null 2>&1 || die "$python with pip is needed (Debian: python3-pip, python3-venv)"
  (
    flock 9
    install_engine 9>&-
  ) 9>"$dir/lock"
}

# The process number is trusted only while its command line names our folder.
running() {
  [[ -s $pidfile ]] || return 1
  pid=$(<"$pidfile")
  grep -qF -- "$dir" "/proc/$pid/cmdline" 2>/dev/null
}

healthy() {
  (
    exec 8<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' "$health" >&8
    IFS= read -r -t 2 -u 8 status
    [[ $status == HTTP/1.?' 200 '* ]]
  ) 2>/dev/null
}

launch() {
  local cmd=()
  compose "$@"
  # A session of its own: the server outlives this script, and stop reaches all its processes.
  setsid "${cmd[@]}" >"$logfile" 2>&1 </dev/null &
  pid=$!
  echo "$pid" >"$pidfile"
}

# await: waits until the server answers; returns its exit status if it ends before.
await() {
  local deadline=$((SECONDS + ready_seconds)) status=0
  until healthy; do
    if ! kill -0 "$pid" 2>/dev/null; then
      wait "$pid" || status=$?
      rm -f "$pidfile"
      return $((status == 0 ? 1 : status))
    fi
    if ((SECONDS >= deadline)); then
      stop
      return 124
    fi
    sleep 0.1
  done
}

start() {
  local from=$SECONDS status=0
  if running && healthy; then
    say "already serves on port $port, process $pid"
    return
  fi
  ! healthy || die "port $port belongs to another server"
  stop
  install_once
  launch "$@"
  await || status=$?
  if ((status != 0)) && try_again "$status"; then
    install_once
    launch "$@"
    status=0
    await || status=$?
  fi
  if ((status != 0)); then
    tail -n 20 "$logfile" >&2
    die "the server did not become ready (status $status); its log is $logfile"
  fi
  when_ready
  say "serves on http://127.0.0.1:$port after $((SECONDS - from)) s, process $pid, log $logfile"
}

stop() {
  if running; then
    kill -TERM "$pid"
    local deadline=$((SECONDS + 30))
    while kill -0 -- "-$pid" 2>/dev/null && ((SECONDS < deadline)); do sleep 0.1; done
    kill -KILL -- "-$pid" 2>/dev/null || true
  fi
  rm -f "$pidfile"
}

engine_main() {
  local verb=${1:-}
  case $verb:$# in
    install:2 | stop:3) ;;
    start:[0-2]) verb= ;;
    start:*) ;;
    *) verb= ;;
  esac
  if [[ -z $verb ]]; then
    printf '%s\n' "$usage" >&2
    exit 2
  fi
  mkdir -p "$2"
  dir=$(cd "$2" && pwd -P)
  port=${3:-}
  pidfile=$dir/$port.pid logfile=$dir/$port.log
  case $verb in
    install) install_once ;;
    start) start "${@:4}" ;;
    stop) stop ;;
  esac
}
