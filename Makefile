# What there is to do here. Each target says in one line what is missing.
#
#   make demo            a GPU cluster offline, then the same on a real control plane
#   DEMO=offline make demo
#   make test            all tests; those that need Go or ../shared say so when they are skipped
#   make check           formatting, lints, tests
#   make bench           benchmarks
#   make seeds N=20000   the seed runner: faults until an invariant breaks, or none does
#   make golden          rewrites expected texts; read the diff
#   make stand           builds etcd, kube-apiserver and kube-scheduler, and runs them
#   make doc             the API documentation

.PHONY: demo test check bench seeds stand doc golden judge

CARGO ?= cargo

define need
@command -v $(1) >/dev/null 2>&1 || { echo "$(2)" >&2; exit 1; }
endef
needs_cargo = $(call need,$(CARGO),cargo is missing: install Rust from https://rustup.rs)
needs_go = @[ -n "$$KUBEBUILDER_ASSETS" ] || command -v go >/dev/null 2>&1 || \
	{ echo "go is missing: install Go 1.26 from https://go.dev/dl, or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver" >&2; exit 1; }

# Status 1 of `berth simulate` means that somebody waits, which is the point of the demo.
demo:
	$(needs_cargo)
	@$(CARGO) build --quiet --bin berth
	@echo '$$ berth simulate -f examples/gpu-cluster'
	@$(CARGO) run --quiet --bin berth -- simulate -f examples/gpu-cluster || [ $$? -eq 1 ]
ifneq ($(DEMO),offline)
	@echo
	$(needs_go)
	@$(CARGO) build --quiet --example demo
	@$(CARGO) run --quiet --example demo
endif

test:
	$(needs_cargo)
	$(CARGO) test --workspace

check:
	$(needs_cargo)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test --workspace

bench:
	$(needs_cargo)
	$(CARGO) bench

N ?= 20000
seeds:
	$(needs_cargo)
	$(CARGO) run --release -p berth-sim --example seeds -- --count $(N)

golden:
	$(needs_cargo)
	UPDATE_EXPECT=1 $(CARGO) test --workspace

stand:
	$(needs_cargo)
	$(needs_go)
	$(CARGO) run -p berth-stand --bin stand -- run

doc:
	$(needs_cargo)
	$(CARGO) doc --workspace --no-deps

# The second, independent judge of the scenarios, where ../shared is there.
JUDGE = target/judge/bin/python ../shared/tools/scenarios.py
JUDGED = $(patsubst tests/scenarios/%.yaml,--only %,$(wildcard tests/scenarios/*.yaml))

target/judge/bin/python:
	@command -v python3 >/dev/null 2>&1 || { echo "python3 is missing: the scenario runner needs 3.9 or newer" >&2; exit 1; }
	python3 -m venv target/judge
	target/judge/bin/pip install --quiet pyyaml

judge: target/judge/bin/python
	$(needs_cargo)
	$(CARGO) build --quiet --bin berth
	$(JUDGE) --simulate 'target/debug/berth simulate -o json -f' $(JUDGED)
