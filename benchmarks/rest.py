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
    yield from _networks()


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
    normalized, one = floats(512, 768), np.ones((1, 768), np.float32)
    yield Case(
        "layer normalisation, 512 x 768",
        "MEAN_VARIANCE_NORMALIZATION1",
        {"input_tensor": normalized, "scale_tensor": one, "bias_tensor": one},
        {"output_tensor": np.empty((512, 768), np.float32)},
        dict(axes=(1,), normalize_variance=True, epsilon=1e-5),
        ("LayerNormalization", [one[0], one[0]], {"axis": -1, "epsilon": 1e-5}),
        lambda torch, x, y: partial(torch.nn.functional.layer_norm, x[0], (768,), x[1][0], x[2][0], 1e-5),
    )
    image, channel = floats(8, 64, 56, 56), [np.abs(floats(1, 64, 1, 1)) + 0.5] * 4
    names = ("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor")
    yield Case(
        "batch normalisation, 8 x 64 x 56 x 56",
        "BATCH_NORMALIZATION",
        {"input_tensor": image} | dict(zip(names, channel, strict=True)),
        {"output_tensor": np.empty_like(image)},
        dict(spatial=True, epsilon=1e-5),
        ("BatchNormalization", [c.ravel() for c in channel], {"epsilon": 1e-5}),
    )


def _networks() -> Iterator[Case]:
    steps, width, hidden = 64, 256, 256
    gated = (("LSTM", 4, (dml.ActivationSigmoid(), dml.ActivationTanh(), dml.ActivationTanh())),
             ("GRU", 3, (dml.ActivationSigmoid(), dml.ActivationTanh())))  # fmt: skip
    for name, gates, activations in gated:
        weights = [floats(1, gates * hidden, n) / np.float32(np.sqrt(n)) for n in (width, hidden)]
        bias = floats(1, 2 * gates * hidden) / 16
        for batch in (1, 16):
            x = floats(1, steps, batch, width)
            inputs = {"input_tensor": x, "weight_tensor": weights[0][None], "recurrence_tensor": weights[1][None]}
            last = np.empty((1, 1, batch, hidden), np.float32)
            outputs = {"output_sequence_tensor": np.empty((steps, 1, batch, hidden), np.float32), "output_single_tensor": last}
            if name == "LSTM":
                outputs["output_cell_single_tensor"] = np.empty_like(last)
            yield Case(
                f"{name}, {steps} steps of {batch} x {width}",
                name,
                {**inputs, "bias_tensor": bias[None, None]},
                outputs,
                dict(activation_descs=activations, direction="FORWARD"),
                (name, [*weights, bias], {"hidden_size": hidden}),
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
        if node in ("LSTM", "GRU"):  # which have no leading dimension of 1
            first = first[0]
            outputs = {name: y if name == "y0" else y[0] for name, y in outputs.items()}
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
