"""Operators that move elements, and those that run along an axis, against onnxruntime and torch, on one thread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from anydml import TensorDesc, operators
from benchmarks.onnx_session import session
from benchmarks.timing import best

Array = NDArray[Any]
Call = Callable[[], object]


class Case(NamedTuple):
    """An operator on arrays by the names of its fields.

    node: onnxruntime's operator, the inputs that it takes as such and those that are constants in its model, and attributes.
    torch: what makes torch's call of the inputs and the first output, or None.
    """

    name: str
    operator: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    fields: Mapping[str, Any]
    node: tuple[str, Sequence[Array], Mapping[str, Any]] | None = None
    torch: Callable[[Any, Sequence[Any], Any], Call] | None = None


def floats(*sizes: int) -> Array:
    return np.random.default_rng(0).standard_normal(sizes, np.float32)


def positions(most: int, *sizes: int) -> Array:
    return np.random.default_rng(1).integers(0, most, sizes)


def _with(name: str, first: int, *, writes: bool = True, **others: Any) -> Callable[[Any, Sequence[Any], Any], Call]:
    """torch's function of an input, a number, and the other inputs; writes: into an output that it is given."""

    def call(torch: Any, x: Sequence[Any], y: Any) -> Call:
        return partial(getattr(torch, name), x[0], first, *x[1:], **others, **({"out": y} if writes else {}))

    return call


def cases() -> Iterator[Case]:
    yield from _padded()
    yield from _indexed()
    yield from _blocks()
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
    yield from _normalised()


def _normalised() -> Iterator[Case]:
    for rows, width in ((512, 768), (1024, 768), (128, 4096)):
        x, one = floats(rows, width), np.ones((1, width), np.float32)
        yield Case(
            f"layer normalisation, {rows} x {width}",
            "MEAN_VARIANCE_NORMALIZATION1",
            {"input_tensor": x, "scale_tensor": one, "bias_tensor": one},
            {"output_tensor": np.empty_like(x)},
            dict(axes=(1,), normalize_variance=True, epsilon=1e-5),
            ("LayerNormalization", [one[0], one[0]], {"axis": -1, "epsilon": 1e-5}),
            lambda torch, x, y: partial(torch.nn.functional.layer_norm, x[0], x[0].shape[1:], x[1][0], x[2][0], 1e-5),
        )
    x, factors = floats(1024, 768), np.abs(floats(1, 768)) + 0.5
    yield Case(
        "RMS normalisation, 1024 x 768",
        "MEAN_VARIANCE_NORMALIZATION2",
        {"input_tensor": x, "scale_tensor": factors},
        {"output_tensor": np.empty_like(x)},
        dict(axes=(1,), use_mean=False, use_variance=True, epsilon=1e-5),
        ("SimplifiedLayerNormalization", [factors[0]], {"axis": -1, "epsilon": 1e-5}),
    )
    yield Case(
        "lines by their lengths, 1024 x 768",
        "LP_NORMALIZATION",
        {"input_tensor": x},
        {"output_tensor": np.empty_like(x)},
        dict(axis=1, p=2, epsilon=0.0),
        ("LpNormalization", [], {"axis": -1, "p": 2}),
        lambda torch, x, y: partial(torch.nn.functional.normalize, x[0], 2.0, 1),
    )
    for sizes in ((8, 64, 56, 56), (8, 256, 56, 56)):
        yield from _of_channels(sizes)


