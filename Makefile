# What a developer can do here: `make` lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
REPORT := iocurve-report
FUZZ_SECONDS := 600
SOAK_SECONDS := 3600
WORKERS := 5
# clippy's lints come with the compilation for the tests, which then takes 15 % more; `cargo clippy` would check again all that the
# crates use, too. Both commands name the same crates, so that they have the same features of dependencies.
LINTED := RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/.ci/rustc-clippy cargo
CLIPPY := $(LINTED) build --workspace --all-targets --features iocurve-py/extension-module --locked --quiet
CARGO_TEST := $(LINTED) test --workspace --locked --quiet
PYTEST := $(BIN)/pytest --quiet --numprocesses $(WORKERS) --no-loadscope-reorder

NATIVE_SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name '*.rs' -o -name Cargo.toml)

# clippy and the build of the bindings ask this interpreter, not whichever python3 comes first.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
# The build looks for maturin on the path.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Every step uses all cores by itself; two at once would only mix their output.
.NOTPARALLEL:
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: $(VENV)/.installed ## leave a working iocurve in .venv/bin

.PHONY: develop
develop: build $(VENV)/.developer ## leave in .venv what tests, lints and benches need, too

# A wheel for this machine needs no compiler.
WHEEL := $(firstword $(wildcard dist/iocurve-*-manylinux_2_28_$(shell uname -m).whl))
DEMO := $(if $(WHEEL),target/demo,$(VENV))
.PHONY: demo
demo: $(DEMO)/.installed ## serve the embedded NFS volume, measure it, write the report; takes a wheel from dist/
	$(DEMO)/bin/iocurve envelope --quick --out $(REPORT)
	@echo
	@echo "The report is $(CURDIR)/$(REPORT)/report.html (open it in a browser); its data is result.json in the same directory."

# mypy uses one core, and tests wait, those of the crates too, which go on beside the others and print at the end. A first
# collection compiles the Python tests, which each worker would otherwise do for itself.
.PHONY: test
test: compile formatted ## build, check formatting, lints and types, run every test
	@$(MAKE) --no-print-directory test-rust >target/test-rust.log 2>&1 & tests=$$!; \
	$(BIN)/pytest --quiet --collect-only >/dev/null 2>&1 & \
	$(BIN)/mypy && $(MAKE) --no-print-directory test-python; tested=$$?; \
	wait $$tests; failed=$$?; cat target/test-rust.log; exit $$((tested || failed))

# The last crates of the bindings use one core each, so cargo compiles the tests of the crates at the same time. Neither
# prints unless it fails. A Python test counts the instructions of serve_calls and client_calls, which are compiled while the
# packages of developers are copied; the bindings are named, too, so that they have their features and share their crates.
.PHONY: compile
compile: | cargo $(VENV)/.created
	@$(CLIPPY) & tests=$$!; $(MAKE) --no-print-directory build; built=$$?; \
	cargo build --release --locked --quiet --package iocurve-py --package iocurve-volume --package iocurve-engine \
		--bin serve_calls --bin client_calls & served=$$!; \
	test $$built = 0 && $(MAKE) --no-print-directory develop; built=$$?; \
	wait $$tests && wait $$served && exit $$built

.PHONY: check
check: lint ## formatting, lints and types of both languages
	$(BIN)/mypy

.PHONY: lint
lint: formatted clippy ## formatting and lints of both languages

.PHONY: formatted
formatted: develop
	cargo fmt --all --check
	$(BIN)/ruff format --check
	$(BIN)/ruff check

.PHONY: clippy
clippy: develop
	$(CLIPPY)

# By hand: make test, and ten minutes more. It tags only with TAG=1, and pushes nothing.
.PHONY: release
release: develop ## check, test, and build wheels, source distribution, SBOM, licences, man page and completions in dist/; TAG=1 tags
	$(BIN)/python -m bench.release check
	$(MAKE) --no-print-directory test
	rm -rf dist
	$(MAKE) --no-print-directory wheel
	$(BIN)/maturin sdist --out dist
	$(BIN)/python -m bench.release documents dist
	$(if $(TAG),$(BIN)/python -m bench.release tag)

.PHONY: test-rust
test-rust: ## the tests of the crates
	$(CARGO_TEST)

