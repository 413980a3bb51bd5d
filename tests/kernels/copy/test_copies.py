"""The compiled copies: the reference's bits for every shape, between guard pages, on every instruction set of this machine."""

from __future__ import annotations

import os
import random
import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import guard_pages
from anydml.kernels.call.steps import At, Sheet, prepared
from anydml.kernels.code import engine, llvm, targets
from anydml.kernels.copy import copies, plain
from anydml.kernels.copy import tuning as copy_tuning
from anydml.kernels.copy.plan import canonical
from anydml.kernels.copy.plan import plan as planned
from anydml.schema.enumerations import PaddingMode
from every_kernel import SOAK
from tuned import tuned

# one for each width of vectors: the others differ in instructions that no copy uses (test_instructions.py)
ISAS = list({target.vector_bytes: target.name for target in targets.targets()}.values())
Array = NDArray[Any]


@pytest.fixture(autouse=True)
def _compile_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, copy_tuning, small=0)  # or small outputs, which find most mistakes, would be left to NumPy
    tuned(monkeypatch, copy_tuning, alone=64)


def _run(made: copies.Copy, target: targets.Target, source: Array, out: Array) -> int:
    """The number of pieces of the copy, after it was run."""
    steps = made.steps(At("source"), At("out"), At("scratch"))
    scratch = np.zeros(len(steps) * made.scratch, np.uint8)
    sheet = Sheet([[[step] for step in steps]])
    where = {"source": source.ctypes.data, "out": out.ctypes.data, "scratch": scratch.ctypes.data}
    (pieces,), _ = sheet.bind([where[base] for base in sheet.bases])
    assert all(prepared([[piece]], target, (source, out, scratch))() == 0 for piece in pieces)
    return len(pieces)


def _window(desc: dml.Slice1, source: NDArray[Any]) -> NDArray[Any]:
    """The elements that the window copies, by NumPy's indexing."""
    d = desc
    along = zip(d.input_window_offsets, d.input_window_sizes, d.input_window_strides, d.output_tensor.sizes, strict=True)
    indices = [
        [(offset if stride > 0 else offset + size - 1) + stride * c for c in range(count)]
        for offset, size, stride, count in along
    ]
    return source.view(f"u{source.itemsize}")[np.ix_(*indices)].view(source.dtype)


def _case(rng: random.Random, dtype: np.dtype[Any]) -> tuple[dml.Slice1, Array, Array, Array]:
    """A desc with a permuted, perhaps padded input and a permuted output, perhaps with gaps, in guarded memory."""
    rank = rng.randint(1, 5)
    sizes = [rng.choice((1, 2, 3, rng.randint(1, (0, 300, 40, 14, 8, 6)[rank]))) for _ in range(rank)]
    windows = []
    for n in sizes:
        offset = rng.randrange(n) if rng.random() < 0.4 else 0
        size = rng.randint(1, n - offset) if rng.random() < 0.4 else n - offset
        stride = rng.choice((1, 1, 1, 2, 3, 4, 5, 7, 8, -1, -1, -2, -3, -7))
        largest = 1 + (size - 1) // abs(stride)
        windows.append((offset, size, stride, largest if rng.random() < 0.8 else rng.randint(1, largest)))
    out_sizes = [w[3] for w in windows]
    at_end = rng.random() < 0.5
    source, _ = guard_pages.place(sizes, _strides(rng, sizes), dtype, at_end=at_end)
    source.view(f"u{dtype.itemsize}")[...] = np.frombuffer(
        rng.randbytes(source.size * dtype.itemsize), f"u{dtype.itemsize}"
    ).reshape(sizes)
    target, buffer = guard_pages.place(out_sizes, _strides(rng, out_sizes), dtype, at_end=at_end, canary=0xA5)
    desc = dml.Slice1(
        input_tensor=dml.TensorDesc.of(source),
        output_tensor=dml.TensorDesc.of(target),
        input_window_offsets=tuple(w[0] for w in windows),
        input_window_sizes=tuple(w[1] for w in windows),
        input_window_strides=tuple(w[2] for w in windows),
    )
    return desc, source, target, buffer


def _kind(desc: dml.Slice1) -> str:
    itemsize = desc.input_tensor.data_type.dtype.itemsize
    sources = [s * t * itemsize for s, t in zip(desc.input_tensor.explicit_strides, desc.input_window_strides, strict=True)]
    into = [s * itemsize for s in desc.output_tensor.explicit_strides]
    return planned(canonical(desc.output_tensor.sizes, sources, into), itemsize).kind


