#!/usr/bin/env bash
# network.sh BUILD: measures `tutti bench` of the build folder BUILD beside the peers over TCP, interleaved, between two
# network namespaces that stand for two hosts (root needed), and prints medians and ratios. What may be set:
#   RANKS (2; half of them in each namespace), RATE (e.g. 10gbit; default: unlimited), ROUNDS (1), MAX (4M), FACTOR (16),
#   TIME (0.05 s per size), OPS (all), PEERS (those installed), OUT (BUILD/network.csv), PEERS_BUILD (build/peers).
# `network.sh --ranks BUILD RANKS OPTIONS...` runs tutti alone in namespaces that exist.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Peers are not bound to CPUs, so tutti is not either.
start_ranks() {
  local tutti=$1/src/cli/tutti ranks=$2 pids=() status=0 rank pid
  shift 2
  TUTTI_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  export TUTTI_SECRET WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$((ranks / 2)) MASTER_ADDR=10.77.0.1
  export MASTER_PORT=${MASTER_PORT:-29577}
  for ((rank = 0; rank < ranks; rank++)); do
    RANK=$rank LOCAL_RANK=$((rank % LOCAL_WORLD_SIZE)) \
      ip netns exec "p$([[ $rank -lt $LOCAL_WORLD_SIZE ]] && echo A || echo B)" \
      "$tutti" bench --csv --pin none "$@" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
  return "$status"
}

if [[ ${1:-} == --ranks ]]; then
  shift
  start_ranks "$@"
  exit
fi

build=$(cd "$1" && pwd)
export PEERS_BUILD=${PEERS_BUILD:-$here/../build/peers}
commands=(--cmd "tutti=$here/network.sh --ranks $build {ranks}")
while read -r program names; do
  for name in $names; do
    if [[ -x $PEERS_BUILD/$program && ,${PEERS:-$name}, == *,$name,* ]]; then
      commands+=(--cmd "$name=$here/peers/net_run.sh $name {ranks}")
    fi
  done
done <<'LIST'
mpi_bench.openmpi openmpi_tcp
mpi_bench.mpich mpich_tcp
gloo_bench gloo_tcp gloo_tcp_batch
LIST

trap '"$here/peers/netns.sh" down' EXIT
"$here/peers/netns.sh" up "${RATE:-none}"
"$here/peers/compare.py" --ranks "${RANKS:-2}" --rounds "${ROUNDS:-1}" \
  --out "${OUT:-$build/network.csv}" --base tutti --placement any "${commands[@]}" \
  -- --max "${MAX:-4M}" --factor "${FACTOR:-16}" --time "${TIME:-0.05}" ${OPS:+--ops "$OPS"}
