#!/usr/bin/env bash
# soak.sh BUILD_DIR: random cases of the whole test grid until Ctrl-C, a failure, or MINUTES.
# SEED=n repeats a walk; without it the seed is drawn and printed.
set -euo pipefail
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
echo "soak seed $seed; repeat with: make soak SEED=$seed"
exec "$1/tests/multi/grid" --soak "$seed" --minutes "${MINUTES:-0}"
