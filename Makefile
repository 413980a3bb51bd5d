# Each target sets up what it needs in .venv, from a bare clone.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench

demo: .venv/demo
	$(BIN)/python examples/demo.py

test: .venv/test lint
	$(BIN)/python -m pytest

lint: .venv/test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/bench
	$(BIN)/python -m benchmarks

.venv/pip:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	touch $@

.venv/demo .venv/test .venv/bench: .venv/%: .venv/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --editable . --group $*
	touch $@
