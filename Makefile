# Everything a person or CI does. Python 3.11+ and make are all that must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Touched when what running Rota needs is installed, and what the work on it and on its documentation needs besides.
STAMP := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs
PEERS := .venv-peers

.PHONY: up test test-slow test-long chaos check audit setup setup-dev format sync reference diagrams docs docs-serve bench bench-peers bench-front-door
.NOTPARALLEL:

up: setup
	@$(BIN)/rota up

setup: $(STAMP)

setup-dev: $(DEV) $(DOCS)

$(STAMP): pyproject.toml constraints.txt tools/install.py
	$(make-venv)
	@echo "Installing Rota (once; it takes some seconds)"
	@$(BIN)/python tools/install.py
	@touch $(STAMP)

$(DEV): pyproject.toml constraints.txt tools/install.py
	$(make-venv)
	@echo "Installing Rota and the tools for working on it (once)"
	@$(BIN)/python tools/install.py dev
	@touch $(STAMP) $(DEV)

$(DOCS): pyproject.toml constraints.txt tools/install.py
	$(make-venv)
	@echo "Installing Rota and the tools of its documentation (once)"
	@$(BIN)/python tools/install.py docs
	@touch $(STAMP) $(DOCS)

# A virtual environment is kept if Rota is installed in it, it was not moved, and you name no PYTHON but the one it was made with.
# Rota's own code is not tried: a mistake in it is no reason to install everything again.
usable = $(BIN)/python -c 'import importlib.metadata; importlib.metadata.version("rota")' 2>/dev/null && \
	grep -qsF -e '$(abspath $(BIN))/' -e '$(or $(realpath $(BIN)),nowhere)/' $(BIN)/rota && { [ "$(origin PYTHON)" = file ] || [ "$$($(BIN)/python -V)" = "$$($(PYTHON) -V)" ]; }
ifneq ($(wildcard $(STAMP) $(DEV) $(DOCS)),)
ifneq ($(shell $(usable) && echo yes),yes)
.PHONY: $(STAMP) $(DEV) $(DOCS)
endif
endif

define make-venv
@{ $(usable); } || { \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Rota needs Python 3.11 or newer; name one with: make PYTHON=python3.12")' && { \
	$(PYTHON) -m venv --clear $(VENV) || { echo "No virtual environment could be made: on Debian and Ubuntu, apt-get install python3-venv" >&2; exit 1; }; }; }
endef

check: $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/make_sync.py --check
	$(BIN)/python tools/make_reference.py --check
	$(BIN)/python tools/audit.py --offline

# Pins and licences, and what the package index knows against what is pinned; it says what the index does not tell.
audit: $(DEV)
	$(BIN)/python tools/audit.py

# Some hundred processes are started, each of which would compile its modules again where keeping them is switched off.
test test-slow test-long: export PYTHONDONTWRITEBYTECODE =
# What fails beside others is tried once more by itself: real processes on a crowded machine can miss a deadline. It is named at the
# end either way, and one that needs its second try is a test to mend.
beside = $(BIN)/pytest -n 4 --dist worksteal -m $(1) || { [ $$? = 1 ] && $(BIN)/pytest --last-failed --last-failed-no-failures none -m $(1) && \
	echo "*** What failed above passed when it ran by itself: look into it."; }
test: setup-dev
	$(call beside,"not slow and not alone")
	$(BIN)/pytest -m "alone and not slow"

# The rest of the suite: whole fleets that are killed and upgraded, pages and examples done from top to bottom, benchmarks in
# their short form. CI runs it after the others, each time.
test-slow: setup-dev
	$(call beside,"slow and not alone")
	$(BIN)/pytest -m "alone and slow"

# Both with more random data, longer floods and every scenario on every ground.
test-long: export ROTA_TEST_LONG = 1
test-long: test test-slow

# A whole fleet under random faults, and a checker of what it recorded. SEED repeats the choices of a run; it is printed.
chaos: export PYTHONDONTWRITEBYTECODE =
chaos: $(DEV)
	ROTA_CHAOS_SEED=$(SEED) ROTA_CHAOS_MINUTES=$(MINUTES) $(BIN)/pytest -s -o faulthandler_timeout=0 tests/chaos/test_chaos.py

# Minutes; bench/results has what comes out. BENCH="--whole" takes an hour, BENCH="throughput http" only those two.
bench: $(DEV)
	$(BIN)/python -m bench $(BENCH)

# The same work done by others, in a virtual environment of their own.
bench-peers: $(PEERS)/.installed
	$(PEERS)/bin/python -m bench.peers $(BENCH)

# What submitting costs through the SDK, beside PGQueuer, round by round in one run.
bench-front-door: $(PEERS)/.installed
	$(PEERS)/bin/python -m bench.front_door $(BENCH)

$(PEERS)/.installed: pyproject.toml constraints.txt bench/peers/requirements.txt
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/pip install --quiet --disable-pip-version-check --requirement bench/peers/requirements.txt --editable .
	@touch $@

# The synchronous clients are made from the asynchronous ones.
sync: $(DEV)
	$(BIN)/python tools/make_sync.py

# Pages of the reference that are made from the code.
reference: $(DEV)
	$(BIN)/python tools/make_reference.py

diagrams: $(DEV)
	$(BIN)/python tools/make_diagrams.py

# The documentation as a site in site/: open site/index.html, no server needed.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

format: $(DEV)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
