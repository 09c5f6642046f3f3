# What there is to do here. Each target says in one line what is missing.
#
#   make demo            a GPU cluster offline, then the same on a real control plane
#   DEMO=offline make demo
#   make test            builds everything and runs all tests; those that need ../shared say so when it is not there
#   make check           formatting, lints, house rules
#   make seeds N=20000   more simulated seeds with faults (FROM=n begins at seed n)
#   make oracle N=50000  more selectors and allocations compared with Kubernetes' own code (FROM=n begins at seed n)
#   make bench           benchmarks
#   make bench-live      Berth, a bare client and kube-scheduler side by side on a real control plane (LOADS=…, ROUNDS=5)
#   make bench-quality   how well pods are placed: the openb trace, all workloads and policies (ONLY="--workloads default --policies berth,fgd --seeds 42-51")
#   make prometheus      fetches Debian's prometheus, without installing it, for the test that scrapes
#   make side-by-side    kube-scheduler and Berth asked the same, a line for each answer
#   make campaign        faults on a real control plane, into docs/faults.tsv (ROWS=F14,F15 COUNT=30 SCHEDULER=berth); no row is all
#   make campaign-share  the same, as much of it as `make test` plays
#   make faults-page     docs/faults.md from docs/faults.tsv
#   make planted-live    bugs planted in Berth must be convicted on a real control plane; SHARE= for all of them
#   make golden          rewrites expected texts; read the diff
#   make stand           builds etcd, kube-apiserver and kube-scheduler, and runs the first two
#   make doc             the API documentation
#   make image-binary    the static binary that goes into the image, checked
#   make judge           the scenarios by ../shared's own judge, offline; judge-live: on a server

.PHONY: demo test check bench bench-live bench-quality seeds stand doc golden build-all unit planted planted-sim planted-live judge judge-live image-binary prometheus side-by-side campaign campaign-share faults-page oracle

CARGO ?= cargo
N ?= 2000
FROM ?= 0
# Where cargo puts what it builds.
BIN = $${CARGO_TARGET_DIR:-target}/debug
RELEASE = $${CARGO_TARGET_DIR:-target}/release
PLANTED = $${CARGO_TARGET_DIR:-target}/planted
ROUNDS ?= 5
COUNT ?= 30
SCHEDULER ?= berth

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

test: check build-all prometheus unit planted campaign-share judge judge-live image-binary

# Two builds at once: Go's, of the control plane, and Rust's.
build-all:
	$(needs_cargo)
	$(needs_go)
	$(CARGO) build --package berth-stand
	$(BIN)/stand build & go=$$!; $(CARGO) test --workspace --no-run && wait $$go

unit:
	$(CARGO) test --workspace

# Where it can't be fetched, the test says that it is skipped.
prometheus:
	@tests/tools/prometheus.sh $${CARGO_TARGET_DIR:-target}/prometheus || [ $$? -eq 3 ]

side-by-side:
	$(needs_cargo)
	$(needs_go)
	$(CARGO) test --package berth --test it side_by_side -- --nocapture

# The known-bad variants must be convicted; they sit behind a feature, so this builds core anew.
planted: planted-sim planted-live

planted-sim:
	$(CARGO) test --package berth-sim --features planted-bugs

# On a real control plane: SHARE= convicts of all of them, which takes a quarter of an hour.
SHARE ?= --share
planted-live:
	$(CARGO) build --package berth --package berth-faults --bins --features berth/planted-bugs
	mkdir -p $(PLANTED) && cp $(BIN)/berth $(PLANTED)/berth
	$(CARGO) build --package berth --package berth-faults --bins
	$(BIN)/campaign --planted $(PLANTED)/berth $(SHARE)

check:
	$(needs_cargo)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test --package berth --test it tidy

bench:
	$(needs_cargo)
	$(CARGO) bench

# With the release profile on both sides, which takes some minutes to build. Rounds that docs/bench-live.tsv has are not played again.
bench-live:
	$(needs_cargo)
	$(needs_go)
	$(CARGO) build --release --package berth --package berth-bench-live --bins
	$(RELEASE)/berth-bench-live --berth $(RELEASE)/berth --rounds $(ROUNDS) $(if $(LOADS),--loads $(LOADS))

# Runs that docs/bench-quality.tsv has of this commit are not played again. All of them take hours: ONLY= narrows them down. More with ONLY: `--churn 95`, `--prior`,
# `--workloads mig-1 --policies firstfit,fullest,berth`, `--workloads default/round`; `--table` prints what there is.
bench-quality:
	$(needs_cargo)
	$(CARGO) run --quiet --profile bench --package berth-bench-quality -- $(ONLY)

# Goes on where the table ends, row by row, for this commit.
campaign:
	$(needs_cargo)
	$(needs_go)
	$(CARGO) build --package berth --package berth-faults --bins
	$(BIN)/campaign $(if $(ROWS),--rows $(ROWS)) --count $(COUNT) --scheduler $(SCHEDULER) --out docs/faults.tsv

faults-page:
	$(needs_cargo)
	$(CARGO) run --quiet --package berth-faults --bin campaign -- --page --out docs/faults.tsv > target/faults.md
	mv target/faults.md docs/faults.md

campaign-share:
	$(needs_cargo)
	$(CARGO) build --package berth --package berth-faults --bins
	$(BIN)/campaign --share

seeds:
	$(needs_cargo)
	$(CARGO) run --profile bench --package berth-sim --example seeds -- --count $(N) --start $(FROM)

oracle: N = 50000
oracle:
	$(needs_cargo)
	$(needs_go)
	ORACLE_N=$(N) ORACLE_FROM=$(FROM) $(CARGO) test --package berth-cel --test differential -- --nocapture
	ORACLE_N=$(N) ORACLE_FROM=$(FROM) $(CARGO) test --package berth-plugins --test allocator -- --nocapture

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

# One release build, with what Dockerfile runs.
image-binary:
	$(needs_cargo)
	image/build.sh

# The second, independent judge of the scenarios, where ../shared is there. On the server Berth has
# the rights of its manifests and no more: whatever it is refused fails the run.
BERTH_USER = system:serviceaccount:berth-system:berth
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
	@$(BIN)/stand exec --all-groups --rbac-manifests manifests/second --as $(BERTH_USER) -- \
		sh -c 'target/judge/bin/python $(RUNNER) --live --kubeconfig "$$KUBECONFIG" \
		--scheduler "tests/scenarios/as.sh $(BIN)/berth {config}" $(JUDGED)'
endif