def _strides(rng: random.Random, sizes: list[int]) -> list[int]:
    """Nested strides: a permutation of the dimensions, sometimes with a gap."""
    order = list(range(len(sizes)))
    if rng.random() < 0.4:
        rng.shuffle(order)
    strides, step = [0] * len(sizes), 1
    for i in order[::-1] if rng.random() < 0.8 else order:
        if rng.random() < 0.2:
            step += rng.randint(1, 9)
        strides[i] = step
        step *= sizes[i]
    return strides


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("past_cache", [False, True])
@pytest.mark.parametrize("isa", ISAS)
def test_compiled_copies_give_the_reference_s_bits_and_touch_nothing_else(
    isa: str, past_cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned(monkeypatch, copy_tuning, near=0)
    if past_cache:
        tuned(monkeypatch, copy_tuning, stream=0)
        tuned(monkeypatch, copy_tuning, stream_tiles=0)
        tuned(monkeypatch, copy_tuning, long_row=1)
    kinds: dict[str, int] = {}
    count = 120 * SOAK if SOAK > 1 else 50
    for case in range(count):
        rng = random.Random(case)
        dtype = np.dtype(("uint8", "float16", "float32", "int64")[case % 4])
        desc, source, target, buffer = _case(rng, dtype)
        operator = dml.Device(isa=isa, threads=rng.choice((1, 2, 3))).compile(desc)
        assert operator.kernel_name == "copy:compiled"
        kinds[_kind(desc)] = kinds.get(_kind(desc), 0) + 1
        bits = f"u{dtype.itemsize}"
        want = _window(desc, source).view(bits)
        before = buffer.copy()
        operator.bind(input_tensor=source, output_tensor=target).execute()
        np.testing.assert_array_equal(target.view(bits), want, err_msg=f"case {case}: {desc}")
        after = buffer.copy()
        np.ndarray(target.shape, bits, after, strides=target.strides)[...] = np.ndarray(
            target.shape, bits, before, strides=target.strides
        )
        np.testing.assert_array_equal(after, before, err_msg=f"case {case} wrote between elements: {desc}")
    assert sum(kinds.values()) == count
    assert {"rows", "groups", "elements"} <= kinds.keys()


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_transpositions_of_every_size_around_a_tile(isa: str, dtype: str) -> None:
    kind = np.dtype(dtype)
    count = 0
    for row, rows in enumerate((16, 17, 31, 32, 33, 64, 65, 100)):
        for column, columns in enumerate((16, 18, 32, 47, 64, 67)):
            for backwards in (1, -1) if SOAK > 1 else ((-1) ** (row + column),):
                source, _ = guard_pages.place((rows, columns), (columns, 1), kind, at_end=True)
                source.view(f"u{kind.itemsize}")[...] = np.arange(rows * columns).reshape(rows, columns)
                target, _ = guard_pages.place((columns, rows), (rows, 1), kind, at_end=backwards > 0)
                desc = dml.Slice1(
                    input_tensor=dml.TensorDesc.of(source.T),
                    output_tensor=dml.TensorDesc.of(target),
                    input_window_offsets=(0, 0),
                    input_window_sizes=(columns, rows),
                    input_window_strides=(backwards, 1),
                )
                in_tiles = _kind(desc) == "tiles"
                if SOAK == 1 and not in_tiles and (row + column) % 3:  # each of these has its own code
                    continue
                operator = dml.Device(isa=isa, threads=1 + count % 2).compile(desc)
                assert operator.kernel_name == "copy:compiled"
                count += in_tiles
                operator.bind(input_tensor=source.T, output_tensor=target).execute()
                np.testing.assert_array_equal(target, source.T[::backwards])
    print(count)
    assert count >= (20 if SOAK > 1 else 10)


@pytest.mark.parametrize("isa", ISAS)
def test_streaming_stores_give_the_same_bits(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, copy_tuning, stream=0)
    rng = np.random.default_rng(0)
    count = 0
    for dtype in ("uint8", "float32", "int64"):
        x = rng.integers(0, 256, (40, 4100 * np.dtype(dtype).itemsize), np.uint8).view(dtype)
        for columns in (slice(None), slice(3, 4001), slice(None, None, 2), slice(None, None, -1), slice(1, None, -1 - 2)):
            for shift in (0, 1, 3):
                view = x[:, columns][:, shift:]
                if view.size == 0:
                    continue
                out = np.zeros(view.shape[0] * view.shape[1] + shift, dtype)[shift:].reshape(view.shape)
                got = dml.slice1(
                    x,
                    (0, _first(columns, x.shape[1], shift, view.shape[1])),
                    (40, (view.shape[1] - 1) * abs(columns.step or 1) + 1),
                    (1, columns.step or 1),
                    out=out,
                    device=dml.Device(isa=isa, threads=1),
                )
                np.testing.assert_array_equal(got, view)
                count += 1
    assert count >= 36


def _first(columns: slice, n: int, shift: int, size: int) -> int:
    """The first column that x[:, columns][:, shift:] selects."""
    taken = range(n)[columns][shift:]
    assert len(taken) == size
    return min(taken)


def test_not_a_number_keeps_its_payload() -> None:
    signalling = np.array([0x7F800001, 0xFFC12345, 0x80000000, 0x00000001] * 4096, np.uint32).view(np.float32)
    for device in (dml.Device(), dml.Device("reference")):
        got = dml.slice1(signalling, (0,), (signalling.size,), (-1,), device=device)
        np.testing.assert_array_equal(got.view(np.uint32), signalling.view(np.uint32)[::-1])


def test_a_further_shape_of_a_known_kind_compiles_nothing() -> None:
    device = dml.Device(threads=1)
    x = np.zeros((100, 100), np.float32)
    for n in (100, 45):  # contiguous rows and others, for which prefetching may differ
        dml.slice1(x, (0, 0), (n, n), (1, 2), device=device)
    before = engine.compiled.cache_info().misses
    for n in range(50, 90):
        dml.slice1(x, (0, 0), (n, n), (1, 2), device=device)
    assert engine.compiled.cache_info().misses == before


def test_dimensions_are_dropped_and_merged() -> None:
    whole = canonical((4, 1, 5, 6), (120, 7, 24, 4), (120, 9, 24, 4))
    assert whole == [(120, 4, 4)]
    assert planned(whole, 4).kind == "rows"
    assert planned(canonical((8, 8), (64, 8), (32, 4)), 4).kind == "groups"


def test_where_nothing_can_be_compiled_the_list_goes_on(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setattr(llvm, "unavailable", lambda: "llvmlite cannot be used: No module named 'llvmlite'")
    monkeypatch.setenv("ANYDML_VERBOSE", "dispatch")
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    desc = dml.Slice1(
        input_tensor=dml.TensorDesc.of(x),
        output_tensor=dml.TensorDesc.of(x),
        input_window_offsets=(0, 0),
        input_window_sizes=(8, 8),
        input_window_strides=(-1, 1),
    )
    assert dml.Device().compile(desc).kernel_name == "copy:numpy"
    assert "No module named 'llvmlite'" in capfd.readouterr().err


@pytest.mark.parametrize("isa", ISAS)
def test_threads_compile_and_copy_side_by_side(isa: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint32).reshape(256, 256)
    failures: list[str] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(30):
            step = rng.choice((-5, -3, -2, -1, 2, 3, 5))
            got = dml.slice1(x, (0, 0), (256, 256), (1, step), device=dml.Device(isa=isa, threads=2))
            if not np.array_equal(got, x[:, ::step]):
                failures.append(f"{seed}: {step}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forks with other threads running are tested
def test_a_fork_after_use_can_compile_and_copy() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)
    device = dml.Device(threads=2)
    dml.slice1(x, (0, 0), (256, 256), (1, -1), device=device)
    child = os.fork()
    if child == 0:
        steps = (-1, 2, -6)
        good = all(np.array_equal(dml.slice1(x, (0, 0), (256, 256), (1, s), device=device), x[:, ::s]) for s in steps)
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_transpositions_past_the_cache(isa: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, copy_tuning, stream_tiles=0)
    target, kind = targets.named(isa), np.dtype(dtype)
    assert target is not None
    block = 128 // kind.itemsize, 256 // kind.itemsize
    streamed = 0
    for rows in (block[0], 2 * block[0], 4 * block[0] - 64 // kind.itemsize):  # output rows are whole cache lines
        for columns in (block[1], block[1] + 1, 2 * block[1] - 3, 3 * block[1]):
            for at_end, threads in ((True, 1), (False, 2)):
                source, _ = guard_pages.place((rows, columns), (columns, 1), kind, at_end=at_end)
                source.view(f"u{kind.itemsize}")[...] = np.arange(rows * columns).reshape(rows, columns)
                out, _ = guard_pages.place((columns, rows), (rows, 1), kind, at_end=not at_end)
                strides = source.T.strides, out.strides
                made = copies.copy(target, out.shape, *strides, kind.itemsize, threads=threads, stream=True)
                assert made.kind == "tiles"
                streamed += made.streaming is not None and out.ctypes.data % made.boundary == 0
                assert _run(made, target, source, out) <= threads
                np.testing.assert_array_equal(out, source.T)
    assert streamed >= 12


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_copy_serves_any_two_addresses(isa: str, stream: bool) -> None:
    target = targets.named(isa)
    assert target is not None
    x = np.arange(3 * 200 * 40, dtype=np.uint16).reshape(3, 200, 40)
    for view in (x, x[:, ::2], x[..., ::-1], x.transpose(0, 2, 1), x.transpose(2, 1, 0)[:, ::3]):
        out = np.zeros(view.shape, np.uint16)
        made = copies.copy(target, view.shape, view.strides, out.strides, 2, threads=2, stream=stream)
        assert _run(made, target, view, out) <= 2
        np.testing.assert_array_equal(out, view)


@pytest.mark.parametrize("isa", ISAS)
def test_long_rows_are_copied_page_by_page_past_the_cache(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a part of a page before the first and after the last; bytes around the output stay as they are."""
    tuned(monkeypatch, copy_tuning, stream=0)
    target = targets.named(isa)
    assert target is not None
    x = np.random.default_rng(2).integers(1, 256, 90_000, np.uint8)
    for n in (plain.PAGES * plain.PAGE - 1, plain.PAGES * plain.PAGE, 2 * plain.PAGES * plain.PAGE + 70, 84_321):
        for shift in (0, 1, 63):
            memory = np.zeros(n + 200, np.uint8)
            view, out = x[17 : 17 + n], memory[100 + shift : 100 + shift + n]
            made = copies.copy(target, (n,), (1,), (1,), 1, threads=1, stream=True)
            assert made.streaming is not None
            assert _run(made, target, view, out) == 1
            np.testing.assert_array_equal(memory, np.pad(view, (100 + shift, 100 - shift)))


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_pieces_of_short_rows_leave_past_the_cache_where_they_belong(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are fewer rows than threads, rows are divided: then pieces are not contiguous in the output."""
    tuned(monkeypatch, copy_tuning, stream=0)
    target = targets.targets()[-1]
    for sizes in ((10, 40), (3, 4, 200), (5, 2, 64), (2, 100, 40)):
        x = np.arange(np.prod(sizes), dtype=np.uint32).reshape(sizes)
        view, out = x[::-1], np.zeros(sizes, np.uint32)
        made = copies.copy(target, sizes, view.strides, out.strides, 4, threads=threads, stream=True)
        assert _run(made, target, view, out) <= threads
        np.testing.assert_array_equal(out, view)


def _guarded(x: Array, *, at_end: bool) -> Array:
    """A copy next to an unmapped page."""
    made, _ = guard_pages.place(x.shape, [step // x.itemsize for step in x.strides], x.dtype, at_end=at_end)
    made[...] = x
    return made


@pytest.mark.parametrize("isa", ISAS)
def test_more_dimensions_than_a_kernel_walks(isa: str) -> None:
    """Each repeated dimension counts twice: of sixteen, eight are divided into pieces, or left to NumPy if these are too
    many."""
    for threads, sizes, repeats in ((1, (3,) * 8, (2,) * 8), (2, (2, 3, 2, 3, 2, 3, 2, 3), (3, 1, 2, 2, 1, 2, 2, 2))):
        x = np.arange(np.prod(sizes), dtype=np.int16).reshape(sizes)
        y = np.empty([a * b for a, b in zip(sizes, repeats, strict=True)], np.int16)
        desc = dml.Tile(input_tensor=dml.TensorDesc.of(x), output_tensor=dml.TensorDesc.of(y), repeats=repeats)
        operator = dml.Device(isa=isa, threads=threads).compile(desc)
        assert operator.kernel_name == "copy:compiled"
        operator.bind(input_tensor=x, output_tensor=y).execute()
        np.testing.assert_array_equal(y, np.tile(x, repeats))
    wide = (4, 4, 4, 4, 2, 2, 2, 2)
    desc = dml.Tile(
        input_tensor=dml.TensorDesc("INT16", wide),
        output_tensor=dml.TensorDesc("INT16", [4 * n for n in wide]),
        repeats=(4,) * 8,
    )
    assert dml.Device(isa=isa).compile(desc).kernel_name == "copy:numpy"


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("isa", ISAS)
def test_compiled_padding_is_numpy_s_and_touches_nothing_else(isa: str, ran: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, copy_tuning, near_output=1 << 8)  # so that nearly all outputs are written part by part
    modes = {"CONSTANT": "constant", "EDGE": "edge", "REFLECTION": "reflect", "SYMMETRIC": "symmetric", "WRAP": "wrap"}
    for case in range(25 * SOAK):
        rng = random.Random(case)
        mode, dtype = list(modes)[case % 5], rng.choice(("uint8", "float16", "float32", "int64"))
        sizes = [rng.choice((1, 2, 3, 5, 17)) for _ in range(rng.randint(1, 4))]
        before, after = ([rng.choice((0, 0, 1, 3, 9)) for _ in sizes] for _ in range(2))
        x = _guarded(np.arange(np.prod(sizes)).astype(dtype).reshape(sizes), at_end=rng.random() < 0.5)
        every = list(zip(before, after, strict=True))
        pad: Any = np.pad  # typed for one mode at a time
        wanted = pad(x, every, mode=modes[mode], **({"constant_values": 7} if mode == "CONSTANT" else {}))
        y = _guarded(np.zeros_like(wanted), at_end=rng.random() < 0.5)
        x_desc, y_desc = dml.TensorDesc.of(x), dml.TensorDesc.of(y)
        desc = dml.Padding1(
            input_tensor=x_desc,
            output_tensor=y_desc,
            padding_mode=PaddingMode[mode],
            padding_value_data_type=x_desc.data_type,
            padding_value=7,
            start_padding=tuple(before),
            end_padding=tuple(after),
        )
        operator = dml.Device(isa=isa, threads=rng.choice((1, 3))).compile(desc)
        assert operator.kernel_name == "copy:compiled"
        operator.bind(input_tensor=x, output_tensor=y).execute()
        np.testing.assert_array_equal(y, wanted, err_msg=f"case {case}: {desc}")
    ran(25 * SOAK, 25)


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("isa", ISAS)
def test_rows_that_take_turns_are_interleaved(isa: str, ran: Any) -> None:
    """Blocks of an image from channels that are far apart, with lengths around that of a vector, and shorter."""
    kinds: dict[str, int] = {}
    for case in range(48 * SOAK):
        rng = random.Random(case)
        dtype, block = np.dtype(("uint8", "float16", "float32", "int64")[case % 4]), rng.choice((2, 3, 4))
        n, c, w = rng.choice((1, 2)), rng.choice((1, 3)), rng.choice((16, 17, 31, 32, 33, 70))
        h = -(-1025 // (w * dtype.itemsize))
        x = _guarded(
            np.arange(n * c * block**2 * h * w).astype(dtype).reshape(n, c * block**2, h, w), at_end=rng.random() < 0.5
        )
        wanted = x.reshape(n, block, block, c, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c, h * block, w * block)
        y = _guarded(np.zeros_like(wanted), at_end=rng.random() < 0.5)
        desc = dml.DepthToSpace1(input_tensor=dml.TensorDesc.of(x), output_tensor=dml.TensorDesc.of(y), block_size=block)
        operator = dml.Device(isa=isa, threads=rng.choice((1, 3))).compile(desc)
        assert operator.kernel_name == "copy:compiled"
        operator.bind(input_tensor=x, output_tensor=y).execute()
        np.testing.assert_array_equal(y, wanted, err_msg=f"case {case}: {desc}")
        size = dtype.itemsize
        found = planned(canonical((w, block), (size, c * h * w * size), (block * size, size)), size)
        kinds[found.kind] = kinds.get(found.kind, 0) + 1
    assert kinds["interleaved"] >= 40 * SOAK
    ran(48 * SOAK, 48)


def test_each_constant_of_a_call_is_its_own() -> None:
    """A diagonal of one number, in a matrix of another."""
    desc = dml.DiagonalMatrix(output_tensor=dml.TensorDesc("FLOAT32", (1, 1, 40, 50)), value=3.0, offset=-2)
    made = dml.Device("cpu").compile(desc)
    assert made.kernel_name == "copy:compiled"
    y = np.empty((1, 1, 40, 50), np.float32)
    made.bind(output_tensor=y).execute()
    np.testing.assert_array_equal(y[0, 0], 3 * np.eye(40, 50, k=-2, dtype=np.float32))
