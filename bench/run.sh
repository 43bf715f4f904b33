#!/usr/bin/env bash
# run.sh BUILD: measures `tutti bench` of the build folder BUILD beside the peers that are installed,
# interleaved, for 2 and 4 ranks, and prints medians and ratios. TUTTI_PEERS: folder of the peers'
# benches (bench/peers); ROUNDS (1), MAX (4M), TIME (0.05 s per size), OPS: less or more of it.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
peers=${TUTTI_PEERS:-bench/peers}
export PEERS_BUILD=$PWD/build/peers
results=$PWD/build/bench.csv

printf '\n== building the benches of the peers in build/peers\n'
"$peers/build.sh" "$PEERS_BUILD" || echo "some peers were not built"

# run_peer.sh's names of the peers whose program is there.
found=()
while read -r program names; do
  if [[ -x $PEERS_BUILD/$program ]]; then
    found+=($names)
  fi
done <<'LIST'
mpi_bench.openmpi openmpi openmpi_ucx
mpi_bench.mpich mpich
gloo_bench gloo_batch
limit_bench limit
LIST

rm -f "$results"
for ranks in 2 4; do
  printf '\n== %s ranks: tutti %s; rows go to %s\n' "$ranks" "${found[*]}" "$results"
  "$peers/compare.py" --ranks "$ranks" --rounds "${ROUNDS:-1}" --out "$results" --base tutti \
    --placement any --cmd "tutti=$build/src/cli/tutti bench --csv --ranks {ranks}" \
    --peers "$(IFS=,; echo "${found[*]}")" \
    -- --max "${MAX:-4M}" --time "${TIME:-0.05}" ${OPS:+--ops "$OPS"}
done
