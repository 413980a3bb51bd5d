"""Kernels of windows, compared with the exact reference: every kind and type, any layout, undecided sums, and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_pooling import case, named

import anydml as dml
import guard_pages
import hostile_data
from agreement import SOAK, bits, expected
from anydml import DataType, TensorDesc, operators
from anydml.kernels.code import llvm
from anydml.kernels.match.windows import windows
from anydml.kernels.windows import tuning as windows_tuning
from anydml.schema.expression import Max, Sum, Tensor, each, first_largest
from anydml.schema.operator import Desc, example_desc
from anydml.schema.statement import move, nest, stated
from every_kernel import without_dot_products
from tuned import tuned

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

ISAS = [row.name for row in without_dot_products()]
POOLING = ("AVERAGE_POOLING", "MAX_POOLING", "LP_POOLING")
NAMES = [o.spec.name for o in operators.every() if o.spec.name.rstrip("012").endswith(POOLING)]
F32, F16 = DataType.FLOAT32, DataType.FLOAT16


@pytest.fixture
def _written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small windows have unrolled code too, instead of the kernel for any sizes."""
    tuned(monkeypatch, windows_tuning, general=0)
    tuned(monkeypatch, windows_tuning, alone=0)


def executed(desc: Any, inputs: dict[str, NDArray[Any]], isa: str | None = None, threads: int = 1) -> dict[str, NDArray[Any]]:
    compiled = dml.Device("cpu", isa=isa, threads=threads).compile(desc)
    assert compiled.kernel_name == "windows:compiled"
    outputs = {
        f.name: np.full(t.sizes, 85, t.data_type.dtype) for f in desc.spec.outputs if (t := getattr(desc, f.name)) is not None
    }
    compiled.bind(**inputs, **outputs).execute()
    return outputs


def same(desc: Desc, inputs: dict[str, NDArray[Any]], found: dict[str, NDArray[Any]]) -> int:
    want = expected(desc, inputs)
    assert found.keys() == want.keys()
    for name, array in found.items():
        different = np.flatnonzero(bits(array) != bits(want[name]))
        assert not different.size, (desc, name, array.ravel()[different[:4]], want[name].ravel()[different[:4]])
    return sum(array.size for array in found.values())


def between_unmapped_pages(desc: Any, compiled: dml.CompiledOperator) -> None:
    """Execute a call of FLOAT32, with arrays that begin or end at memory that is not there, and gaps that stay as they are."""
    x, y = desc.input_tensor, desc.output_tensor
    for at_end in (False, True) if guard_pages.AVAILABLE else ():
        given, _ = guard_pages.place(x.sizes, x.explicit_strides, np.dtype(np.float32), at_end=at_end)
        given[...] = drawn(F32, x.sizes, 3)
        found, buffer = guard_pages.place(y.sizes, y.explicit_strides, np.dtype(np.float32), at_end=at_end, canary=0x5A)
        compiled.bind(input_tensor=given, output_tensor=found).execute()
        same(desc, {"input_tensor": np.ascontiguousarray(given)}, {"output_tensor": np.ascontiguousarray(found)})
        found[...] = 0
        left = buffer[buffer != 0]
        assert (left == 0x5A).all()
        assert left.size == buffer.size - found.nbytes


