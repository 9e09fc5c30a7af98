# Processes of the test cluster, known by files of their ids in the cluster's directory. Sourced by up.sh and down.sh, there.

declare -A program=([etcd]=etcd [containerd]=containerd [apiserver]=kube-apiserver [controller]=kube-controller-manager
  [scheduler]=kube-scheduler [kubelet]=kubelet)

# Whether the process that was started under a name runs: an id may be another program's by now.
alive() {
  [ -f "$1.pid" ] && [ "$(basename "$(readlink "/proc/$(cat "$1.pid")/exe")")" = "${program[$1]}" ]
}

# Starts a program under a name, unless it runs. In a session of its own, so that Ctrl-C leaves it to down.sh.
start() {
  local name=$1
  shift
  alive "$name" 2>/dev/null && return
  setsid "$@" >>"$name.log" 2>&1 </dev/null &
  echo $! >"$name.pid"
}

# Ends it, and waits for that.
stop() {
  alive "$1" 2>/dev/null || { rm -f "$1.pid"; return; }
  local pid
  pid=$(cat "$1.pid")
  kill "$pid"
  for _ in $(seq 100); do alive "$1" 2>/dev/null || break; sleep 0.1; done
  alive "$1" 2>/dev/null && kill -KILL "$pid"
  rm -f "$1.pid"
}

# Waits until a command succeeds, for a minute at most.
until_ready() {
  local what=$1
  shift
  for _ in $(seq 120); do "$@" >/dev/null 2>&1 && return; sleep 0.5; done
  echo "error: $what is not ready after a minute; see the logs in $PWD" >&2
  exit 1
}
