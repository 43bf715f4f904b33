#!/usr/bin/env bash
# fuzz.sh BUILD_DIR SECONDS: runs each fuzzer for so long, from the corpus that earlier runs left in
# BUILD_DIR/corpus. A failing input stays in BUILD_DIR/failures; to see it again, pass it to the
# fuzzer as its only argument.
set -uo pipefail
build=$1 seconds=$2
failed=0
mkdir -p "$build/failures"
for fuzzer in "$build"/tests/fuzz/*_fuzz; do
  name=${fuzzer##*/}
  echo
  echo "== $name for $seconds s"
  mkdir -p "$build/corpus/$name"
  "$fuzzer" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$build/failures/$name-" "$build/corpus/$name" || failed=$((failed + 1))
done
echo
echo "$failed fuzzers failed"
[[ $failed -eq 0 ]]