# Most of these tests wait, so there are more workers than processors. The second run needs the machine to itself.
.PHONY: test-python
test-python: develop ## the tests of the whole path, from plan to result, and against real peers
	$(PYTEST) -m "not alone"
	$(BIN)/pytest -m alone $$(grep --recursive --files-with-matches --include='test_*.py' '^@pytest.mark.alone' tests)

.PHONY: quick
quick: develop ## what a change breaks first: formatting, lints, types, and the tests that need no server and no second
	cargo fmt --all --check
	$(BIN)/ruff format --quiet --check
	$(BIN)/ruff check --quiet
	$(BIN)/mypy
	$(CLIPPY)
	$(CARGO_TEST) --lib
	$(PYTEST) -m "not slow and not alone" --timeout 30

.PHONY: contract
contract: ## write the Python structs of plans and outcomes from the Rust types
	IOCURVE_UPDATE_CONTRACT=1 cargo test --package iocurve-engine --lib --locked --quiet contract

# By hand: it needs a nightly compiler and `cargo install cargo-fuzz`, and takes its time.
.PHONY: fuzz
fuzz: ## fuzz the decoders, record marking, whole calls, conversations of NFSv4.1 clients and the client's replies, FUZZ_SECONDS (600) each
	mkdir -p fuzz/corpus && tar -xzf fuzz/corpora.tar.gz -C fuzz/corpus
	cargo +nightly fuzz run decode -- -max_total_time=$(FUZZ_SECONDS)
	cargo +nightly fuzz run records -- -max_total_time=$(FUZZ_SECONDS)
	cargo +nightly fuzz run calls -- -max_total_time=$(FUZZ_SECONDS)
	cargo +nightly fuzz run compounds -- -max_total_time=$(FUZZ_SECONDS)
	cargo +nightly fuzz run conversations -- -max_total_time=$(FUZZ_SECONDS)
	cargo +nightly fuzz run replies -- -max_total_time=$(FUZZ_SECONDS)

# By hand, too: Miri is a part of the nightly compiler, and slow.
.PHONY: miri
miri: ## run the tests of the I/O memory under Miri, which finds undefined behaviour
	@cargo +nightly miri --version >/dev/null 2>&1 || { \
	    echo "Miri is missing: rustup toolchain install nightly --component miri,rust-src" >&2; exit 1; }
	cargo +nightly miri test --package iocurve-engine --lib engines::buffers

# By hand, too. The sanitizer keeps freed memory for a while, so the test of bounded memory does not apply, and one
# test asks for more memory than there is.
.PHONY: sanitize
sanitize: ## run the tests of the crates under the address sanitizer, which finds wrong accesses to memory
	RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=allocator_may_return_null=1 \
	    cargo +nightly test --target x86_64-unknown-linux-gnu --locked --target-dir target/address-sanitizer \
	    --package iocurve-wire --package iocurve-meter --package iocurve-epoll \
	    --package iocurve-volume --package iocurve-engine \
	    -- --skip five_thousand_connections_hold_a_bounded_amount

.PHONY: bench
bench: develop ## measure iocurve beside its peers; results go to bench/results
	$(BIN)/python -m bench

.PHONY: bench-peers
bench-peers: develop ## every aim of speed next to its peer or limit, as one table, ten minutes on an idle machine
	$(BIN)/python -m bench.peers

.PHONY: compatibility
compatibility: develop ## compare with fio again, and write the tables of docs/evidence/equivalence.md and docs/evidence/third-party-jobs.md
	IOCURVE_UPDATE_GOLDEN=1 $(BIN)/pytest -q tests/peers/test_fio_equivalence.py tests/test_strangers.py

