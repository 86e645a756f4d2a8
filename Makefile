# Each target does all its own set-up from a bare checkout. Any CPython 3.10 to 3.13 will do: make PYTHON=python3.12 ...

PYTHON ?= $(shell for python in python3 python3.12 python3.11 python3.13 python3.10; do \
	"$$python" -c 'import sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	&& { echo "$$python"; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TTNN_READY := $(VENV)/.ttnn-ready
TORCH_READY := $(VENV)/.torch-ready
BROWSER_READY := $(VENV)/.browser-ready
DOCS_READY := $(VENV)/.docs-ready
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
DEMO := .cache/demo
N ?= 1000
# Tests wait for other processes a third of their time, and one that runs torch, ttnn or a browser may take 4 GiB.
WORKERS ?= $(shell python3 -c 'import os; m = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 32; \
	print(max(1, min(len(os.sched_getaffinity(0)) * 3 // 2, m)))' 2>/dev/null || echo 2)

.DELETE_ON_ERROR:
.PHONY: help setup demo check test nightly lint bench docs site fuzz oracle release release-check web clean

help:
	@echo "make demo    run a small transformer on a mock n150, profile logs, explain real failures"
	@echo "make test    lint and all tests"
	@echo "make check   the fast half: lint and the tests that need neither ttnn nor torch nor a browser"
	@echo "make setup   leave $(BIN)/ttmem ready"
	@echo "also: lint, bench, docs, site, nightly, oracle N=$(N), fuzz N=$(N), web (rebuild the page, needs npm), clean"
	@echo "PYTHON=... chooses the interpreter"

setup: $(READY) $(TTNN_READY) $(TORCH_READY) $(BROWSER_READY)
	@echo "ready: $(BIN)/ttmem"

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no CPython 3.10 to 3.13 found; name one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) --upgrade pip
	$(PIP) hatchling editables
	$(PIP) --no-build-isolation --editable . --group dev
	@touch $@

# The real ttnn is the judge of many tests, but nothing here needs it: without it those tests say that they are skipped.
$(TTNN_READY): $(READY) $(wildcard tools/ttnn_env.py)
	@if [ ! -f tools/ttnn_env.py ]; then touch $@; \
	elif $(BIN)/python tools/ttnn_env.py; then touch $@; \
	else echo "no managed ttnn (see above); going on without the real library as the judge" >&2; fi

# Models are traced in an environment of their own; without it the tests of extraction say that they are skipped.
$(TORCH_READY): $(READY) $(wildcard tools/torch_env.py)
	@if $(BIN)/python tools/torch_env.py; then touch $@; \
	else echo "no environment with torch (see above); going on without the tests that trace models" >&2; fi

