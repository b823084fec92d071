# Everything a person or CI does. Python 3.11+ and make are all that must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: up test check setup format

up: setup
	@$(BIN)/rota up

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Rota needs Python 3.11 or newer; name one with: make PYTHON=python3.12")'
	@echo "Making $(VENV) (once; it takes a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup
	$(BIN)/pytest -n 4 --dist worksteal

format: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