# The pages link to each other by their places in the repository, so the site has the same places.
SITE := target/site
.PHONY: docs
docs: $(SITE)/.installed ## build the documentation as a site in target/site/html, and test its links
	rm -rf $(SITE)/pages && mkdir -p $(SITE)/pages/bench
	ln -s $(CURDIR)/*.md $(CURDIR)/docs $(SITE)/pages/
	ln -s $(CURDIR)/bench/README.md $(SITE)/pages/bench/
	NO_MKDOCS_2_WARNING=1 $(SITE)/venv/bin/mkdocs build --strict 2>$(SITE)/log || { cat $(SITE)/log >&2; exit 1; }
	@echo "The site is $(CURDIR)/$(SITE)/html/index.html."

$(SITE)/.installed: requirements-docs.lock | $(VENV)/.created
	$(BIN)/uv venv --quiet --allow-existing $(SITE)/venv
	VIRTUAL_ENV=$(SITE)/venv $(BIN)/uv pip install --quiet --require-hashes --requirement $<
	@touch $@

# By hand: five minutes, on a quiet machine; Chromium takes the picture.
.PHONY: readme
readme: develop ## run the commands of README.md, and write their outputs and the picture of a report
	$(BIN)/python -m bench.readme

.PHONY: pictures
pictures: develop ## take the pictures of a report and of an article that the documents show, from a kept result
	$(BIN)/python -m bench.readme --pictures

# By hand: half an hour. DOCUMENTS limits it, for example to the time that a machine is quiet; a second call continues.
.PHONY: documents
documents: develop ## show the statements of the published documents, and write docs/evidence/published.md
	$(BIN)/python -m bench.documents $(DOCUMENTS)

# By hand, at most 20 minutes. The tests run the same simulations with fewer runs. The first part measures in real time and
# wants a quiet machine; the others do not depend on its load. No part starts a row or a run after its time: rows that are
# left keep what an earlier call measured.
.PHONY: truth
truth: truth-measured truth-simulated truth-simulated-limits ## measure how true the figures and conclusions are, in 20 minutes, and write the tables of docs/evidence/accuracy.md

.PHONY: truth-measured
truth-measured: develop ## the part of make truth that measures in real time, in 6 minutes
	$(BIN)/python -m bench.truth closed open queues calls knees --seconds 300
	$(BIN)/python -m bench.limits --runs 1 --seconds 45 --section drawn

.PHONY: truth-simulated
truth-simulated: develop ## the part of make truth that is simulated, in 8 minutes
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
	    $(BIN)/python -m bench.truth intervals stopping families gains compared steps law percentiles capacity most-load --seconds 440

.PHONY: truth-power
truth-power: develop ## the tables of how often ab and history find a change, in 15 minutes
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.truth power histories

# LIMITS keeps the runs of a commit, and a second call continues there; SEED is that of the first run.
LIMITS := target/limits
SEED := 1
COMMIT = $(shell git rev-parse --short HEAD)
SIMULATED_LIMITS := known hidden hogs held-out-hidden held-out-hogs page-short page-long
.PHONY: truth-simulated-limits
truth-simulated-limits: develop ## count how often limits are named rightly in simulated time: all kinds, 20 runs, in 5 minutes
	mkdir -p $(LIMITS)
	for setting in $(SIMULATED_LIMITS); do \
	  $(BIN)/python -m bench.limits --target simulated-$$setting --parallel $$(nproc) --section simulated-$$setting \
	    --seed $(SEED) --seconds 60 --out $(LIMITS)/simulated-$$setting-$(SEED)-$(COMMIT).jsonl || exit 1; \
	done

# By hand, too: about six hours; the last part needs root. A second call continues.
LIMITS_BENCH = $(BIN)/python -m bench.limits --section
.PHONY: truth-limits
truth-limits: develop ## count how often limits are named rightly, and write the tables of docs/evidence/bottlenecks.md
	mkdir -p $(LIMITS)
	$(LIMITS_BENCH) stub --out $(LIMITS)/stub.jsonl
	$(LIMITS_BENCH) stub-hogs --hogs 2 --out $(LIMITS)/stub-hogs.jsonl
	$(LIMITS_BENCH) known --target known --parallel 1 --out $(LIMITS)/known.jsonl
	$(LIMITS_BENCH) hidden --target hidden --out $(LIMITS)/hidden.jsonl
	$(BIN)/python -m bench.limits.strangers --section strangers --out $(LIMITS)/strangers.jsonl

# By hand: minutes, most of them for the journals. The tests run what of it takes seconds.
.PHONY: faults
faults: develop ## break server, network, client and storage, and write the table of docs/evidence/failures.md
	$(BIN)/python -m bench.faults

# By hand, too: it needs root, and takes ten minutes.
.PHONY: faults-cluster
faults-cluster: develop ## break hosts, links and clocks of a cluster, and write the table of docs/evidence/failures-cluster.md
	$(BIN)/python -m bench.cluster

# By hand, too: two hours and more. The guests of the crowd need root.
.PHONY: soak
soak: develop ## look for leaks: a year of clients by a held clock, 1,000 runs, 1,000 processes, SOAK_SECONDS (3600) at full load and with a crowd of clients
	SOAK_DAYS=365 cargo test --release --package iocurve-volume --lib --locked --quiet weeks_of_clients -- --nocapture
	$(BIN)/python -m bench.soak --seconds $(SOAK_SECONDS)

# By hand: four minutes. Zig (from PyPI) links for glibc 2.28 whatever this machine has; abi3 fits CPython 3.11 and later.
WHEEL_TARGETS := x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
.PHONY: wheel
wheel: develop ## build wheels for x86-64 and aarch64 in dist/, and try the one for this machine where there is no compiler
	rustup target add $(WHEEL_TARGETS)
	$(BIN)/pip install --quiet 'ziglang>=0.17,<0.18'
	for target in $(WHEEL_TARGETS); do \
	  $(BIN)/maturin build --release --locked --zig --compatibility manylinux_2_28 --target $$target \
	    --target-dir target/wheel --out dist || exit 1; \
	done
	tests/rig/wheel dist/iocurve-*-manylinux_2_28_$$(uname -m).whl $(PYTHON)

.PHONY: format
format: develop ## format both languages and apply the fixes that are safe
	cargo fmt --all
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

UV_LOCK = $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --quiet pyproject.toml
.PHONY: lock
lock: develop ## take the newest versions that Cargo.toml and pyproject.toml allow into the lock files
	cargo update
	$(UV_LOCK) --upgrade --group pyproject.toml:dev --output-file requirements.lock
	$(UV_LOCK) --constraint requirements.lock --group pyproject.toml:build --output-file requirements-user.lock
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade \
	    --group pyproject.toml:docs --output-file requirements-docs.lock

.PHONY: clean
clean: ## remove what was built, the virtual environment too
	rm -rf target $(VENV) $(REPORT) dist python/iocurve/_native.*.so

# An editable install: a change in python/ counts at once, a change in crates/ at the next `make build`.
$(VENV)/.installed: $(VENV)/.user $(NATIVE_SOURCES)
	MATURIN_PEP517_ARGS=--locked $(UV_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

target/demo/.installed: $(WHEEL) | $(VENV)/.created
	$(BIN)/uv venv --quiet --allow-existing target/demo
	VIRTUAL_ENV=target/demo $(BIN)/uv pip install --quiet $(WHEEL)
	@touch $@

UV_INSTALL = VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet

$(VENV)/.user: requirements-user.lock | cargo $(VENV)/.created
	$(UV_INSTALL) --require-hashes --requirement $<
	@touch $@

$(VENV)/.developer: requirements.lock $(VENV)/.user
	$(UV_INSTALL) --require-hashes --requirement $<
	@touch $@

# First of all, so that a missing compiler is found before a minute of downloads.
.PHONY: cargo
cargo:
	@cargo --version 2>/dev/null | awk -F '[ .]' '$$2 > 1 || $$2 == 1 && $$3 >= 88 { found = 1 } END { exit !found }' || { \
	    echo "iocurve needs cargo 1.88 or newer, with rustfmt and clippy for the tests. This fetches it:" >&2; \
	    echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y && . ~/.cargo/env" >&2; exit 1; }

# Debian ships venv without pip unless python3-venv is installed; the machine's own pip can then put one in. pip installs
# uv, by its hashes in the lock file, and uv the rest in seconds.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "iocurve needs Python 3.11 or newer; choose one with: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
	    $(PYTHON) -m venv --clear --without-pip $(VENV) && \
	    $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; } || { \
	    echo "No virtual environment could be made; install pip and venv: apt-get install python3-pip python3-venv" >&2; \
	    exit 1; }
	@awk '/^[a-z]/ { wanted = /^uv==/ } wanted' requirements-user.lock >$(VENV)/uv.lock
	@$(BIN)/python -m pip install --quiet --require-hashes --requirement $(VENV)/uv.lock
	@touch $@
