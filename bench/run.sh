#!/usr/bin/env bash
# run.sh BUILD [OPTIONS...]: builds the benches of the peers that are installed, measures tutti of the build folder
# BUILD beside them (campaign.py, which takes the options), and makes bench/RESULTS.md of all rows. A run that was
# stopped goes on where it was; BENCH='--fresh' begins anew. TUTTI_PEERS: folder of the peers' benches (bench/peers).
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
shift
peers=${TUTTI_PEERS:-bench/peers}
export PEERS_BUILD=${PEERS_BUILD:-$PWD/build/peers}

printf '\n== building the benches of the peers in %s\n' "$PEERS_BUILD"
"$peers/build.sh" "$PEERS_BUILD" || echo "some peers were not built"

printf '\n== measuring; docs/performance.md has the protocol\n'
bench/campaign.py "$build" "$@"

printf '\n== making the report\n'
raw=bench/raw
for option in "$@"; do
  case $option in --raw=*) raw=${option#--raw=} ;; esac
done
bench/report.py "$raw"
