# Everything a person or CI does. Python 3.11+ and make are all that must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := .venv-peers

.PHONY: up test test-slow test-long chaos check audit setup format sync reference diagrams docs docs-serve bench bench-peers bench-front-door

up: setup
	@$(BIN)/rota up

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Rota needs Python 3.11 or newer; name one with: make PYTHON=python3.12")'
	@echo "Making $(VENV) (once; it takes a minute)"
	@$(PYTHON) -m venv $(VENV) || { echo "No virtual environment could be made: on Debian and Ubuntu, apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs]'
	@touch $(STAMP)

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/make_sync.py --check
	$(BIN)/python tools/make_reference.py --check
	$(BIN)/python tools/audit.py --offline

# Pins and licences, and what the package index knows against what is pinned; it says what the index does not tell.
audit: setup
	$(BIN)/python tools/audit.py

# Some hundred processes are started, each of which would compile its modules again where keeping them is switched off.
test test-slow test-long: export PYTHONDONTWRITEBYTECODE =
test: setup
	$(BIN)/pytest -n 4 --dist worksteal -m "not slow and not alone"
	$(BIN)/pytest -m "alone and not slow"

# The rest of the suite: whole fleets that are killed and upgraded, pages and examples done from top to bottom, benchmarks in
# their short form. CI runs it after the others, each time.
test-slow: setup
	$(BIN)/pytest -n 4 --dist worksteal -m "slow and not alone"
	$(BIN)/pytest -m "alone and slow"

# Both with more random data, longer floods and every scenario on every ground.
test-long: export ROTA_TEST_LONG = 1
test-long: test test-slow

# A whole fleet under random faults, and a checker of what it recorded. SEED repeats the choices of a run; it is printed.
chaos: export PYTHONDONTWRITEBYTECODE =
chaos: setup
	ROTA_CHAOS_SEED=$(SEED) ROTA_CHAOS_MINUTES=$(MINUTES) $(BIN)/pytest -s -o faulthandler_timeout=0 tests/chaos/test_chaos.py

# Minutes; bench/results has what comes out. BENCH="--whole" takes an hour, BENCH="throughput http" only those two.
bench: setup
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
sync: setup
	$(BIN)/python tools/make_sync.py

# Pages of the reference that are made from the code.
reference: setup
	$(BIN)/python tools/make_reference.py

diagrams: setup
	$(BIN)/python tools/make_diagrams.py

# The documentation as a site in site/: open site/index.html, no server needed.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

format: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