def _of_channels(sizes: tuple[int, ...]) -> Iterator[Case]:
    shown = " x ".join(map(str, sizes))
    per_channel = (1, sizes[1], 1, 1)
    image, channel = floats(*sizes), [np.abs(floats(*per_channel)) + 0.5] * 4
    made = {"output_tensor": np.empty_like(image)}
    names = ("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor")
    yield Case(
        f"batch normalisation, {shown}",
        "BATCH_NORMALIZATION",
        {"input_tensor": image} | dict(zip(names, channel, strict=True)),
        made,
        dict(spatial=True, epsilon=1e-5),
        ("BatchNormalization", [c.ravel() for c in channel], {"epsilon": 1e-5}),
    )
    yield Case(
        f"instance normalisation, {shown}",
        "MEAN_VARIANCE_NORMALIZATION1",
        {"input_tensor": image, "scale_tensor": channel[0], "bias_tensor": channel[1]},
        made,
        dict(axes=(2, 3), normalize_variance=True, epsilon=1e-5),
        ("InstanceNormalization", [c.ravel() for c in channel[:2]], {"epsilon": 1e-5}),
    )
    found = {f"output_{name}_tensor": np.empty(per_channel, np.float32) for name in ("mean", "variance")}
    yield Case(
        f"batch normalisation in training, {shown}",
        "BATCH_NORMALIZATION_TRAINING",
        {"input_tensor": image, "scale_tensor": channel[0], "bias_tensor": channel[1]},
        made | found,
        dict(epsilon=1e-5),
        None,
        lambda torch, x, y: partial(torch.native_batch_norm, x[0], x[1].ravel(), x[2].ravel(), None, None, True, 0.1, 1e-5),
    )
    given = dict(zip(names[:3], channel, strict=False))
    gradients = {"output_gradient_tensor": np.empty_like(image)}
    gradients |= {f"output_{name}_gradient_tensor": np.empty(per_channel, np.float32) for name in ("scale", "bias")}
    yield Case(
        f"its gradients, {shown}",
        "BATCH_NORMALIZATION_TRAINING_GRAD",
        {"input_tensor": image, "input_gradient_tensor": image[::-1].copy(), **given},
        gradients,
        dict(epsilon=1e-5),
    )


def run(seconds: float = 0.3) -> list[dict[str, Any]]:
    rows = []
    print(f"{'':44}{'us':>9}{'onnxruntime, x':>16}{'torch, x':>10}  kernel")
    for case in cases():
        rows.append(row := _row(case, seconds))
        ratios = ["-" if row[peer] is None else format(row[peer], ".2f") for peer in ("onnxruntime", "torch")]
        print(f"{case.name:44}{row['microseconds']:>9.1f}{ratios[0]:>16}{ratios[1]:>10}  {row['kernel']}", flush=True)
    return rows


def _row(case: Case, seconds: float) -> dict[str, Any]:
    operator: Any = operators.find(case.operator)
    arrays = {**case.inputs, **case.outputs}
    desc = operator(**{name: TensorDesc.of(x) for name, x in arrays.items()}, **case.fields)
    compiled = dml.Device("cpu", threads=1).compile(desc)
    calls: dict[str, Call] = {"anydml": compiled.bind(**arrays).execute, **_peers(case)}
    # by a clock that stands still while other processes run
    spent = best(calls, seconds=seconds, slow=1.0, clock=time.thread_time)
    ratios = {peer: spent[peer] / spent["anydml"] if peer in spent else None for peer in ("onnxruntime", "torch")}
    return {"case": case.name, "kernel": compiled.kernel_name, "microseconds": spent["anydml"] * 1e6, **ratios}


def _peers(case: Case) -> dict[str, Call]:
    found: dict[str, Call] = {}
    first = next(iter(case.inputs.values()))
    if case.node is not None:
        node, others, attributes = case.node
        constants = {f"c{i}": x for i, x in enumerate(others)}
        outputs = {f"y{i}": np.empty_like(y) for i, y in enumerate(case.outputs.values())}
        if node == "TopK":
            outputs["y1"] = outputs["y1"].astype(np.int64)
        squeezed = node in ("GatherND",)
        outputs = {name: y[0] if squeezed else y for name, y in outputs.items()}
        with contextlib.suppress(ImportError):
            names = ["x", *constants]
            call = session([(node, names, list(outputs), attributes)], {"x": first}, outputs, constants)
            if call is not None:
                found["onnxruntime"] = call
    if case.torch is not None:
        with contextlib.suppress(ImportError):
            import torch

            torch.set_num_threads(1)
            inputs = [torch.from_numpy(x) for x in case.inputs.values()]
            output = torch.from_numpy(np.empty_like(next(iter(case.outputs.values()))))
            found["torch"] = case.torch(torch, inputs, output)
    return found
