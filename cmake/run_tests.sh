#!/usr/bin/env bash
# run_tests.sh JOBS PRESET...: configures, builds and tests each preset, and ends with one line
# "N passed, N failed" over all of them. Preset dev runs every test; the sanitizer presets run the
# labels unit, multi and sim. A preset that does not build counts as one failure. Exit status 0
# only if nothing failed.
set -uo pipefail
cd "$(dirname "$0")/.."

jobs=$1
shift
passed=0
failed=0

# One attribute of the <testsuite> element that ctest writes.
count() {
  sed -nE "s/.*\b$2=\"([0-9]+)\".*/\1/p;" "$1" | head -1
}

run_preset() {
  local preset=$1
  local report=$PWD/build/$preset/tests.xml
  local select=()
  if [[ $preset != dev ]]; then
    select=(-L '^(unit|multi|sim)$')
  fi
  echo
  echo "== $preset: building in build/$preset with $jobs jobs"
  rm -f "$report"
  if ! cmake --preset "$preset" --log-level=WARNING || ! cmake --build "build/$preset" -j "$jobs"; then
    echo "== $preset: does not build"
    failed=$((failed + 1))
    return
  fi
  echo
  echo "== $preset: running the tests${select[1]:+ with label ${select[1]}}"
  ctest --preset "$preset" -j "$jobs" "${select[@]}" --no-tests=error --output-junit "$report"
  if [[ ! -s $report || $(count "$report" tests) == 0 ]]; then
    echo "== $preset: no test ran"
    failed=$((failed + 1))
    return
  fi
  local total bad skipped
  total=$(count "$report" tests)
  bad=$(count "$report" failures)
  skipped=$(($(count "$report" skipped) + $(count "$report" disabled)))
  passed=$((passed + total - bad - skipped))
  failed=$((failed + bad))
  echo "== $preset: $total tests, $bad failed, $skipped skipped"
}

started=$SECONDS
for preset in "$@"; do
  run_preset "$preset"
done
echo
echo "== all presets: $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
