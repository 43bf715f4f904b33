#!/usr/bin/env bash
# run.sh WAY CMAKE BUILD_DIR COMPILER: installs BUILD_DIR under a fresh prefix, then
#   find_package  builds and runs the outside project in consumer/ by CMake,
#   pkg_config    builds and runs the same program with flags from pkg-config,
#   headers       compiles each public header alone, and checks that the library exports nothing of
#                 ours that the headers do not declare, and needs no private library of the user.
set -euo pipefail
way=$1 cmake=$2 build=$3 compiler=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
DESTDIR='' "$cmake" --install "$build" --prefix "$prefix" >"$work/install.log"
library=$(find "$prefix" -name 'libtutti.so' -printf '%h\n')

case $way in
  find_package)
    "$cmake" -S "$here/consumer" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
      -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release
    "$cmake" --build "$work/build"
    "$work/build/consumer"
    ;;
  pkg_config)
    export PKG_CONFIG_PATH=$library/pkgconfig
    read -ra flags <<<"$(pkg-config --cflags --libs tutti)"
    "$compiler" -std=c++20 -Wall -Wextra -Werror "$here/consumer/main.cpp" "${flags[@]}" -o "$work/consumer"
    LD_LIBRARY_PATH=$library "$work/consumer"
    ;;
  headers)
    for header in "$prefix"/include/tutti/*.hpp; do
      echo "header ${header##*/} alone"
      echo "#include <tutti/${header##*/}>" >"$work/alone.cpp"
      "$compiler" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I"$prefix/include" "$work/alone.cpp"
    done
    if private=$(nm -DC --defined-only "$library/libtutti.so" | grep -E ' (fmt|hwy|CLI|nlohmann)::'); then
      echo "the library exports symbols of its private dependencies:"
      echo "$private"
      exit 1
    fi
    nm -DC --defined-only "$library/libtutti.so" | sed -nE 's/^[0-9a-f]+ [TW] (tutti::[^(]*)\(.*/\1/p' |
      grep -v operator | sort -u >"$work/exported"
    while read -r symbol; do
      symbol=${symbol%%\[abi:*}  # [abi:cxx11]
      if ! grep -qw -- "${symbol##*[:~]}" "$prefix"/include/tutti/*.h*; then
        echo "the library exports '$symbol', which no public header declares"
        exit 1
      fi
    done <"$work/exported"
    echo "$(wc -l <"$work/exported") functions exported, all of them declared"
    if grep -rE 'fmt|hwy|sodium|CLI11|nlohmann' "$library/cmake/tutti/"tuttiTargets*.cmake |
      grep INTERFACE; then
      echo "the installed interface names a private dependency"
      exit 1
    fi
    ;;
  *)
    echo "unknown way '$way': pass find_package, pkg_config or headers" >&2
    exit 2
    ;;
esac
