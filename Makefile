# What there is to do here. Each target says in one line what is missing.
#
#   make demo            a GPU cluster offline, then the same on a real control plane
#   DEMO=offline make demo
#   make test            builds everything and runs all tests; those that need ../shared say so when it is not there
#   make check           formatting, lints, house rules
#   make seeds N=20000   more simulated seeds with faults (FROM=n begins at seed n)
#   make bench           benchmarks
#   make golden          rewrites expected texts; read the diff
#   make stand           builds etcd, kube-apiserver and kube-scheduler, and runs the first two
#   make doc             the API documentation
#   make judge           the scenarios by ../shared's own judge, offline; judge-live: on a server

.PHONY: demo test check bench seeds stand doc golden build-all unit planted judge judge-live

CARGO ?= cargo
N ?= 2000
FROM ?= 0
# Where cargo puts what it builds.
BIN = $${CARGO_TARGET_DIR:-target}/debug

define need
@command -v $(1) >/dev/null 2>&1 || { echo "$(2)" >&2; exit 1; }
endef
needs_cargo = $(call need,$(CARGO),cargo is missing: install Rust from https://rustup.rs)
needs_go = @[ -n "$$KUBEBUILDER_ASSETS" ] || command -v go >/dev/null 2>&1 || \
	{ echo "go is missing: install Go 1.26 from https://go.dev/dl, or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver" >&2; exit 1; }

# Status 1 of `berth simulate` means that somebody waits, which is the point of the demo.
demo:
	$(needs_cargo)
	@echo 'Building berth (some minutes the first time) …'
	@$(CARGO) build --quiet --bin berth
	@echo '$$ berth simulate -f examples/gpu-cluster'
	@target/debug/berth simulate -f examples/gpu-cluster || [ $$? -eq 1 ]
ifneq ($(DEMO),offline)
	@echo
	$(needs_go)
	@echo 'Now the same on a real control plane: etcd and kube-apiserver on loopback. Building …'
	@$(CARGO) build --quiet --example demo
	@target/debug/examples/demo
endif

test: check build-all unit planted judge judge-live

# Two builds at once: Go's, of the control plane, and Rust's.
build-all:
	$(needs_cargo)
	$(needs_go)
	$(CARGO) build --package berth-stand
	$(BIN)/stand build & go=$$!; $(CARGO) test --workspace --no-run && wait $$go

unit:
	$(CARGO) test --workspace

# The known-bad variants must be convicted; they sit behind a feature, so this builds core anew.
planted:
	$(CARGO) test --package berth-sim --features planted-bugs

check:
	$(needs_cargo)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test --package berth --test it tidy

bench:
	$(needs_cargo)
	$(CARGO) bench

seeds:
	$(needs_cargo)
	$(CARGO) run --release --package berth-sim --example seeds -- --count $(N) --start $(FROM)

golden:
	$(needs_cargo)
	UPDATE_EXPECT=1 $(CARGO) test --package berth-plugins --test cases
	UPDATE_EXPECT=1 $(CARGO) test --package berth --test it simulate

stand:
	$(needs_cargo)
	$(needs_go)
	$(CARGO) run --package berth-stand --bin stand -- run

doc:
	$(needs_cargo)
	$(CARGO) doc --workspace --no-deps

# The second, independent judge of the scenarios, where ../shared is there.
RUNNER = ../shared/tools/scenarios.py
JUDGED = $(patsubst tests/scenarios/%.yaml,--only %,$(wildcard tests/scenarios/*.yaml))

target/judge/bin/python:
	@command -v python3 >/dev/null 2>&1 || \
		{ echo "python3 is missing: the scenario runner needs 3.9 or newer" >&2; exit 1; }
	python3 -m venv target/judge
	target/judge/bin/pip install --quiet pyyaml

ifeq ($(wildcard $(RUNNER)),)
judge judge-live:
	@echo "skipped: no $(RUNNER)"
else
judge: target/judge/bin/python
	$(needs_cargo)
	@$(CARGO) build --quiet --bin berth
	@target/judge/bin/python $(RUNNER) --simulate "$(BIN)/berth simulate -o json -f" $(JUDGED)

judge-live: target/judge/bin/python
	$(needs_cargo)
	$(needs_go)
	@$(CARGO) build --quiet -p berth -p berth-stand --bins
	@$(BIN)/stand exec --all-groups -- sh -c 'target/judge/bin/python $(RUNNER) --live \
		--kubeconfig "$$KUBECONFIG" --scheduler "$(BIN)/berth run --secure-port=0 --config {config}" $(JUDGED)'
endif
