#!/usr/bin/env bash
# Builds a Kubernetes control plane for the tests that ask for a real one (TRIAGE_TEST_K8S=1), from Debian's source package:
# no Debian package has the servers, and no other source is needed. Ten to fifteen minutes on two busy cores, then never again.
#   tests/services/build_kubernetes.sh [FOLDER]     default: ~/.cache/triage-test/kubernetes
set -euo pipefail
target=${1:-${TRIAGE_TEST_K8S_PROGRAMS:-$HOME/.cache/triage-test/kubernetes}}
servers=(kube-apiserver kube-controller-manager kube-scheduler)
work=$(mktemp -d /var/tmp/kubernetes-source-XXXXXX)
trap 'rm -rf "$work"' EXIT
export DEBIAN_FRONTEND=noninteractive

apt-get update -q
apt-get install -y -q --no-install-recommends etcd-server golang-go dpkg-dev make rsync openssl \
  golang-github-modern-go-reflect2-dev

# Source packages are usually switched off: the same mirror, asked for sources in lists of its own.
mkdir -p "$work"/{lists/partial,parts}
sed 's/^Types: .*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources > "$work/parts/debian.sources"
apt=(apt-get -q -o "Dir::State::Lists=$work/lists" -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/parts")
"${apt[@]}" update
(cd "$work" && "${apt[@]}" source kubernetes)

# This version's makefile wants to lie in a GOPATH; everything it imports is in its vendor folder.
cd "$work"/kubernetes-*/
# The vendored reflect2 walks maps in a way that Go 1.18 broke: servers made with it die on custom resources.
rm vendor/github.com/modern-go/reflect2/*.go
cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.go vendor/github.com/modern-go/reflect2/
mkdir -p "$work/go/src/k8s.io" "$work/home"
ln -s "$PWD" "$work/go/src/k8s.io/kubernetes"
env -u GOFLAGS HOME="$work/home" GOPATH="$work/go" GOCACHE="$work/cache" GOPROXY=off CGO_ENABLED=0 \
  nice make WHAT="${servers[*]/#/cmd/}"
mkdir -p "$target"
for name in "${servers[@]}"; do
  install -m 755 "$(find _output -type f -name "$name" | head -1)" "$target/$name"
done
echo "built into $target"
