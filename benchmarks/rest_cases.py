"""Operators that move elements, and those along an axis, on arrays of usual sizes, each with calls of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml

Array = NDArray[Any]
Call = Callable[[], object]


class Case(NamedTuple):
    """An operator on arrays, or lists of arrays, by the names of its fields.

    node: onnxruntime's operator, the inputs that are constants in its model, and attributes. Its other input is the first one
    here, or `first`; its outputs have the sizes of those here, or of `made`. torch: a function that makes torch's call from the
    inputs and the first output, or None. fed: the constants are inputs of the model. opset: of the model.
    """

    name: str
    operator: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    fields: Mapping[str, Any]
    node: tuple[str, Sequence[Array], Mapping[str, Any]] | None = None
    torch: Callable[[Any, Sequence[Any], Any], Call] | None = None
    first: Array | None = None
    made: Sequence[Array] | None = None
    fed: bool = False
    opset: int = 21


def floats(*sizes: int) -> Array:
    return np.random.default_rng(0).standard_normal(sizes, np.float32)


def positions(most: int, *sizes: int) -> Array:
    return np.random.default_rng(1).integers(0, most, sizes)


def _with(name: str, first: int, *, writes: bool = True, **others: Any) -> Callable[[Any, Sequence[Any], Any], Call]:
    """torch's function of an input, a number, and the other inputs. writes: into an output that is given."""

    def call(torch: Any, x: Sequence[Any], y: Any) -> Call:
        return partial(getattr(torch, name), x[0], first, *x[1:], **others, **({"out": y} if writes else {}))

    return call


def cases() -> Iterator[Case]:
    yield from _padded()
    yield from _indexed()
    yield from _blocks()
    yield from _parts()
    yield from _chosen()
    yield from _along()


def _padded() -> Iterator[Case]:
    image = floats(8, 64, 56, 56)
    before, after = (0, 0, 1, 1), (0, 0, 1, 1)
    modes = {"CONSTANT": "constant", "EDGE": "edge", "REFLECTION": "reflect"}
    for mode, theirs in modes.items():
        fields = dict(
            padding_mode=mode,
            padding_value_data_type=dml.DataType.FLOAT32,
            padding_value=0.0,
            start_padding=before,
            end_padding=after,
        )
        padded = {"output_tensor": np.empty((8, 64, 58, 58), np.float32)}
        constants = [np.array((*before, *after), np.int64)]
        yield Case(
            f"padding, {theirs}", "PADDING1", {"input_tensor": image}, padded, fields, ("Pad", constants, {"mode": theirs})
        )