# The page is tested in a real browser; where none can be installed those tests say that they are skipped.
$(BROWSER_READY): $(READY)
	@if { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null; then touch $@; \
	elif [ -z "$(NO_SYSTEM_PACKAGES)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		echo "installing the system package chromium for the tests of the page (NO_SYSTEM_PACKAGES=1 forbids it)"; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >/dev/null 2>&1 \
		&& touch $@ || echo "chromium could not be installed; going on without the tests of the page" >&2; \
	else echo "no chromium; going on without the tests of the page (install your system's chromium)" >&2; fi

$(DOCS_READY): $(READY)
	$(PIP) --group docs
	@touch $@

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/house.py --check
	$(BIN)/python tools/cli_docs.py --check
	$(BIN)/python tools/operations_docs.py --check
	$(BIN)/python tools/schemas.py --check

check: lint
	TTMEM_HYPOTHESIS=quick $(BIN)/pytest -n $(WORKERS) -q -m "not oracle and not slow" tests/unit tests/contract

test: setup lint
	$(BIN)/pytest -n $(WORKERS) -m "not nightly"

# Random calls on the twin and the real library: make oracle N=10000 ONLY=topk,matmul (operations or families)
oracle: setup
	TTMEM_ORACLE_CASES=$(N) TTMEM_ORACLE_ONLY=$(ONLY) $(BIN)/pytest $(if $(ONLY),tests/oracle/test_operations.py,tests/oracle)

fuzz: $(READY)
	PYTHONPATH=src:bench $(BIN)/python -m fuzz $(N) $(if $(SEED),--seed $(SEED))

bench: $(READY)
	$(BIN)/python bench/run.py $(if $(QUICK),--quick)

docs: $(READY)
	$(BIN)/python tools/cli_docs.py
	$(BIN)/python tools/operations_docs.py
	$(BIN)/python tools/schemas.py
	$(BIN)/python tools/shown_output.py
	@if [ -f $(TTNN_READY) ]; then $(BIN)/python tools/signatures.py; \
	else echo "no managed ttnn (see make setup): signatures.toml was not written again" >&2; fi

# The documentation as a site. A broken link, a missing anchor or a page outside of the navigation fails.
site: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "wrote .cache/site/index.html"

# Slow checks that do not run for every change.
nightly: setup
	TTMEM_EXAMPLES=3 $(BIN)/pytest -n $(WORKERS) -m "not nightly"
	$(BIN)/pytest -n 1 -m nightly
	$(MAKE) fuzz N=2000
	$(MAKE) bench QUICK=1
	$(MAKE) site

# The app inside every page: its built form is committed, so that only a change of web/ needs npm.
web:
	cd web && npm install --omit-lockfile-registry-resolved --no-audit --no-fund && npm run check && npm run build

# The managed ttnn stays in the user's own TTMEM_HOME, so that it is not installed again; reports of the demo do not.
demo: DEMO_HOME := TTMEM_HOME=$(CURDIR)/$(DEMO)/home
demo: $(READY) $(TTNN_READY)
	@mkdir -p $(DEMO)
	@if [ -f $(TTNN_READY) ] && $(BIN)/python tools/ttnn_env.py --check >/dev/null 2>&1; then \
		python=$$($(BIN)/python tools/ttnn_env.py --check); \
		echo; echo "== A small transformer, run by the real ttnn on a mock n150: no card needed"; echo; \
		$(DEMO_HOME) $(BIN)/ttmem run examples/transformer_block.py --board n150 --python "$$python" --llm --html $(DEMO)/transformer_block.html || exit 1; \
		echo; echo "== A script that runs into a real out-of-memory, and what to change"; echo; \
		$(DEMO_HOME) $(BIN)/ttmem run examples/out_of_memory.py --board n150 --python "$$python" --name out_of_memory >/dev/null 2>&1; \
		$(DEMO_HOME) $(BIN)/ttmem explain out_of_memory || exit 1; \
	else echo "no interpreter with ttnn (see make setup): the demo shows logs only" >&2; fi
	@echo; echo "== A runtime log: a transformer that ran five times, as an LLM agent reads its memory story"; echo
	$(DEMO_HOME) $(BIN)/ttmem profile docs/examples/transformer-five-runs.log.gz --llm --html $(DEMO)/transformer.html
	@echo; echo "== A runtime log that ended out of memory on Blackhole: which operation asked for what"; echo
	$(DEMO_HOME) $(BIN)/ttmem profile docs/examples/blackhole-oom-ansi.log.gz
	@echo; echo "== A real failure from a public issue: enough bytes were free, but not in one piece"; echo
	$(DEMO_HOME) $(BIN)/ttmem explain docs/examples/real-oom.log
	@echo; echo "== What is stored now"; echo
	$(DEMO_HOME) $(BIN)/ttmem reports
	@echo; echo "Pages to open in a browser: $(DEMO)/transformer_block.html $(DEMO)/transformer.html"
	@echo "Your own script or log:     $(BIN)/ttmem run SCRIPT --board n150   $(BIN)/ttmem profile LOG"

# Version, changelog section, wheel and sdist, tried in a bare environment: make release VERSION=0.2.0
release: $(READY)
	$(BIN)/python tools/release.py $(VERSION)

# What another ttnn release changes, and which record to edit (docs/new-release.md): make release-check TTNN=0.82.0
release-check: $(READY)
	@test -n "$(TTNN)" || { echo "name the release: make release-check TTNN=0.82.0" >&2; exit 2; }
	$(BIN)/python tools/release_check.py $(TTNN) $(if $(ONLY),--only $(ONLY)) $(if $(CALLS),--calls $(CALLS))

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