def pooling(
    name: str, data_type: DataType, sizes: tuple[int, ...], window: tuple[int, ...], *, strides: tuple[int, ...] | None = None,
    start: tuple[int, ...] | None = None, end: tuple[int, ...] | None = None, dilations: tuple[int, ...] | None = None,
    layout: tuple[int, ...] | None = None, out: tuple[int, ...] | None = None, larger: int = 0, **fields: Any,
) -> Any:  # fmt: skip
    """The desc of one of the newest operators; larger: how far the output's sizes are rounded up."""
    count = len(window)
    strides, dilations = strides or (1,) * count, dilations or (1,) * count
    start, end = start or (0,) * count, end or (0,) * count
    room = [sizes[i + 2] + start[i] + end[i] - 1 - (window[i] - 1) * dilations[i] for i in range(count)]
    y = (*sizes[:2], *(1 + (r + larger * (s - 1)) // s for r, s in zip(room, strides, strict=True)))
    if fields.pop("indices", False):
        fields["output_indices_tensor"] = TensorDesc(fields.pop("index_type", DataType.UINT32), y)
    return named(name)(
        input_tensor=TensorDesc(data_type, sizes, strides=layout), output_tensor=TensorDesc(data_type, y, strides=out),
        strides=strides, window_size=window, start_padding=start, end_padding=end, dilations=dilations, **fields,
    )  # fmt: skip


def drawn(data_type: DataType, sizes: tuple[int, ...], seed: int = 0, kind: str = "ordinary") -> NDArray[Any]:
    return hostile_data.values(data_type.name, sizes, np.random.default_rng(seed), kind)


# --- results ---


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_is_compiled(name: str) -> None:
    desc = example_desc(named(name))
    assert dml.Device("cpu").compile(desc).kernel_name == "windows:compiled"


@pytest.mark.parametrize("name", ["AVERAGE_POOLING1", "LP_POOLING1", "MAX_POOLING2", "QUANTIZED_LINEAR_AVERAGE_POOLING"])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_windows_of_every_kind(name: str) -> None:
    """Small windows, by the kernel for any sizes."""
    rng = np.random.default_rng(8)
    compared = 0
    while compared < 8_000 * SOAK:
        desc, inputs = case(name, rng)
        if getattr(desc, "p", 1) < 3:
            compared += same(desc, inputs, executed(desc, inputs))


USUAL: list[tuple[tuple[int, ...], dict[str, Any]]] = [  # sizes, and windows
    ((2, 3, 9, 40), dict(window=(3, 3), start=(1, 1), end=(1, 1))),
    ((1, 2, 12, 35), dict(window=(3, 3), strides=(2, 2), start=(1, 1), end=(0, 1), larger=1)),
    ((2, 1, 7, 34), dict(window=(2, 2), strides=(2, 2))),
    ((1, 2, 9, 30), dict(window=(2, 3), strides=(1, 3), dilations=(3, 2), start=(2, 2), end=(2, 1))),
    ((1, 1, 12, 12), dict(window=(11, 10), start=(3, 3), end=(3, 3))),
    ((1, 2, 3, 4, 19), dict(window=(2, 3, 3), start=(1, 1, 1), end=(1, 1, 1), strides=(1, 2, 1))),
]


def of_kinds() -> Iterator[tuple[str, DataType, dict[str, Any]]]:
    for data_type in (F32, F16):
        yield "AVERAGE_POOLING1", data_type, {}
        yield "AVERAGE_POOLING1", data_type, {"include_padding": True}
        yield "LP_POOLING1", data_type, {"p": 1}
        yield "LP_POOLING1", data_type, {"p": 2}
    for data_type in (F32, F16, DataType.INT8, DataType.UINT16, DataType.INT32, DataType.UINT64):
        yield "MAX_POOLING2", data_type, {}
    yield "MAX_POOLING2", F32, {"indices": True}
    yield "MAX_POOLING2", F16, {"indices": True, "index_type": DataType.UINT64}


@pytest.mark.usefixtures("_written_out")
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("isa", ISAS)
def test_code_that_is_written_out(isa: str) -> None:
    """Each kind and type with one of the windows, and all windows on every instruction set."""
    compared = 0
    kinds = list(of_kinds())
    for at, (name, data_type, fields) in enumerate(kinds):
        several = range(len(USUAL)) if SOAK > 1 else (at % len(USUAL), (at + 2 * ISAS.index(isa) + 1) % len(USUAL))
        for w in several:
            sizes, given = USUAL[w]
            desc = pooling(name, data_type, sizes, **given, **fields)
            for kind in ("ordinary", "specials", "ties"):
                x = {"input_tensor": drawn(data_type, sizes, at, kind)}
                compared += same(desc, x, executed(desc, x, isa, threads=1 + w % 2))
    assert compared > 10_000


CHANNELS_LAST = [((2, 9, 5, 6), (270, 1, 54, 9)), ((1, 33, 4, 5), (660, 1, 165, 33)), ((1, 8, 2, 3, 4), (192, 1, 96, 32, 8))]


@pytest.mark.usefixtures("_written_out")
@pytest.mark.parametrize(("sizes", "layout"), CHANNELS_LAST)
def test_channels_that_lie_side_by_side(sizes: tuple[int, ...], layout: tuple[int, ...]) -> None:
    count = len(sizes) - 2
    window: dict[str, Any] = dict(
        window=(2, 3, 2)[:count], start=(1,) * count, end=(1,) * count, strides=(1, 2, 1)[:count], layout=layout
    )
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("AVERAGE_POOLING1", {}),
        ("MAX_POOLING2", {}),
        ("MAX_POOLING2", {"indices": True}),
        ("LP_POOLING1", {}),
    ]
    for name, fields in kinds:
        desc = pooling(name, F32, sizes, **window, **fields)
        y = desc.output_tensor.sizes
        out = [1] * len(y)  # the channels first, then from the last dimension to the first
        step = y[1]
        for d in reversed(range(2, len(y))):
            out[d], step = step, step * y[d]
        out[0] = step
        desc = pooling(name, F32, sizes, **window, out=tuple(out), **fields)
        x = np.lib.stride_tricks.as_strided(np.zeros(int(np.prod(sizes)), np.float32), sizes, [4 * s for s in layout])
        x[...] = drawn(F32, sizes, 3, "specials" if name == "MAX_POOLING2" else "ordinary")
        compiled = dml.Device("cpu", threads=2).compile(desc)
        assert compiled.kernel_name == "windows:compiled"
        found = np.lib.stride_tricks.as_strided(np.zeros(int(np.prod(y)), np.float32), y, [4 * s for s in out])
        bound = {"output_tensor": found}
        if fields:
            bound["output_indices_tensor"] = np.zeros(y, np.uint32)
        compiled.bind(input_tensor=x, **bound).execute()
        same(desc, {"input_tensor": np.ascontiguousarray(x)}, {k: np.ascontiguousarray(v) for k, v in bound.items()})


LAYOUTS = [  # strides of the input of {2, 2, 6, 20} and of the output
    (None, None),
    ((240, 120, 20, 1), (300, 150, 25, 1)),
    ((6, 3, 20, 400), None),
    ((0, 120, 0, 1), (1, 2, 4, 24)),
    ((400, 200, 30, 2), (700, 300, 50, 2)),
]


@pytest.mark.usefixtures("_written_out")
@pytest.mark.parametrize("name", ["AVERAGE_POOLING1", "MAX_POOLING2"])
@pytest.mark.parametrize(("layout", "out"), LAYOUTS)
def test_any_layout_between_unmapped_pages(name: str, layout: tuple[int, ...] | None, out: tuple[int, ...] | None) -> None:
    sizes = (2, 2, 6, 20)
    desc = pooling(name, F32, sizes, (3, 3), start=(1, 1), end=(1, 1), layout=layout, out=out)
    for isa in ISAS:
        compiled = dml.Device("cpu", isa=isa, threads=1).compile(desc)
        assert compiled.kernel_name == "windows:compiled"
        between_unmapped_pages(desc, compiled)


@pytest.mark.usefixtures("_written_out")
@pytest.mark.parametrize("isa", ISAS)
def test_quantised_means(isa: str) -> None:
    rng = np.random.default_rng(6)
    for to, x_type in ((DataType.INT8, DataType.UINT8), (DataType.UINT8, DataType.INT8)):
        x = rng.integers(0, 256, (2, 3, 7, 37)).astype(np.uint8).view(x_type.dtype)
        channels = (1, 3, 1, 1)
        inputs: dict[str, NDArray[Any]] = {
            "input_tensor": x,
            "input_scale_tensor": np.array([0.5, 0.1, 3e-39], np.float32).reshape(channels),
            "input_zero_point_tensor": rng.integers(0, 256, channels).astype(np.uint8).view(x_type.dtype),
            "output_scale_tensor": np.array([0.5, -0.3, 1e-39], np.float32).reshape(channels),
            "output_zero_point_tensor": np.array([7], np.uint8).view(to.dtype),
        }
        desc = named("QUANTIZED_LINEAR_AVERAGE_POOLING")(
            **{name: TensorDesc.of(array) for name, array in inputs.items()}, output_tensor=TensorDesc(to, (2, 3, 4, 19)),
            strides=(2, 2), window_size=(3, 2), start_padding=(1, 1), end_padding=(1, 0), dilations=(1, 1),
            include_padding=to == DataType.INT8,
        )  # fmt: skip
        same(desc, inputs, executed(desc, inputs, isa))


@pytest.mark.usefixtures("_written_out")
def test_all_threads_give_the_same_bits() -> None:
    desc = pooling("AVERAGE_POOLING1", F32, (3, 5, 11, 26), (3, 3), start=(1, 1), end=(1, 1))
    x = {"input_tensor": drawn(F32, (3, 5, 11, 26))}
    one = executed(desc, x)["output_tensor"]
    for threads in (2, 3, 5):
        assert executed(desc, x, threads=threads)["output_tensor"].tobytes() == one.tobytes()


# --- what is taken, and what is refused ---


def test_the_mean_of_all_is_one_of_rows() -> None:
    x = {"input_tensor": drawn(F32, (2, 9, 7, 7))}
    desc = pooling("AVERAGE_POOLING1", F32, (2, 9, 7, 7), (7, 7))
    same(desc, x, executed(desc, x))


def test_norms_other_than_the_usual_are_refused() -> None:
    desc = pooling("LP_POOLING1", F32, (1, 1, 4, 4), (2, 2), p=3)
    assert dml.Device("cpu").compile(desc).kernel_name == "reference"
    assert windows(stated(desc)) == "the elements are not sums, means, lengths or largest elements of windows"


def test_what_looks_like_windows_and_is_not() -> None:
    x = Tensor("x", (1, 1, 4, 9), F32)
    n, c, i, j = at = each((1, 1, 3, 4))
    k = each((2, 3), "uv")
    inside = x.skipped([n, c, i + k[0], 2 * j + k[1]])
    place = first_largest(k, inside)
    taken = x.or_else([n, c, i + place // 3, j * 2 + place % 3], -float("inf"))
    for body, moves in [
        (Max(k, inside), False),  # zeros of both signs
        (Sum(k, inside) / 6, False),  # it counts elements outside
        (taken, True),  # j * 2 is another expression than 2 * j
        (x.or_else([n, c, i + place // 3, 2 * j + place % 2], -float("inf")), True),
        (x.or_else([n, c, i + place // 3, 2 * j + place % 3], 0), True),
        (Sum(k, x.skipped([n, c, i + k[0] + k[1], 2 * j + k[1]]) * 1), False),
    ]:
        assert isinstance(windows({"y": (move if moves else nest)(at, body)}), str)
    right = x.or_else([n, c, i + place // 3, 2 * j + place % 3], -float("inf"))
    assert not isinstance(windows({"y": move(at, right)}), str)