def _indexed() -> Iterator[Case]:
    table, tokens = floats(30000, 768), positions(30000, 1, 512)
    yield Case(
        "embedding, 512 rows of 768",
        "GATHER",
        {"input_tensor": table, "indices_tensor": tokens},
        {"output_tensor": np.empty((512, 768), np.float32)},
        dict(axis=0, index_dimensions=1),
        ("Gather", [tokens[0]], {"axis": 0}),
        lambda torch, x, y: partial(torch.index_select, x[0], 0, x[1][0], out=y),
    )
    x = floats(1024, 1024)
    columns = positions(1024, 1, 1024)
    yield Case(
        "columns of a matrix",
        "GATHER",
        {"input_tensor": x, "indices_tensor": columns},
        {"output_tensor": np.empty((1024, 1024), np.float32)},
        dict(axis=1, index_dimensions=1),
        ("Gather", [columns[0]], {"axis": 1}),
        lambda torch, x, y: partial(torch.index_select, x[0], 1, x[1][0], out=y),
    )
    each = positions(1024, 1024, 1024)
    for axis in (0, 1):
        yield Case(
            f"elements along axis {axis}",
            "GATHER_ELEMENTS",
            {"input_tensor": x, "indices_tensor": each},
            {"output_tensor": np.empty((1024, 1024), np.float32)},
            dict(axis=axis),
            ("GatherElements", [each], {"axis": axis}),
            _with("gather", axis),
        )
    tuples = positions(64, 4096, 2)
    deep = floats(64, 64, 32)
    yield Case(
        "4096 rows of 32 by tuples",
        "GATHER_ND",
        {"input_tensor": deep, "indices_tensor": tuples[None]},
        {"output_tensor": np.empty((1, 4096, 32), np.float32)},
        dict(input_dimension_count=3, indices_dimension_count=2),
        ("GatherND", [tuples], {}),
        made=[np.empty((4096, 32), np.float32)],
    )
    named, updates = positions(1024, 256, 1024), floats(256, 1024)
    yield Case(
        "scattered elements",
        "SCATTER_ELEMENTS",
        {"input_tensor": x, "indices_tensor": named, "updates_tensor": updates},
        {"output_tensor": np.empty((1024, 1024), np.float32)},
        dict(axis=0),
        ("ScatterElements", [named, updates], {"axis": 0}),
    )
    yield Case(
        "scattered rows",
        "SCATTER_ND",
        {"input_tensor": deep, "indices_tensor": tuples[None], "updates_tensor": floats(1, 4096, 32)},
        {"output_tensor": np.empty((64, 64, 32), np.float32)},
        dict(input_dimension_count=3, indices_dimension_count=2),
        ("ScatterND", [tuples, floats(4096, 32)], {}),
    )


def _blocks() -> Iterator[Case]:
    image = floats(8, 64, 56, 56)
    for name, sizes, operator in (
        ("DepthToSpace", (8, 16, 112, 112), "DEPTH_TO_SPACE1"),
        ("SpaceToDepth", (8, 256, 28, 28), "SPACE_TO_DEPTH1"),
    ):
        yield Case(
            name,
            operator,
            {"input_tensor": image},
            {"output_tensor": np.empty(sizes, np.float32)},
            dict(block_size=2),
            (name, [], {"blocksize": 2}),
        )
    yield Case(
        "windows of 3 x 3 as columns",
        "UNFOLD",
        {"input_tensor": image},
        {"output_tensor": np.empty((8, 576, 3136), np.float32)},
        dict(window_sizes=(3, 3), strides=(1, 1), dilations=(1, 1), start_padding=(1, 1), end_padding=(1, 1)),
        None,
        lambda torch, x, y: partial(torch.nn.functional.unfold, x[0], 3, padding=1),
    )


def _parts() -> Iterator[Case]:
    image = floats(8, 64, 56, 56)
    yield Case(
        "tiled 4 x 3",
        "TILE",
        {"input_tensor": floats(256, 256)},
        {"output_tensor": np.empty((1024, 768), np.float32)},
        dict(repeats=(4, 3)),
        ("Tile", [np.array([4, 3], np.int64)], {}),
    )
    yield Case(
        "two images joined",
        "JOIN",
        {"input_tensors": [image, image]},
        {"output_tensor": np.empty((8, 128, 56, 56), np.float32)},
        dict(axis=1),
        ("Concat", [image], {"axis": 1}),
        first=image,
    )
    halves = [np.empty((8, 32, 56, 56), np.float32), np.empty((8, 32, 56, 56), np.float32)]
    yield Case(
        "an image split",
        "SPLIT",
        {"input_tensor": image},
        {"output_tensors": halves},
        dict(axis=1),
        ("Split", [np.array([32, 32], np.int64)], {"axis": 1}),
        made=halves,
    )
    yield Case(
        "diagonal of ones, 1024 x 1024",
        "DIAGONAL_MATRIX",
        {},
        {"output_tensor": np.empty((1024, 1024), np.float32)},
        dict(offset=0, value=1.0),
        ("EyeLike", [], {}),
        first=floats(1024, 1024),
    )
    yield Case(
        "every second element of a gradient",
        "SLICE_GRAD",
        {"input_gradient_tensor": floats(8, 64, 28, 28)},
        {"output_gradient_tensor": np.empty_like(image)},
        dict(input_window_offsets=(0,) * 4, input_window_sizes=(8, 64, 56, 56), input_window_strides=(1, 1, 2, 2)),
    )


