# Everything runs from a fresh clone with cargo, Python 3.11+, make and a C compiler. No activation
# of .venv is needed. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# What a later build could reuse costs the first one more.
export CARGO_INCREMENTAL ?= 0
# A panic names its line without it; who wants the lines of a backtrace calls `cargo test` alone.
export CARGO_PROFILE_DEV_DEBUG ?= 0

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Byte code is written when a module is first imported: most of what tests install never is. If it were not written then,
# each of the thousands of processes that the tests start would compile every module.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
DEMO := data/scenarios/bbr3/four-flows-50M-40ms-1bdp.toml

RUST := Cargo.toml Cargo.lock $(shell find crates lab linux python/extension -name '*.rs' -o -name Cargo.toml)
PACKAGE := $(shell find python/paceline data -path '*/__pycache__' -prune -o -type f -not -name '*.so' -print)

.PHONY: help demo test bench docs fitting stacks stacks-reference stacks-sockets pictures claims-pictures reference certainty web playground playground-check capi guests guests-check kernel miri clean tools lint test-rust test-s2n test-python s2n recipes ci-full soak deny

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

tools:
	@command -v cargo >/dev/null || { \
	  echo "error: cargo is not on PATH" >&2; \
	  echo "hint: install Rust 1.88 or newer, see https://rustup.rs" >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null || { \
	  echo "error: $(PYTHON) is not on PATH" >&2; \
	  echo "hint: install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $(PYTHON) is $$($(PYTHON) -V 2>&1), and 3.11 or newer is needed" >&2; \
	  echo "hint: name another: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "error: $(PYTHON) has no venv module" >&2; \
	  echo "hint: on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(BIN)/python: | tools
	@$(PYTHON) -m venv $(VENV)

# The package, optimised, and its command. One wheel: an old one would be taken for the new.
$(VENV)/.installed: $(BIN)/python $(RUST) $(PACKAGE) pyproject.toml | tools
	@rm -rf $(VENV)/wheels
	$(PIP) 'maturin>=1.9,<2'
	@.ci/progress paceline-python $(BIN)/maturin build --locked --interpreter $(BIN)/python --out $(VENV)/wheels
	@echo "installing the package and what it needs" >&2
	$(PIP) $(VENV)/wheels/*.whl
	$(PIP) --no-deps --force-reinstall $(VENV)/wheels/*.whl
	@touch $@

# The tools that tests need.
$(VENV)/.developed: $(VENV)/.installed
	$(PIP) "$$(echo $(VENV)/wheels/*.whl)[dev]"
	@touch $@

demo: $(VENV)/.installed ## Build, run four BBRv3 flows for 60 s, write a report
	@$(BIN)/paceline run $(DEMO) --report

# What is cheap comes first.
lint: | tools
	@.ci/stage rustfmt cargo fmt --all --check
	@.ci/stage package $(MAKE) --no-print-directory $(VENV)/.developed
	@.ci/stage ruff $(BIN)/ruff format --check python tests docs web guests
	@.ci/stage ruff $(BIN)/ruff check python tests docs web guests
	@.ci/stage mypy $(BIN)/mypy
	@.ci/stage clippy cargo clippy --workspace --all-targets -- -D warnings
	@.ci/stage rustdoc env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet

test-rust: | tools
	@.ci/stage rust cargo test --workspace --quiet
	@.ci/stage instructions .ci/instructions

# A workspace of its own, for a newer Rust.
test-s2n: | tools
	@if [ "$$(printf '%s\n' 1.95 "$$(rustc --version | cut -d ' ' -f 2)" | sort -V | head -1)" != 1.95 ]; then \
	  echo "skipped: crates/s2n needs Rust from 1.95 on" >&2; exit $${PACELINE_FULL:-0}; fi; \
	cd crates/s2n && cargo fmt --all --check && export CARGO_TARGET_DIR=$(CURDIR)/target/s2n && \
	cargo clippy --quiet --all-targets -- -D warnings && cargo test --quiet

s2n: | tools ## paceline-s2n in the whole of s2n-quic, in virtual time (takes minutes to build)
	@cd crates/s2n && CARGO_TARGET_DIR=$(CURDIR)/target/s2n cargo test --quiet --workspace

test-python: | tools
	@.ci/stage package $(MAKE) --no-print-directory $(VENV)/.developed
	@.ci/stage python $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --durations 20 --durations-min 5

recipes: | tools ## Carry out every recipe of CONTRIBUTING on a copy of the tree
	@.ci/stage package $(MAKE) --no-print-directory $(VENV)/.developed
	@.ci/stage recipes $(BIN)/python tests/recipes/carry_out.py

test: ## Format, lint, types and every test, in Rust and Python, and the recipes
	@.ci/stage --begin
	@$(MAKE) --no-print-directory lint recipes test-rust test-python
	@.ci/stage --sum

deny: | tools ## Advisories, licences, sources and bans of every lock file (needs cargo-deny and a network)
	@git ls-files '*Cargo.lock' | while read -r lock; do \
	  echo "$$lock" >&2; \
	  cargo deny --manifest-path "$${lock%lock}toml" --all-features --locked --config .ci/deny.toml check $(DENY) || exit; done

ci-full: ## The same, paceline-s2n and the guests, and what this machine lacks is a failure
	@PACELINE_FULL=1 $(MAKE) --no-print-directory test
	@PACELINE_FULL=1 $(MAKE) --no-print-directory test-s2n s2n guests-check

soak: $(VENV)/.developed ## Random scenarios, kills, fuzzing and mutants, for hours; writes docs/soak.md
	@$(BIN)/python tests/soak.py $(SOAK)

bench: | tools ## Measure the controllers and the simulator (HTSIM=PATH/sim: beside csg-htsim, if it is built there)
	cargo bench --workspace
	.ci/instructions --print
	@[ -z "$(HTSIM)" ] || $(PYTHON) lab/simulator/benches/peers/htsim.py "$(HTSIM)"

certainty: $(VENV)/.developed ## Measure how often intervals and comparisons are right; writes docs/guide/certainty.md
	@$(BIN)/python docs/certainty.py

reference: $(VENV)/.installed ## Write the pages of docs/reference that come from the program
	@$(BIN)/python -c 'import paceline; print(paceline.schema().rstrip())' > docs/reference/scenario.schema.json
	@$(BIN)/python docs/generate.py

fitting: $(VENV)/.developed ## Fit 100 records of drawn paths; writes the table of docs/guide/fit.md (takes minutes)
	@$(BIN)/python tests/fitting.py --write

stacks: $(VENV)/.developed ## Compare the QUIC stacks; writes docs/stacks.md, resumes where it was stopped
	@$(BIN)/python docs/judged.py
	@$(BIN)/python docs/stacks.py
	@$(BIN)/python docs/beside.py

stacks-reference: $(VENV)/.developed ## Lay them beside the reference traces; writes docs/stacks/reference.md
	@$(BIN)/python docs/beside.py

stacks-sockets: $(VENV)/.developed ## Repeat the surprising ones over sockets, on an idle machine; writes docs/stacks/sockets.md
	@$(BIN)/python docs/sockets.py

pictures: $(VENV)/.developed ## Draw the picture of README from its run
	@$(BIN)/python docs/pictures.py readme

claims-pictures: $(VENV)/.developed ## Draw the pictures of docs/claims.md from the claims' own runs
	@$(BIN)/python docs/pictures.py

docs: $(VENV)/.developed ## Build the docs as a site, into target/site
	@$(BIN)/python -m mkdocs build --strict --quiet
	@echo target/site/index.html

web: ## Check and build the page's TypeScript into the package (needs Node.js and npm)
	@command -v npm >/dev/null || { \
	  echo "error: npm is not on PATH" >&2; \
	  echo "hint: only a change of web/ needs it; install Node.js 20 or newer" >&2; exit 1; }
	npm --prefix web ci --silent
	npm --prefix web run --silent build

# Small and fast to load: stripped, and optimised across crates.
WASM := target/playground-build/wasm32-unknown-unknown/release/paceline_wasm.wasm
playground: $(VENV)/.installed ## The simulator in a page, target/playground/index.html (needs Rust's target wasm32-unknown-unknown)
	@test -d "$$(rustc --print sysroot)/lib/rustlib/wasm32-unknown-unknown" || { \
	  echo "error: this Rust has no target wasm32-unknown-unknown" >&2; \
	  echo "hint: rustup target add wasm32-unknown-unknown" >&2; exit 1; }
	@CARGO_PROFILE_RELEASE_STRIP=true CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_LTO=fat \
	  cargo build --quiet --release --target wasm32-unknown-unknown --package paceline-wasm --target-dir target/playground-build
	@$(BIN)/python web/playground/build.py $(WASM) target/playground

playground-check: playground ## Compare it with the native simulator: shipped and random scenarios (needs Node.js and Chromium)
	@rm -rf target/playground/random
	@cargo run --quiet --release --package paceline-soak -- --seed 1 --count 80 --keep --out target/playground/random
	@for engine in $(WASM) target/playground/index.html; do \
	  $(BIN)/python web/playground/native.py $$engine $$(find data/scenarios target/playground/random -name '*.toml' | sort) || exit; done

miri: | tools ## Look for undefined behaviour where there is unsafe code (needs nightly Rust with Miri)
	PROPTEST_CASES=2 MIRIFLAGS=-Zmiri-disable-isolation \
	  cargo +nightly miri test --package paceline-capi --package paceline-plugin --tests

# The same bytes from any folder; the committed objects are of clang 14 with libbpf 1.1.
KERNEL := $(CURDIR)/python/paceline/kernel
kernel: ## Compile the programs for the kernel into the package (needs clang, llvm and libbpf's headers)
	@command -v clang >/dev/null && command -v llvm-strip >/dev/null || { \
	  echo "error: clang and llvm-strip are not on PATH" >&2; \
	  echo "hint: only a change of linux/kernel/ needs them; on Debian and Ubuntu: apt install clang llvm libbpf-dev" >&2; exit 1; }
	@cd linux && for name in paceline_bbr3 paceline_stock; do \
	  clang -O2 -g -target bpf -mcpu=v3 -Wall -Werror -Wno-unused-function -fdebug-prefix-map=$(CURDIR)/linux=. \
	    -c kernel/$$name.bpf.c -o $(KERNEL)/$$name.o && llvm-strip -g $(KERNEL)/$$name.o || exit 1; \
	  echo $(KERNEL)/$$name.o; \
	done

# The version of the C interface is that of the library's name.
CAPI := target/capi
capi: | tools ## The controllers as a C library, static and shared, with its headers and pkg-config, into target/capi
	cargo rustc --quiet --release --package paceline-capi --crate-type staticlib
	cargo rustc --quiet --release --package paceline-capi --crate-type cdylib -- -C link-arg=-Wl,-soname,libpaceline.so.1
	@install -d $(CAPI)/include $(CAPI)/lib/pkgconfig
	@install -m 644 crates/capi/include/*.h $(CAPI)/include
	@install -m 644 target/release/libpaceline_capi.a $(CAPI)/lib/libpaceline.a
	@install -m 755 target/release/libpaceline_capi.so $(CAPI)/lib/libpaceline.so.1
	@strip --strip-debug $(CAPI)/lib/libpaceline.a $(CAPI)/lib/libpaceline.so.1
	@ln -sf libpaceline.so.1 $(CAPI)/lib/libpaceline.so
	@sed 's/@VERSION@/$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)/' crates/capi/paceline.pc.in > $(CAPI)/lib/pkgconfig/paceline.pc
	@echo $(CAPI)

# Each has a lock file and dependencies of its own, and is in no wheel.
GUESTS ?= s2n tquic ngtcp2 picoquic quiche
GUESTS_BUILD := target/guests-build
guests: | tools ## QUIC stacks of others as libraries, into target/guests (GUESTS=ngtcp2 for one; guests/README.md says what each needs)
	@install -d target/guests
	@for guest in $(GUESTS); do \
	  echo "building $$guest (the first time takes minutes)" >&2; \
	  if [ -f guests/$$guest/guest.c ]; then \
	    $(PYTHON) guests/build.py $$guest $(GUESTS_BUILD)/$$guest target/guests/$$guest.so; \
	  else \
	    cargo build --quiet --release --locked --manifest-path guests/$$guest/Cargo.toml --target-dir $(GUESTS_BUILD) && \
	    install -m 755 $(GUESTS_BUILD)/release/libguest_$$guest.so target/guests/$$guest.so && \
	    { [ ! -x $(GUESTS_BUILD)/release/guest-$$guest ] || \
	      install -m 755 $(GUESTS_BUILD)/release/guest-$$guest target/guests/; }; \
	  fi || { \
	    echo "hint: guests/README.md says what $$guest needs; make guests GUESTS=NAME builds another alone" >&2; exit 1; }; \
	  echo target/guests/$$guest.so; \
	done
	@echo "try one: cargo run --release -p paceline-plugin --example guest target/guests/$(firstword $(GUESTS)).so"

guests-check: guests ## Run each guest over a bottleneck twice, and the tests of guests in processes of their own
	@cargo test --quiet --manifest-path guests/process/Cargo.toml --target-dir $(GUESTS_BUILD)
	@for guest in $(GUESTS); do \
	  cargo run --quiet --release --package paceline-plugin --example guest target/guests/$$guest.so || exit; done

clean: ## Remove what the targets above made, runs excepted
	rm -rf $(VENV) target web/node_modules .pytest_cache .ruff_cache .mypy_cache .hypothesis
