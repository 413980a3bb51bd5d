# Each target sets up what it needs in .venv, from a bare clone.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench docs functions approximations prove soak soak-graphs

demo: .venv/demo
	$(BIN)/python examples/demo.py

test: .venv/test lint
	$(BIN)/python -m pytest --numprocesses auto --dist loadgroup --durations 10

lint: .venv/test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# the generated tests, a hundred times longer
soak: .venv/test
	ANYDML_FUZZ_EXAMPLES=1000000 $(BIN)/python -m pytest tests/test_program_fuzz.py
	ANYDML_MATMUL_OUTPUTS=100000000 $(BIN)/python -m pytest tests/test_matmul_exact.py -k test_generated_products
	ANYDML_SOAK=20 $(BIN)/python -m pytest --numprocesses auto tests/test_pilots_pointwise.py tests/test_pilots_sums.py
	ANYDML_SOAK=100 $(BIN)/python -m pytest --numprocesses auto tests/test_two_inputs.py tests/test_element_wise_unary.py tests/test_pilots_quantised.py
	ANYDML_SOAK=20 $(BIN)/python -m pytest --numprocesses auto tests/test_operators.py tests/test_rules.py tests/test_slice_and_matmul.py
	ANYDML_SOAK=4 $(BIN)/python -m pytest --numprocesses auto tests/test_matmul_exact.py tests/test_matmul_memory.py tests/test_memory.py tests/test_floating_point_state.py
	ANYDML_SOAK=10 $(BIN)/python -m pytest --numprocesses auto tests/test_elementwise*.py tests/test_rows.py tests/test_copies.py tests/test_arm*.py tests/test_float_contractions.py
	ANYDML_SOAK=10 $(BIN)/python -m pytest --numprocesses auto --dist loadgroup tests/test_instructions.py tests/test_windows.py tests/test_winograd.py tests/test_pooling.py tests/test_convolutions_by*.py tests/test_integer_convolutions.py tests/test_contractions.py tests/test_direct_contractions.py tests/test_block_sums.py tests/test_four_bit_maps.py tests/test_staged.py tests/test_normalization.py
	ANYDML_SOAK=200 $(BIN)/python -m pytest --numprocesses auto tests/test_float_contractions.py -k test_generated
	ANYDML_SOAK=100 $(BIN)/python -m pytest --numprocesses auto tests/test_quantised_graphs.py -s

# 10^4 random graphs, and 500 on each other instruction set
soak-graphs: .venv/test
	ANYDML_SOAK=85 $(BIN)/python -m pytest --numprocesses auto tests/test_random_graphs.py

# what is made from the operator files and checked in
functions: .venv/test
	$(BIN)/python tools/functions.py

# the polynomials of the compiled functions, with proofs
approximations: .venv/test
	$(BIN)/python tools/approximations.py
	$(BIN)/python tools/paired.py

# compiled functions on every float32 and float16, and operators on every pair of float16: make prove FUNCTIONS="exp log add"
prove: .venv/test
	$(BIN)/python tools/prove.py $(FUNCTIONS)

docs: .venv/docs
	$(BIN)/mkdocs build --strict

bench: .venv/bench
	$(BIN)/python -m benchmarks

.venv/pip:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	touch $@

.venv/demo .venv/test .venv/bench .venv/docs: .venv/%: .venv/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --editable . --group $*
	touch $@