def _chosen() -> Iterator[Case]:
    classes = positions(1000, 4096)
    values = np.array([0, 1], np.float32)
    yield Case(
        "one hot of 1000, 4096 times",
        "ONE_HOT",
        {"indices_tensor": classes[:, None], "values_tensor": values[None]},
        {"output_tensor": np.empty((4096, 1000), np.float32)},
        dict(axis=1),
        ("OneHot", [np.array([1000], np.int64), values], {"axis": 1}),
        first=classes,
    )
    lengths = positions(128, 64).astype(np.uint32)
    sequences = floats(64, 128, 256)
    for axis in (1, 0):
        x = sequences if axis else sequences.transpose(1, 0, 2).copy()
        given = np.broadcast_to(
            lengths[:, None, None] if axis else lengths[None, :, None], (64, 1, 256) if axis else (1, 64, 256)
        )
        yield Case(
            f"sequences reversed, time is axis {axis}",
            "REVERSE_SUBSEQUENCES",
            {"input_tensor": x, "sequence_lengths_tensor": given},
            {"output_tensor": np.empty_like(x)},
            dict(axis=axis),
            ("ReverseSequence", [lengths.astype(np.int64)], {"batch_axis": 1 - axis, "time_axis": axis}),
        )
    sparse = np.where(np.random.default_rng(2).random((1024, 1024)) < 0.1, floats(1024, 1024), 0).astype(np.float32)
    count = int(np.count_nonzero(sparse))
    yield Case(
        "where a tenth is not 0",
        "NONZERO_COORDINATES",
        {"input_tensor": sparse},
        {"output_count_tensor": np.empty((1, 1), np.uint32), "output_coordinates_tensor": np.empty((1 << 20, 2), np.uint32)},
        {},
        ("NonZero", [], {}),
        made=[np.empty((2, count), np.int64)],
    )
    pooled = floats(8, 64, 28, 28)
    corners = np.arange(64 * 56 * 56).reshape(64, 56, 56)[:, ::2, ::2]
    places = np.stack([corners + b * 64 * 56 * 56 for b in range(8)]).astype(np.uint64)
    yield Case(
        "unpooled to 56 x 56",
        "MAX_UNPOOLING",
        {"input_tensor": pooled, "indices_tensor": places},
        {"output_tensor": np.empty((8, 64, 56, 56), np.float32)},
        {},
        ("MaxUnpool", [places.astype(np.int64)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    )


def _along() -> Iterator[Case]:
    x = floats(1024, 1024)
    for axis in (0, 1):
        yield Case(
            f"largest place along axis {axis}",
            "ARGMAX",
            {"input_tensor": x},
            {"output_tensor": np.empty((1024, 1) if axis else (1, 1024), np.int64)},
            dict(axes=(axis,), axis_direction="INCREASING"),
            ("ArgMax", [], {"axis": axis}),
            _with("argmax", axis, keepdim=True),
        )
        yield Case(
            f"sums so far along axis {axis}",
            "CUMULATIVE_SUMMATION",
            {"input_tensor": x},
            {"output_tensor": np.empty((1024, 1024), np.float32)},
            dict(axis=axis, axis_direction="INCREASING", has_exclusive_sum=False),
            ("CumSum", [np.array(axis, np.int64)], {}),
            _with("cumsum", axis),
        )
    for k in (10, 1024):
        yield Case(
            f"the {k} largest of 1024",
            "TOP_K1",
            {"input_tensor": x},
            {"output_value_tensor": np.empty((1024, k), np.float32), "output_index_tensor": np.empty((1024, k), np.uint32)},
            dict(axis=1, k=k, axis_direction="DECREASING"),
            ("TopK", [np.array([k], np.int64)], {}),
            _with("topk", k, writes=False),
        )
