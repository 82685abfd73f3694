# Every command brings what it needs first (scripts/setup) and says each step in one line.

.NOTPARALLEL:
.PHONY: help setup programs demo test e2e kernel conformance bench fuzz fmt lint doc deny

# Where the machine has no Rust, the set-up links its own here.
export PATH := $(PATH):$(or $(CAUSEWAY_PROGRAMS),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/causeway/bin)

# On a terminal cargo shows how far it is; elsewhere it is silent.
quiet := $(shell [ -t 2 ] || echo --quiet)

step = @printf '\n== %s\n' '$(1)' >&2;

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "  make %-11s  %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## bring the compiler, OVN, FRR, a kernel for tests and Kubernetes (scripts/setup --help)
	$(call step,set-up) scripts/setup rust ovn frr uml kube

demo: programs ## a cluster of three nodes on this machine, three islands, a road between two, and who reaches whom
	$(call step,demo) scripts/demo

programs: ## everything that a sandbox needs, and Causeway itself
	$(call step,set-up) scripts/setup rust ovn kube
	$(call step,programs) cargo build $(quiet) --package causeway --package causeway-cni

# What is built once needs no traces for the next build, and a full disk stops everything.
test: export CARGO_INCREMENTAL = 0
test: setup lint doc ## everything that must hold before a change goes in, whole clusters included
	$(call step,set-up) scripts/setup e2e judges
	$(call step,tests) cargo test $(quiet) --workspace
	$(call step,end to end) cargo xtask clusters

e2e: setup ## whole clusters in the sandbox, as root, the slow ones included (an hour)
	$(call step,set-up) scripts/setup e2e judges
	$(call step,programs) cargo test $(quiet) --workspace --no-run
	$(call step,connections as large as they can be) CAUSEWAY_LARGE=1 cargo test $(quiet) --workspace --test capacity_northd
	$(call step,end to end) CAUSEWAY_LARGE=1 cargo xtask clusters --lanes 1 e2e_ slow_

kernel: setup ## EVPN on a kernel of its own, each fault twenty times (ROUNDS=20), as root (an hour; the kernel is built once)
	$(call step,set-up) scripts/setup kernel
	$(call step,EVPN on a kernel of its own) CAUSEWAY_KERNEL=own CAUSEWAY_ROUNDS=$(or $(ROUNDS),20) \
	  cargo test $(quiet) --workspace --features causeway/kernel --test evpn -- --nocapture

conformance: programs ## tests that others wrote against a sandbox; JUDGE=e2e, netpol, cyclonus, cnp, anp; NETWORK=default, one, three; FOCUS=<some of them>
	$(call step,set-up) scripts/setup $(if $(filter cyclonus cnp anp,$(JUDGE)),judges,e2e)
	$(call step,conformance) cargo run --quiet --package causeway-tests --bin conformance -- \
	  $(if $(JUDGE),--judge=$(JUDGE)) $(if $(NETWORK),--network=$(NETWORK)) $(if $(FOCUS),'$(FOCUS)')

bench: setup ## print the benchmark tables, write target/bench.json
	$(call step,benchmarks) cargo xtask bench
	$(call step,memory of the roles) cargo build $(quiet) --release --package causeway --package causeway-cni --package causeway-tests
	@target/release/memory
	$(call step,flows and throughput of the gateway) target/release/gateway

fuzz: ## run each fuzz target for FUZZ_SECONDS (60)
	$(call step,fuzzing) scripts/fuzz

lint: ## rules of the tree, scripts, formatting, clippy
	$(call step,rules of the tree) cargo xtask check
	$(call step,scripts) scripts/check-scripts
	$(call step,formatting) cargo fmt --all --check
	$(call step,clippy) cargo clippy $(quiet) --workspace --all-targets --features causeway-tests/e2e,causeway/kernel -- -D warnings

doc: ## the API documentation, warnings denied
	$(call step,documentation) RUSTDOCFLAGS='-D warnings' cargo doc $(quiet) --workspace --no-deps

deny: ## licences, advisories and sources of the dependencies
	@command -v cargo-deny >/dev/null || \
	  { echo 'cargo-deny is missing: cargo install --locked cargo-deny' >&2; exit 1; }
	$(call step,licences and sources of the dependencies) cargo deny check bans licenses sources
	$(call step,known vulnerabilities (needs the internet)) cargo deny check advisories

fmt: ## format the code
	cargo fmt --all
