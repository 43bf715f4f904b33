#!/bin/sh
# build.sh [FOLDER]: builds into FOLDER (/tmp/peers-build) the bench of every library that is
# installed, and says which are not. compare.py and run_peer.sh look for it in $PEERS_BUILD.
cd "$(dirname "$0")" || exit 1
B=${1:-/tmp/peers-build}
mkdir -p "$B"
F="-O3 -march=native -std=c++17 -Wall"

# build NAME COMPILER ARGUMENTS...: skipped if it is newer than all sources.
build() {
  name=$1
  shift
  [ -e "$B/$name" ] && [ -z "$(find . -type f -newer "$B/$name")" ] && return
  if ! command -v "$1" >/dev/null; then
    echo "peers: $name needs $1" >&2
    return
  fi
  "$@" -o "$B/$name" || echo "peers: $name does not build here" >&2
}

build mpi_bench.openmpi mpicxx.openmpi $F mpi_bench.cc
build mpi_bench.mpich mpicxx.mpich $F mpi_bench.cc
if [ -d /usr/include/gloo ]; then
  build gloo_bench g++ $F -Wno-sign-compare gloo_bench.cc -lgloo -lpthread
else
  echo "peers: gloo_bench needs libgloo-dev" >&2
fi
build limit_bench g++ $F limit_bench.cc -lpthread
build limits g++ $F limits.cc -lpthread
build canary g++ $F canary.cc -lpthread
build libcanary.so g++ $F -shared -fPIC canary.cc -lpthread
