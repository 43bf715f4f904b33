#!/usr/bin/env bash
# run_tests.sh JOBS PRESET...: configures, builds and tests each preset, and ends with one line
# "N passed, N failed" over all of them, after the names and the output of the tests that failed.
# Preset dev runs every test; the sanitizer presets run the labels unit, multi and sim. A preset that
# does not build, or runs no test, counts as one failure.
# Exit status 0 only if nothing failed.
set -uo pipefail
cd "$(dirname "$0")/.."

jobs=$1
shift
passed=0
failed=0
failures=()  # "PRESET: NAME" of each test that failed

# note_failures PRESET LOG: prints what each failed test said last, and keeps the names.
note_failures() {
  local name
  while read -r name; do
    failures+=("$1: $name")
    echo
    echo "== $1: the end of the output of $name"
    awk -v name="$name" '/^ *[0-9]+\/[0-9]+ Test +#/ { inside = index($0, " " name " ") > 0 }
                         /^[0-9]+% tests passed/ { inside = 0 }
                         /^ +Start +[0-9]+: / { next } inside' "$2" | tail -n 60
  done < <(sed -nE '/^The following tests FAILED:/,$s/^[[:space:]]+[0-9]+ - (.*) \([^()]*\)$/\1/p' "$2")
}

build_preset() {
  echo
  echo "== $1: building in build/$1 with $jobs jobs"
  cmake --preset "$1" --log-level=WARNING >"build/$1.configure.log" 2>&1 || {
    cat "build/$1.configure.log"
    return 1
  }
  cmake --build "build/$1" -j "$jobs"
}

run_preset() {
  local preset=$1
  local log=$PWD/build/$preset/ctest.log
  local select=()
  if [[ $preset != dev ]]; then
    select=(-L '^(unit|multi|sim)$')
  fi
  if ! build_preset "$preset"; then
    echo "== $preset: does not build"
    failed=$((failed + 1))
    return
  fi
  echo
  echo "== $preset: running the tests${select[1]:+ with label ${select[1]}}"
  ctest --preset "$preset" -j "$jobs" "${select[@]}" --no-tests=error 2>&1 | tee "$log"
  local status=${PIPESTATUS[0]}
  # ctest's own summary: "98% tests passed, 2 tests failed out of 123"; skipped ones count as passed.
  local total bad skipped
  read -r bad total < <(sed -nE 's/.* tests passed, ([0-9]+) tests? failed out of ([0-9]+)/\1 \2/p' "$log")
  if [[ -z ${total:-} || ($status -ne 0 && $bad -eq 0) ]]; then
    echo "== $preset: ctest ended with status $status without a verdict"
    failed=$((failed + 1))
    return
  fi
  skipped=$(grep -cE '^[[:space:]]+[0-9]+ - .* \(Skipped\)$' "$log")
  passed=$((passed + total - bad - skipped))
  failed=$((failed + bad))
  note_failures "$preset" "$log"
  echo "== $preset: $total tests, $bad failed, $skipped skipped"
}

mkdir -p build
for preset in "$@"; do
  run_preset "$preset"
done
echo
echo "== all presets: $((SECONDS / 60)) min $((SECONDS % 60)) s"
[[ ${#failures[@]} -eq 0 ]] || printf 'failed: %s\n' "${failures[@]}"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
