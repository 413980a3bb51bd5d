# Each target sets up what it needs in .venv, from a bare clone.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-torch lint bench bench-torch docs functions approximations prove soak mutants trust
.PHONY: soak-maps soak-rows soak-ties soak-contractions soak-products soak-programs soak-graphs soak-models soak-operators soak-types soak-instructions soak-dask

demo: .venv/demo
	$(BIN)/python examples/demo.py

test: .venv/test lint
	$(BIN)/python -m pytest --numprocesses auto --dist loadgroup --durations 10

# models of PyTorch, which no other target installs
test-torch: .venv-torch/torch
	.venv-torch/bin/python -m pytest --durations 10 tests/pytorch

lint: .venv/test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# what `make test` samples, at length; each part by itself ends with its counts
soak: soak-maps soak-rows soak-ties soak-contractions soak-products soak-programs soak-graphs soak-models soak-operators soak-types soak-instructions soak-dask

SOAK = -m pytest --numprocesses auto --dist loadgroup --quiet

# element-wise operators: 10^7 transcendental and 10^8 rational outputs, every special value with every other, all of FLOAT16
soak-maps: .venv/test
	ANYDML_SOAK=100 $(BIN)/python $(SOAK) tests/kernels/elementwise/test_elementwise.py
	ANYDML_SOAK=4 $(BIN)/python $(SOAK) tests/kernels/elementwise/test_elementwise_*.py tests/kernels/elementwise/test_int4_maps.py tests/operators/test_two_inputs.py tests/operators/test_element_wise_unary.py tests/operators/test_moves_and_maps.py tests/operators/test_quantised_operators.py tests/operators/test_sums_and_selections.py

# reductions of rows: 10^5 results beside ties of each function
soak-rows: .venv/test
	ANYDML_SOAK=500 $(BIN)/python $(SOAK) tests/kernels/reduce/test_near_ties.py -k test_results_beside_ties
	ANYDML_SOAK=20 $(BIN)/python $(SOAK) tests/kernels/reduce/test_near_ties.py tests/kernels/reduce/test_reductions_of_layers.py -k "not test_results_beside_ties"

# results steered to within 2^-50 of ties, or to ties: 10^6 in each family, on every instruction set
soak-ties: .venv/test
	ANYDML_SOAK=100 $(BIN)/python $(SOAK) tests/kernels/test_steered_ties.py

# sums of products of floats: 10^7 outputs of up to 64 terms, 10^6 of longer sums; and every other way that sums are computed
soak-contractions: .venv/test
	ANYDML_SOAK=100 $(BIN)/python $(SOAK) tests/kernels/contract/floats/test_float_contractions.py -k "test_generated or test_long_sums"
	ANYDML_SOAK=7 $(BIN)/python $(SOAK) tests/kernels/contract/floats/test_float_contractions.py tests/operators/test_contractions.py tests/kernels/contract/floats/few/test_direct_contractions.py tests/kernels/contract/floats/winograd/test_winograd.py tests/kernels/windows/test_windows.py tests/operators/test_pooling.py tests/kernels/reduce/test_rows.py tests/kernels/reduce/test_staged.py tests/kernels/reduce/test_normalization.py tests/kernels/irregular/test_irregular.py tests/kernels/scan/test_scans.py tests/kernels/numpy/test_float_sums.py tests/kernels/contract/floats/test_block_sums.py -k "not test_generated and not test_long_sums"

# products and convolutions of integers: 10^7 outputs of each kernel
soak-products: .venv/test
	ANYDML_MATMUL_OUTPUTS=10000000 $(BIN)/python $(SOAK) tests/kernels/contract/test_matmul_exact.py -k test_generated_products
	ANYDML_SOAK=2 $(BIN)/python $(SOAK) tests/kernels/contract/test_matmul_*.py tests/kernels/contract/panels/*.py tests/devices/test_memory.py tests/operators/test_slice_and_matmul.py tests/kernels/contract/*/test_convolutions_by*.py tests/kernels/contract/test_integer_*.py tests/kernels/contract/winograd/*.py tests/kernels/test_integer_sums.py -k "not test_generated_products"

# programs: a million mutated texts
soak-programs: .venv/test
	ANYDML_FUZZ_EXAMPLES=1000000 $(BIN)/python $(SOAK) tests/program/test_program_fuzz.py

# 10^4 random graphs, and 500 on each other instruction set; 3,600 maps of maps; 10^7 outputs of dequantised tensors computed with integers
soak-graphs: .venv/test
	ANYDML_SOAK=85 $(BIN)/python $(SOAK) tests/graphs/test_random_graphs.py tests/kernels/elementwise/test_maps_of_maps.py
	ANYDML_SOAK=100 $(BIN)/python $(SOAK) tests/graphs/test_quantised_graphs.py
	ANYDML_SOAK=10 $(BIN)/python $(SOAK) tests/graphs/test_quantised_graphs.py tests/onnx/test_onnx_compare.py

# faults put into models, each found at its node, 100 in each of six; the suites of the onnx package, whole; 10^4 models of onnxruntime's quantisers; 10^5 mutated .tflite files
soak-models: .venv/test
	ANYDML_SOAK=34 $(BIN)/python $(SOAK) tests/onnx/test_onnx_compare.py tests/onnx/test_onnx_faults.py tests/onnx/test_onnx_report.py tests/explain/test_bounds.py
	ANYDML_SOAK=4 $(BIN)/python $(SOAK) tests/onnx/test_onnx_suite.py tests/onnx/test_quantised_models.py
	ANYDML_SOAK=25 $(BIN)/python $(SOAK) tests/tflite_models

# what every operator is tested for, on every instruction set
soak-operators: .venv/test
	ANYDML_SOAK=6 $(BIN)/python $(SOAK) tests/operators/test_operators.py tests/cases/test_hard_inputs.py tests/schema/test_rules.py tests/kernels/copy/test_copies.py tests/kernels/irregular/test_irregular.py tests/kernels/scan/test_scans.py tests/kernels/order/test_order.py tests/kernels/order/test_reversed_lines.py tests/kernels/copy/test_dilated_copies.py tests/devices/test_floating_point_state.py tests/devices/test_fork_safety.py

# BFLOAT16 and 8-bit floats beside the oracle, 1.3 million outputs of operators; FLOAT16 and BFLOAT16 of all arguments on all instruction sets
soak-types: .venv/test
	ANYDML_SOAK=60 $(BIN)/python $(SOAK) tests/operators/test_bfloat16.py
	ANYDML_SOAK=4 $(BIN)/python $(SOAK) tests/operators/test_eight_bit_floats.py tests/kernels/elementwise/test_narrow_maps.py

# the instructions of every kernel for every instruction set and system, and kernels for Arm by emulation
soak-instructions: .venv/test
	ANYDML_SOAK=4 $(BIN)/python $(SOAK) tests/kernels/code/test_instructions.py $(shell find tests -name "test_arm*.py")

# 500 random chunkings of each operator on threads and on two worker processes, one of which is killed; the memory of workers
soak-dask: .venv/test
	ANYDML_SOAK=1 $(BIN)/python -m pytest --quiet -s tests/dask tests/chunking

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

# faults planted in the source, one at a time, and the tests that find them: all of them takes a day, and goes on where it was
# stopped; make mutants N=20 draws some
mutants: .venv/test
	cd tools && ../$(BIN)/python -m mutants $(if $(N),--count $(N)) $(MUTANTS)

# the table of docs/trust.md: what is tested of each family
trust: .venv/test
	$(BIN)/python tools/trust.py

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
