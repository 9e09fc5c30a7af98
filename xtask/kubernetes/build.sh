#!/usr/bin/env bash
# Builds Kubernetes with Go, once: about five minutes on two cores. usage: build.sh DIR; the programs go to DIR/bin.
# One Go module names Kubernetes as a dependency, with the versions of its staged parts written out, as `go install` refuses to.
set -euo pipefail
dir=$(mkdir -p "$1" && cd "$1" && pwd)
version=1.32.0
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
command -v kubectl >/dev/null || programs+=(kubectl)
missing=()
for program in "${programs[@]}"; do [ -x "$dir/bin/$program" ] || missing+=("$program"); done
[ ${#missing[@]} -eq 0 ] && exit 0

mkdir -p "$dir/build" "$dir/bin"
cd "$dir/build"
go mod download "k8s.io/kubernetes@v$version"
source=$(go env GOMODCACHE)/k8s.io/kubernetes@v$version
{
  printf 'module clusterbuild\n\ngo 1.23.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
  sed -nE "s|^\s*(k8s.io/[a-z0-9-]+) => ./staging/.*|\t\1 => \1 v0.${version#*.}|p" "$source/go.mod"
  printf ')\n'
} >go.mod
# What is imported decides what `go mod tidy` keeps.
{
  printf '//go:build tools\n\npackage tools\n\nimport (\n'
  printf '\t_ "k8s.io/kubernetes/cmd/%s/app"\n' kube-apiserver kube-controller-manager kube-scheduler kubelet
  printf '\t_ "k8s.io/kubectl/pkg/cmd"\n)\n'
} >tools.go
go mod tidy
GOBIN= go build -p 2 -ldflags='-s -w' -o "$dir/bin/" "${missing[@]/#/k8s.io/kubernetes/cmd/}"
