# The commands of the project; each says what it does before it does it. `make help` lists them.
# Everything is built under build/<preset>; CMakePresets.json says how.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
RANKS ?= 4
# Compiled objects survive a clean build directory where ccache is installed.
ifneq ($(shell command -v ccache),)
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
endif
say = @printf '\n== %s\n' "$(1)"

# Debian packages: what the library and its tests need, then what single targets need on top.
DEPS := g++ cmake make ninja-build ccache pkg-config python3 clang-format libfmt-dev libhwy-dev \
        libsodium-dev libcli11-dev nlohmann-json3-dev libgtest-dev libgmock-dev libbenchmark-dev \
        libdlpack-dev zlib1g-dev dataset-fashion-mnist
DEPS_PACKAGE := dpkg-dev fakeroot file
DEPS_CLANG := clang clang-tidy
DATA := /usr/share/datasets/fashion-mnist

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-8s %s\n", $$1, $$2}'

deps: ## install the Debian packages that are missing (apt, as root or with sudo)
	@cmake/install_deps.sh $(DEPS)

release: deps ## build what a user installs, in build/release
	$(call say,building the release in build/release with $(JOBS) jobs)
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) --log-level=WARNING
	cmake --build build/release -j $(JOBS)

demo: release ## train a small network on Fashion-MNIST on RANKS=4 processes
	$(call say,training a two-layer network on Fashion-MNIST with $(RANKS) ranks)
	@build/release/src/cli/tutti run -n $(RANKS) --prefix "" -- build/release/examples/fashion_mnist --data $(DATA)

test: deps ## build and run all tests, and those of the library once more under the sanitizers
	@cmake/run_tests.sh $(JOBS) dev asan tsan

check: deps ## build and run all tests once, without sanitizers
	@cmake/run_tests.sh $(JOBS) dev

sanitize: deps ## build and run unit, multi and sim tests under asan+ubsan and tsan
	@cmake/run_tests.sh $(JOBS) asan tsan

bench: deps ## measure tutti beside the peers that are installed, and write bench/RESULTS.md (40 minutes)
	$(call say,building the release with benchmarks in build/release)
	@cmake --preset release -DTUTTI_BENCH=ON --log-level=WARNING
	cmake --build build/release -j $(JOBS)
	bench/run.sh build/release $(BENCH)

soak: deps ## walk the whole test grid in random order until stopped (SEED=n, MINUTES=n)
	$(call say,building the tests in build/dev)
	@cmake --preset dev --log-level=WARNING
	cmake --build build/dev -j $(JOBS)
	tests/multi/soak.sh build/dev

fuzz: ## fuzz every parser of foreign bytes for FUZZ_SECONDS=60 each (clang)
	@cmake/install_deps.sh $(DEPS) $(DEPS_CLANG)
	printf '\n== building the fuzzers in build/fuzz\n'
	cmake --preset fuzz --log-level=WARNING
	cmake --build build/fuzz -j $(JOBS)
	cmake/fuzz.sh build/fuzz $(or $(FUZZ_SECONDS),60)

install: release ## install under PREFIX=/usr/local
	$(call say,installing under $(PREFIX))
	@cmake --install build/release --prefix $(PREFIX)

package: ## make the Debian packages libtutti0, libtutti-dev and tutti-tools
	@cmake/install_deps.sh $(DEPS) $(DEPS_PACKAGE)
	printf '\n== building Debian packages in build/package\n'
	cmake --preset release -B build/package -DCMAKE_INSTALL_PREFIX=/usr -DTUTTI_EXAMPLES=OFF --log-level=WARNING
	cmake --build build/package -j $(JOBS)
	cd build/package && cpack && ls -l packages/*.deb

format: ## clang-format every source
	$(call say,formatting)
	@git ls-files '*.cpp' '*.hpp' '*.h' | xargs clang-format -i

tidy: ## clang-tidy over every source (slow); FILES='a.cpp b.cpp' for some
	@cmake/install_deps.sh $(DEPS) $(DEPS_CLANG)
	printf '\n== clang-tidy over $(or $(FILES),all sources)\n'
	cmake --preset dev --log-level=WARNING
	git ls-files $(or $(FILES),'src/*.cpp' 'examples/*.cpp' 'bench/*.cpp') | xargs -P $(JOBS) -n 1 clang-tidy -quiet -p build/dev

clean: ## remove everything that was built
	$(call say,removing build/)
	@rm -rf build

.PHONY: help deps release demo test check sanitize bench soak fuzz install package format tidy clean
