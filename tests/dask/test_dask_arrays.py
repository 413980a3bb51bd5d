"""Dask arrays: chunks that are read, what is refused, batches of graphs and models, and what imports what."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import anydml as dml
import anydml.dask as lazily
import anydml.onnx
from anydml.dask.calls import Lazy
from anydml.errors import BindingError, DescError, Error, UnsupportedError
from dask_cases import call, examples, random_chunks

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
SOAK = bool(os.environ.get("ANYDML_SOAK"))
REFUSED = {"RNN", "GRU", "LSTM", "DYNAMIC_QUANTIZE_LINEAR", "RANDOM_GENERATOR"}


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def counting(x: np.ndarray[Any, Any], chunks: Any) -> tuple[da.Array, set[tuple[int, ...]]]:
    """A Dask array that notes the chunks that are read."""
    read: set[tuple[int, ...]] = set()

    def block(block_info: Any = None) -> Any:
        read.add(tuple(block_info[None]["chunk-location"]))
        return x[tuple(slice(*ends) for ends in block_info[None]["array-location"])]

    return da.map_blocks(block, chunks=chunks, dtype=x.dtype, meta=np.empty((0,) * x.ndim, x.dtype)), read


def of_elements(chunks: Any) -> np.ndarray[Any, Any]:
    """For each element, the number of its chunk."""
    numbers = np.arange(int(np.prod([len(c) for c in chunks])), dtype=np.float32).reshape([len(c) for c in chunks])
    for d, sizes in enumerate(chunks):
        numbers = np.repeat(numbers, sizes, d)
    return np.ascontiguousarray(numbers)


@pytest.mark.parametrize("name", ["slice", "slice1", *("CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC", "WRAP")])
def test_the_chunks_that_are_read_are_those_that_are_needed(name: str) -> None:
    """Needed are the chunks whose numbers the same operator copies from the numbers of all elements' chunks."""
    rng, count = np.random.default_rng(8), 0
    for _ in range(60 if SOAK else 2):
        sizes = (3, 17, 19)
        chunks = random_chunks(rng, sizes)
        arguments: dict[str, Any]
        if name == "slice":
            offsets = [int(rng.integers(n)) for n in sizes]
            taken = [int(rng.integers(1, 2 + (n - 1 - o) // 2)) for n, o in zip(sizes, offsets, strict=True)]
            arguments = {"offsets": offsets, "sizes": taken, "strides": (2, 2, 2)}
        elif name == "slice1":
            offsets = [int(rng.integers(n)) for n in sizes]
            within = [int(rng.integers(1, n - o + 1)) for n, o in zip(sizes, offsets, strict=True)]
            strides = [int(s) for s in rng.choice([-5, -1, 1, 4], 3)]
            arguments = {"input_window_offsets": offsets, "input_window_sizes": within, "input_window_strides": strides}
        else:
            start, end = (tuple(int(rng.integers(n)) for n in sizes) for _ in range(2))
            arguments = {"padding_mode": name, "start_padding": start, "end_padding": end, "padding_value": -1}
        function = "padding1" if name.isupper() else name
        numbers = of_elements(chunks)
        lazy, read = counting(numbers, chunks)
        made = getattr(lazily, function)(lazy, **arguments)
        assert not read, "nothing is read before it is computed"
        wanted = getattr(dml, function)(numbers, **arguments)
        for block in np.ndindex(*made.numblocks):  # of each chunk of the result by itself
            read.clear()
            got = made.blocks[block].compute()
            needed = set(np.unique(got).astype(int).tolist()) - {-1}
            found = {int(np.ravel_multi_index(at, [len(c) for c in chunks])) for at in read}
            assert found == needed, (chunks, arguments, block)
            count += 1
        assert made.compute().tobytes() == wanted.tobytes()
    print(f"{name}: {count} chunks of results")
    assert count


def test_examples_of_every_operator() -> None:
    """Every input of every operator as a Dask array, of some examples; of all of them in `make soak-dask`."""
    rng, count, refused = np.random.default_rng(2), 0, set()

    def lazy(x: Any) -> Any:
        return [lazy(y) for y in x] if isinstance(x, list) else x if x is None else chunked(x)

    def chunked(x: np.ndarray[Any, Any]) -> Any:
        return Lazy(da.from_array(x, chunks=random_chunks(rng, x.shape)))

    for k, (name, tensors, attributes, sizes) in enumerate(examples()):
        more: Any = {}
        if not SOAK and k % 20:
            continue
        try:
            whole = call(name, tensors, attributes)
        except Error:
            try:
                whole, more = call(name, tensors, attributes, **sizes), sizes
            except Error:
                continue  # its data type must be given
        try:
            made = call(name, [lazy(x) for x in tensors], attributes, **more)
        except UnsupportedError:
            refused.add(name)
            continue
        for got, wanted in zip(flat(made), flat(whole), strict=True):
            if wanted is not None and isinstance(got, da.Array):
                assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), name
                assert got.compute().tobytes() == wanted.tobytes(), name
                count += 1
    print(f"{count} outputs of examples")
    assert refused <= REFUSED
    assert count > (300 if SOAK else 12)


def flat(x: Any) -> list[Any]:
    return [z for y in x for z in flat(y)] if isinstance(x, (tuple, list)) else [x]


def test_partial_sums_of_many_parts_and_far_exponents() -> None:
    rng = np.random.default_rng(3)
    a = np.ldexp(rng.normal(size=(3, 400)), rng.integers(-120, 120, (3, 400))).astype(np.float32)
    b = np.ldexp(rng.normal(size=(400, 4)), rng.integers(-120, 120, (400, 4))).astype(np.float32)
    b[200:] = b[:200]
    a[:, 200:] = -a[:, :200]  # everything cancels but one term
    a[0, 399] *= 1.5
    made = lazily.gemm(da.from_array(a, chunks=(2, 7)), da.from_array(b, chunks=(11, 3)))
    assert made.compute().tobytes() == dml.gemm(a, b).tobytes()
    minus = np.full((2, 40), -0.0, np.float32)
    assert np.signbit(lazily.reduce(da.from_array(minus, chunks=(1, 7)), function="SUM", axes=[1]).compute()).all()


def test_layout_and_device_of_results() -> None:
    x = da.from_array(np.ones((4, 6), np.float32), chunks=(2, 3))
    made = lazily.element_wise_add(x, 1.0, device="reference")
    assert (made.chunks, made.dtype, made._meta.dtype, made.ndim) == (((2, 2), (3, 3)), np.float32, np.float32, 2)
    assert made.compute().tolist() == [[2.0] * 6] * 4
    assert lazily.activation_gelu.__name__ == "activation_gelu"
    assert "slice1" in dir(lazily)
    with pytest.raises(AttributeError, match="no attribute 'slize'"):
        lazily.slize  # noqa: B018  # the lookup is what fails


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda x: lazily.slice1(x[x[:, 0] > 0], (0, 0), (1, 1)), BindingError, "input has chunks of unknown size along dim"),
        (lambda x: lazily.element_wise_exp(x, out=np.zeros(3)), BindingError, "out is for calls on NumPy arrays"),
        (lambda x: lazily.slice1(x, (0, 0), (9, 9)), DescError, "window lies inside the input"),
        (lambda x: lazily.gru(x[None], x[None], x[None]), Error, "gru|direction|w"),
        (lambda x: lazily.random_generator(x[0, :6].astype("uint32"), output_sizes=(2,)), Error, "random"),
        (lambda x: lazily.element_wise_add(x, np.ones(3, "float64")), BindingError, "float64"),
    ],
)
def test_refusals(act: Callable[[da.Array], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"(?i){text}"):
        act(da.from_array(np.ones((4, 6), np.float32), chunks=(2, 3)))


# --- batches ---


@pytest.mark.parametrize("name", ["cnn", "cnn-qdq", "cnn-qlinear", "encoder"])
def test_any_batches_of_a_model_have_the_bits_of_all_at_once(name: str) -> None:
    model = anydml.onnx.load(DIGITS / f"{name}.onnx")
    ((given, signature),) = model.inputs.items()
    sizes = [23, *(n for n in (signature.sizes or ())[1:] if isinstance(n, int))]
    x = (np.random.default_rng(1).random(sizes) * 16).astype(np.float32)
    wanted = model.run({given: x})["logits"]
    for chunks in (1, (5, 17, 1), 23):
        lazy = model.map_blocks(da.from_array(x, chunks=(chunks, *(3,) * (len(sizes) - 1))))
        assert (lazy.shape, lazy.dtype, lazy._meta.shape) == (wanted.shape, wanted.dtype, (0, 0))
        assert lazy.compute().tobytes() == wanted.tobytes()


def test_graphs_compute_as_many_samples_as_they_were_made_for() -> None:
    x = np.random.default_rng(2).normal(size=(3, 29, 2)).astype(np.float32)

    def layer(x: Any) -> Any:
        y = dml.element_wise_multiply(x, x)
        return {"norm": dml.reduce(y, function="SUM", axes=(0, 2)), "soft": dml.activation_softmax1(x, axes=(2,))}

    graph = dml.graph(layer, x=dml.TensorDesc("FLOAT32", (3, 8, 2)))
    made = graph.map_blocks(da.from_array(x, chunks=(2, (9, 1, 19), 2)), batch_axis=1)
    norm, soft = dask.compute(made["norm"], made["soft"])
    assert soft.tobytes() == dml.activation_softmax1(x, axes=(2,)).tobytes()
    assert norm.tobytes() == dml.reduce(dml.element_wise_multiply(x, x), function="SUM", axes=(0, 2)).tobytes()


@pytest.mark.parametrize("axes", [(0,), (0, 1)])
def test_samples_that_depend_on_one_another_are_refused(axes: tuple[int, ...]) -> None:
    graph = dml.graph(lambda x: dml.activation_softmax1(x, axes=axes), x=dml.TensorDesc("FLOAT32", (4, 6)))
    with pytest.raises(UnsupportedError, match="activation_softmax1: an element depends on several samples"):
        graph.map_blocks(da.zeros((8, 6), dtype=np.float32))
    graph = dml.graph(lambda x: dml.activation_relu(x), x=dml.TensorDesc("FLOAT32", (4, 6)))
    with pytest.raises(BindingError, match=r"x has shape \(8, 5\) .*\(any, 6\) of float32 is taken"):
        graph.map_blocks(da.zeros((8, 5), dtype=np.float32))
    with pytest.raises(BindingError, match="takes a Dask array, not ndarray"):
        graph.map_blocks(np.zeros((4, 6), np.float32))


def test_compiled_operators_and_graphs_are_pickled_as_what_they_are_made_of() -> None:
    weights = np.random.default_rng(4).normal(size=(6, 3)).astype(np.float32)
    owned = dml.TensorDesc("FLOAT32", (6, 3), flags="OWNED_BY_DML")
    graph = dml.graph(lambda x, w: dml.gemm(x, w), x=dml.TensorDesc("FLOAT32", (2, 6)), w=owned)
    compiled = graph.compile(dml.Device("cpu", threads=1))
    compiled.initialize(w=weights)
    x, got = np.ones((2, 6), np.float32), [np.zeros((2, 3), np.float32) for _ in range(2)]
    for k in range(2):
        pickle.loads(pickle.dumps(compiled)).bind(x=x, output=got[k]).execute()
    assert got[0].tobytes() == got[1].tobytes() == dml.gemm(x, weights).tobytes()
    first, second = (pickle.loads(pickle.dumps(compiled)) for _ in range(2))
    assert first.call is second.call
    assert (first.origin, first.origin.machine.threads) == (compiled.origin, 1)


# --- imports ---


def test_only_anydml_dask_imports_dask() -> None:
    script = (
        "import sys, numpy as np, anydml as dml\n"
        "dml.chunks, dml.requantize; dml.graph(lambda x: dml.activation_relu(x), x=dml.TensorDesc('FLOAT32', (2,)))\n"
        "assert not {m.partition('.')[0] for m in sys.modules} & {'dask', 'distributed', 'xarray', 'zarr', 'pandas'}\n"
        "import anydml.dask; assert 'dask' in sys.modules and 'distributed' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_missing_extra_is_named_with_the_line_that_installs_it() -> None:
    script = "import sys; sys.modules['dask'] = None\ntry: import anydml.dask\nexcept ImportError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 'pip install "anydml[dask]"' in done.stdout
