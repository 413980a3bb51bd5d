# Each target sets up what it needs in .venv, from a bare clone.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-torch test-pages lint bench bench-torch docs functions approximations prove soak mutants trust stages
SOAKS := $(addprefix soak-,maps rows ties contractions products programs graphs models operators types weights bounds instructions dask opencl)
.PHONY: $(SOAKS)

demo: .venv/demo
	$(BIN)/python examples/demo.py

test: .venv/test lint
	$(BIN)/python -m pytest --numprocesses auto --dist loadgroup --durations 10

# models of PyTorch, which no other target installs
test-torch: .venv-torch/torch
	.venv-torch/bin/python -m pytest --durations 10 tests/pytorch

# pages in Debian's chromium, with playwright-core and axe-core from npm
test-pages: .venv/test .pages/node_modules
	ANYDML_PAGES=1 $(BIN)/python -m pytest tests/pages

.pages/node_modules:
	npm install --prefix .pages --no-audit --no-fund playwright-core@1 axe-core@4

lint: .venv/test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# what `make test` samples, at length, in the parts of tools/soak.py; it goes on where it was stopped, and ends with a table of all
# sittings: make soak PARTS="ties rows", PARTS=--list prints the table alone
soak: .venv/test
	$(BIN)/python tools/soak.py $(PARTS)

$(SOAKS): soak-%: .venv/test
	$(BIN)/python tools/soak.py $* $(PARTS)

# what is made from the operator files and checked in
functions: .venv/test
	$(BIN)/python tools/functions.py

# the polynomials of the compiled functions, with proofs
approximations: .venv/test
	$(BIN)/python tools/approximations.py
	$(BIN)/python tools/paired.py

# compiled functions on every float32 and float16, and operators on every pair of float16: make prove FUNCTIONS="exp log add";
# it goes on where it was stopped, and FUNCTIONS=--list prints what was done
prove: .venv/test
	$(BIN)/python tools/prove.py $(FUNCTIONS)

# faults planted in the source, one at a time, and the tests that find them: some seconds for each, after the tests' files were looked
# at once; it goes on where it was stopped; make mutants N=20 draws some
mutants: .venv/test
	cd tools && ../$(BIN)/python -m mutants $(if $(N),--count $(N)) $(MUTANTS)

# the table of docs/trust.md: what is tested of each family
trust: .venv/test
	$(BIN)/python tools/trust.py

# how many elements each stage decides, over the table of data of docs/kernels/data.md
stages: .venv/test
	$(BIN)/python tools/stages.py

docs: .venv/docs
	$(BIN)/mkdocs build --strict

bench: .venv/bench
	$(BIN)/python -m benchmarks

bench-torch: .venv-torch/torch
	.venv-torch/bin/python -m benchmarks torch

.venv/pip:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	touch $@

.venv/demo .venv/test .venv/bench .venv/docs: .venv/%: .venv/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --editable . --group $*
	touch $@

.venv-torch/torch: pyproject.toml
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-torch/bin/python -m pip install --quiet --editable . --group torch
	touch $@
