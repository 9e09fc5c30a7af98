#!/usr/bin/env bash
# Stops what up.sh DIR started, and removes what it left on this machine: containers, mounts, the bridge. usage: down.sh DIR
# Programs, images and logs stay in DIR.
here=$(cd "$(dirname "$0")" && pwd)
cd "$1" || exit 1
dir=$PWD
. "$here/processes.sh"
export PATH=$PATH:/usr/sbin:$dir/bin
ctr() { command ctr -a containerd/containerd.sock -n k8s.io "$@" 2>/dev/null; }

if alive apiserver && alive kubelet; then
  kubectl --kubeconfig kubeconfig delete jobs,pods --all --wait=true --timeout=30s >/dev/null 2>&1
fi
for name in kubelet controller scheduler apiserver; do stop $name; done
# Containers of pods that Kubernetes could not end.
if alive containerd; then
  for id in $(ctr containers ls -q); do
    ctr tasks kill -s SIGKILL "$id"
    ctr tasks rm -f "$id" >/dev/null
    ctr containers rm "$id"
  done
fi
for name in containerd etcd; do stop $name; done
# The deepest first.
awk -v dir="$dir/" 'index($2, dir) == 1 { print $2 }' /proc/mounts | sort -r | while read -r mount; do umount -l "$mount"; done
ip link del wscni0 2>/dev/null
rm -rf etcd kubelet cni ipam containerd/state
exit 0
