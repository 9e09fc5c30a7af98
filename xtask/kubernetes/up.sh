#!/usr/bin/env bash
# Starts a Kubernetes cluster of one node on this machine, or those of its processes that do not run. usage: up.sh DIR
#
# DIR has the programs of build.sh, images to import (*.tar), and afterwards kubeconfig, *.log and *.pid; down.sh DIR stops it.
# Needs root, and Debian's containerd, runc, etcd-server and containernetworking-plugins. What may surprise:
#  - Without CAP_SYS_RESOURCE, as in many virtual machines, containerd cannot lower scores of the out-of-memory killer, so it is
#    told not to try.
#  - A node cannot have a loopback address. It has that of the bridge, and the API server must be told to prefer it, or logs and exec
#    look for the node's name.
#  - kubelet evicts pods where the disk is nearly full, and removes images: both are off, because the disk is the developer's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
dir=$PWD
. "$here/processes.sh"
export PATH=$PATH:/usr/sbin:$dir/bin
bridge=wscni0
net=10.88.78

[ -f sa.key ] || openssl genrsa -out sa.key 2048 2>/dev/null
# The API server listens on loopback alone, so a token that everybody knows lets in nobody who is not on this machine.
echo 'tok,admin,1,system:masters' >tokens.csv
cat >kubeconfig <<CONF
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:16443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: tok}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
CONF
mkdir -p cni
cat >cni/10-bridge.conflist <<CONF
{"cniVersion":"0.4.0","name":"br","plugins":[{"type":"bridge","bridge":"$bridge","isGateway":true,"ipMasq":false,
 "ipam":{"type":"host-local","dataDir":"$dir/ipam","subnet":"$net.0/24","routes":[{"dst":"$net.0/24"}]}}]}
CONF
cat >containerd.toml <<CONF
version = 2
root = "$dir/containerd/root"
state = "$dir/containerd/state"
[grpc]
  address = "$dir/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:local"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$dir/cni"
CONF
cat >kubelet.yaml <<CONF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
address: $net.1
cgroupDriver: cgroupfs
failSwapOn: false
enforceNodeAllocatable: []
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
containerRuntimeEndpoint: unix://$dir/containerd/containerd.sock
port: 16250
healthzPort: 16248
readOnlyPort: 0
CONF
ip link show $bridge >/dev/null 2>&1 || {
  ip link add $bridge type bridge
  ip addr add $net.1/24 dev $bridge
  ip link set $bridge up
}
if [ ! -x pause ]; then
  printf '#include <unistd.h>\nint main(void) { for (;;) pause(); }\n' >pause.c
  gcc -static -O2 -o pause pause.c
  python3 "$here/image.py" docker.io/library/pause:local pause pause.tar
fi

start etcd etcd --data-dir "$dir/etcd" --listen-client-urls http://127.0.0.1:23790 \
  --advertise-client-urls http://127.0.0.1:23790 --listen-peer-urls http://127.0.0.1:23800 --unsafe-no-fsync
start containerd containerd -c containerd.toml
start apiserver kube-apiserver --etcd-servers=http://127.0.0.1:23790 --secure-port=16443 --bind-address=127.0.0.1 \
  --cert-dir="$dir/certs" --service-account-key-file=sa.key --service-account-signing-key-file=sa.key \
  --service-account-issuer=https://kubernetes.default.svc --token-auth-file=tokens.csv --authorization-mode=AlwaysAllow \
  --service-cluster-ip-range=10.0.0.0/24 --disable-admission-plugins=ServiceAccount --advertise-address=127.0.0.1 \
  --endpoint-reconciler-type=none --kubelet-preferred-address-types=InternalIP
until_ready 'the API server' kubectl --kubeconfig kubeconfig get --raw /readyz
start controller kube-controller-manager --kubeconfig kubeconfig --leader-elect=false --service-account-private-key-file=sa.key
start scheduler kube-scheduler --kubeconfig kubeconfig --leader-elect=false
until_ready containerd ctr -a containerd/containerd.sock version
for image in *.tar; do ctr -a containerd/containerd.sock -n k8s.io images import "$image" >/dev/null; done
start kubelet kubelet --kubeconfig kubeconfig --config kubelet.yaml --hostname-override node1 --root-dir "$dir/kubelet" \
  --cert-dir "$dir/kubelet/pki" --node-ip $net.1
until_ready 'the node' kubectl --kubeconfig kubeconfig wait --for=condition=Ready node/node1 --timeout=1s
