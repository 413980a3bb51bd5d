"""Graphs made by calls of functions: they have the bits and the errors of the same calls on arrays, for every operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml import ConstantNode, OperatorNode, TensorDesc, operators
from anydml.functional.inference import argument
from anydml.schema.operator import Desc

REFERENCE = dml.Device("reference")
T = TensorDesc("FLOAT32", (2, 3))
X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


class Call(NamedTuple):
    """An operator's eager call: its function, the arrays and the attributes of its first example."""

    function: Callable[..., Any]
    arrays: dict[str, Any]
    attributes: dict[str, Any]


def call_of(operator: type[Desc]) -> Call | None:
    """The call of the first example with inputs; None if its elements have 4 bits."""
    spec = operator.spec
    example = spec.examples[0]
    desc: Any = operator(**example.fields)
    function = getattr(dml, spec.name.lower())
    names = list(inspect.signature(function).parameters)
    if any(found.desc.data_type.element_bits < 8 for found in desc.tensors()):
        return None
    arrays: dict[str, Any] = {}
    for f in spec.inputs:
        value = getattr(desc, f.name)
        if isinstance(value, tuple):
            arrays[argument(f)] = [laid(x, t) for x, t in zip(example.inputs[f.name], value, strict=True)]
        elif value is not None:
            arrays[argument(f)] = laid(example.inputs[f.name], value)
    attributes = {f.name: getattr(desc, f.name) for f in spec.attributes if f.name in names}
    output = getattr(desc, spec.outputs[0].name)
    one = output[0] if isinstance(output, tuple) else output
    asked = tuple(t.sizes for t in output) if isinstance(output, tuple) else one.sizes
    more = {"output_sizes": asked, "output_data_type": one.data_type}
    return Call(function, arrays, attributes | {name: value for name, value in more.items() if name in names})


def laid(array: Any, t: TensorDesc) -> NDArray[Any]:
    """An example's elements with the strides of its desc."""
    values = np.asarray(array)
    return values if values.shape == t.sizes else values.reshape(t.sizes)


def flat(results: Any) -> list[Any]:
    """All arrays, or all tensors, among the results or arguments of a call."""
    if isinstance(results, (tuple, list)):
        return [x for one in results for x in flat(one)]
    return [] if results is None else [results]


def test_every_operator_is_traced() -> None:
    """In graphs of one node: with all tensors as inputs, and with all but the first as constants."""
    ran = 0
    for operator in operators.every():
        call = call_of(operator)
        if call is None or not call.arrays:
            continue
        wanted = flat(call.function(**call.arrays, **call.attributes, device=REFERENCE))
        given = {f"{name}_{i}": x for name, value in call.arrays.items() for i, x in enumerate(flat(value))}

        def traced(call: Call = call, **tensors: Any) -> Any:
            arguments = {
                name: [tensors[f"{name}_{i}"] for i in range(len(value))] if isinstance(value, list) else tensors[f"{name}_0"]
                for name, value in call.arrays.items()
            }
            return tuple(flat(call.function(**arguments, **call.attributes)))

        for inputs in ([*given], [next(iter(given))]):
            made = dml.graph(traced, **{name: TensorDesc.of(x) if name in inputs else x for name, x in given.items()})
            assert sum(isinstance(node, OperatorNode) for node in made.desc.nodes) == 1, operator
            found = [*made.run({name: given[name] for name in inputs}, REFERENCE).values()]
            for x, y in zip(found, wanted, strict=True):
                assert x.shape == y.shape, operator
                assert x.tobytes() == y.tobytes(), operator
            ran += 1
    assert ran >= 2 * 110


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_network(device: str) -> None:
    """Convolution, activation, a slice of it, a sum with a number, softmax, and an input that is returned unchanged."""
    rng = np.random.default_rng(0)
    w, x = (rng.normal(size=n).astype(np.float32) for n in ((4, 2, 3, 3), (1, 2, 6, 6)))

    def network(x: Any, w: Any, sizes: tuple[int, ...]) -> Any:
        seen = dml.activation_relu(dml.convolution(x, w))
        part = dml.slice1(seen, (0, 0, 0, 0), sizes)
        return {"rows": dml.activation_softmax1(part, axes=(1,)), "more": dml.element_wise_add(seen, 1.0), "x": x}

    with pytest.raises(dml.BindingError, match="x is an input and an output, and arrays are bound by name"):
        dml.graph(network, x=TensorDesc.of(x), w=w, sizes=(1, 4, 2, 2))
    made = dml.graph(
        lambda **given: {f"the_{name}": t for name, t in network(**given).items()}, x=TensorDesc.of(x), w=w, sizes=(1, 4, 2, 2)
    )
    found, wanted = made(x=x), network(x, w, (1, 4, 2, 2))
    assert list(found) == ["the_rows", "the_more", "the_x"]
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[f"the_{name}"], array, strict=True)
    assert [node.name for node in made.desc.nodes if isinstance(node, ConstantNode)] == ["w", ""]


def test_fewer_dimensions_are_those_of_eager_calls() -> None:
    """GEMM takes matrices with two or more dimensions; sizes broadcast, and added leading dimensions are dropped."""
    row = np.array([1, 2, 3], np.float32)
    made = dml.graph(lambda x, y: dml.element_wise_add(x, y), x=T, y=TensorDesc("FLOAT32", (3,)))
    np.testing.assert_array_equal(made(x=X, y=row), X + row, strict=True)
    made = dml.graph(lambda y: dml.activation_softmax(dml.element_wise_exp(y)), y=TensorDesc("FLOAT32", (3,)))
    np.testing.assert_array_equal(made(y=row), dml.activation_softmax(dml.element_wise_exp(row)), strict=True)


def test_strided_and_owned_inputs() -> None:
    """x is every second column of its memory, which has more bytes than needed; w is given once."""
    strided = TensorDesc("FLOAT32", (2, 3), strides=(8, 2), total_tensor_size_in_bytes=64)
    owned = TensorDesc("FLOAT32", (2, 3), flags="OWNED_BY_DML")
    made = dml.graph(lambda x, w: dml.element_wise_multiply(dml.activation_relu(x), w), x=strided, w=owned)
    buffer = np.zeros((2, 8), np.float32)
    buffer[:, :6:2] = X
    z = np.empty((2, 3), np.float32)
    compiled = made.compile()
    compiled.initialize(w=X)
    compiled.bind(x=buffer[:, :6:2], output=z).execute()
    np.testing.assert_array_equal(z, np.maximum(X, 0) * X)
    np.testing.assert_array_equal(made(x=buffer[:, :6:2], w=X), z)


def test_a_constant_is_copied_once() -> None:
    w = X.copy()
    made = dml.graph(lambda x: dml.element_wise_add(dml.element_wise_multiply(x, w), w), x=T)
    w[:] = 0
    assert sum(isinstance(node, ConstantNode) for node in made.desc.nodes) == 1
    np.testing.assert_array_equal(made(x=X), X * X + X)


def test_errors_name_the_line_the_rule_and_the_sizes() -> None:
    def wrong(x: Any, y: Any) -> Any:
        kept = dml.activation_relu(x)
        return dml.gemm(kept, y)  # the line

    with pytest.raises(dml.DescError) as caught:
        dml.graph(wrong, x=T, y=T)
    text = str(caught.value)
    assert text.startswith("Gemm.inner_sizes_match: a.sizes and b.sizes are (2, 3); they must have the same K")
    number = inspect.getsourcelines(wrong)[1] + 2
    assert text.endswith(f"\n    at test_graph_tracing.py:{number}: return dml.gemm(kept, y)  # the line")
    with pytest.raises(dml.BindingError) as refused:
        dml.graph(lambda x, y: dml.element_wise_add(x, y), x=T, y=TensorDesc("FLOAT32", (2, 4)))
    assert "b has shape (2, 4), which does not broadcast with that of a, (2, 3)\n    at test_graph" in str(refused.value)
    assert refused.value.__suppress_context__


def double(x: Any, scale: Any) -> Any:
    return dml.quantized_linear_matrix_multiply(x, scale, None, x, 1.0, None, 1.0, None)


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: dml.graph(lambda x: X, x=T), TypeError, "is not a tensor of the graph|must return its tensors"),
    (lambda: dml.graph(lambda x: (), x=T), TypeError, "must return a tensor of it, or a tuple or dict of them, not "),
    (lambda: dml.graph(lambda x, y: dml.activation_relu(x), x=T, y=T), dml.BindingError, "y is read by no operator"),
    (lambda: dml.graph(lambda x: dml.activation_relu(x, out=X), x=T), dml.BindingError, "out is for arrays"),
    (lambda: dml.graph(lambda x: dml.activation_relu(x, device="cpu"), x=T), dml.BindingError, "device is for arrays"),
    (lambda: dml.graph(lambda x: dml.activation_relu(np.abs(x)), x=T), TypeError, "does not support ufuncs"),
    (lambda: dml.graph(lambda x: bool(x), x=T), TypeError, "has no values while the graph is built"),
    (lambda: dml.graph(lambda x: np.asarray(x), x=T), TypeError, "has no values while the graph is built"),
    (lambda: dml.graph(lambda x: dml.activation_relu(x), x=TensorDesc("INT32", (1,) * 9)), dml.DescError, "must be 1 to 8"),
    (lambda: dml.graph(lambda x: dml.activation_relu(x), x=TensorDesc("FLOAT32", (0,))), dml.DescError, "no dimension"),
    (
        lambda: dml.graph(double, x=TensorDesc("INT8", (2, 2)), scale=TensorDesc("FLOAT64", (1,))),
        dml.BindingError,
        "<GraphTensor scale: FLOAT64 .1,.> would be converted, but has no values",
    ),
    (
        lambda: dml.graph(dml.element_wise_identity, input=TensorDesc("UINT4", (2, 2), strides=(4, 1))),
        dml.BindingError,
        "UINT4 tensor is traced only if packed",
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_cannot_be_traced_is_refused(case: int) -> None:
    build, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        build()


def test_tensors_of_two_graphs_do_not_mix() -> None:
    kept = {}

    def keeping(x: Any) -> Any:
        kept["x"] = x
        return dml.activation_relu(x)

    dml.graph(keeping, x=T)
    with pytest.raises(dml.BindingError, match="is a tensor of another graph"):
        dml.graph(lambda x: dml.element_wise_add(x, kept["x"]), x=T)


def test_a_graph_tensor_says_what_it_is() -> None:
    seen: dict[str, Any] = {}

    def keeping(x: Any) -> Any:
        seen["y"] = dml.element_wise_exp(x)
        return seen["y"]

    dml.graph(keeping, x=T)
    t = seen["y"]
    assert (t.sizes, t.shape, t.ndim, t.dtype, t.data_type) == ((2, 3), (2, 3), 2, np.float32, dml.DataType.FLOAT32)
    assert repr(t) == "<GraphTensor element_wise_exp: FLOAT32 (2, 3)>"


def test_run_takes_inputs_alone() -> None:
    made = dml.graph(lambda x: dml.activation_relu(x), x=T)
    with pytest.raises(dml.BindingError, match="output: is an output of the graph"):
        made.run({"x": X, "output": X})
    with pytest.raises(dml.BindingError, match="x: is missing"):
        made.run({})


def test_a_call_takes_arrays_by_name_or_in_order_and_of_the_inputs_sizes() -> None:
    made = dml.graph(lambda x, y: dml.element_wise_subtract(x, y), x=T, y=T)
    assert np.array_equal(made(X, X + 1), made(x=X, y=X + 1))
    assert np.array_equal(made(X, y=X + 1), np.full((2, 3), -1, np.float32))
    with pytest.raises(TypeError, match=r"the graph takes 2 arrays \(x, y\), not 3"):
        made(X, X, X)
    with pytest.raises(TypeError, match="x is given twice"):
        made(X, x=X)
    for wrong in (np.arange(6, dtype=np.float32), np.arange(9, dtype=np.float32), X.T):
        with pytest.raises(dml.BindingError, match=r"^y has shape \(.*\), where the graph takes \(2, 3\)$"):
            made(X, wrong)
    with pytest.raises(dml.BindingError, match="y: is missing"):
        made(X)
    # memory with the desc's layout
    spread = dml.graph(dml.activation_relu, input=TensorDesc("FLOAT32", (2, 2), strides=(4, 1)))
    assert spread(np.arange(8, dtype=np.float32)).tolist() == [[0, 1], [4, 5]]


def test_operators_of_python_are_told_what_computes() -> None:
    for wrong in (lambda x: x + 1, lambda x: 1 - x, lambda x: x @ x, lambda x: -x, lambda x: x > 0):
        with pytest.raises(
            TypeError, match=r"<GraphTensor x: FLOAT32 \(2, 3\)> has no operators; functions compute, such as dml\."
        ):
            dml.graph(wrong, x=T)
    with pytest.raises(TypeError, match="give a TensorDesc for an argument that is an input"):
        dml.graph(dml.activation_relu, input=X)


def test_tensors_of_graphs_turn_and_are_cut_as_arrays_do() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    same: list[Any] = [
        lambda x: x.reshape(-1), lambda x: x.reshape(2, -1), lambda x: x.reshape((-1, 6)), lambda x: x.reshape(6, 4),
        lambda x: x.reshape([4, 6]), lambda x: x.transpose(), lambda x: x.T, lambda x: x.transpose(1, 0, 2),
        lambda x: x.transpose((2, 0, 1)), lambda x: x.transpose(-1, 0, 1), lambda x: x.T.reshape(x.size),
    ]  # fmt: skip
    for function in same:
        graph = dml.graph(lambda x, function=function: dml.element_wise_negate(function(x)), x=TensorDesc.of(x))
        np.testing.assert_array_equal(graph(x=x), -function(x), strict=True)
    wrong: list[Any] = [
        lambda x: x.reshape(5, -1), lambda x: x.reshape(-1, -1), lambda x: x.reshape(-2, -12), lambda x: x.reshape(0, -1),
        lambda x: x.reshape(7), lambda x: x.transpose(0, 1), lambda x: x.transpose(0, 1, 1), lambda x: x.transpose(0, 1, 3),
        lambda x: x.reshape(), lambda x: x.transpose(0, 1, 2, 2), lambda x: x.transpose(0, 1, -4),
    ]  # fmt: skip
    for function in wrong:
        with pytest.raises(ValueError, match=r"cannot be (reshaped|transposed)"):
            dml.graph(function, x=TensorDesc.of(x))
    for function in (lambda x: x.reshape("2"), lambda x: x.reshape(1.5), lambda x: x.transpose([0.5])):
        with pytest.raises(TypeError, match="takes a sequence of integers"):
            dml.graph(function, x=TensorDesc.of(x))


def test_arrays_of_no_dimension_are_inputs_and_outputs_as_in_calls(tmp_path: Path) -> None:
    def function(x: Any, y: Any) -> Any:
        total = dml.reduce(y, function="SUM", axes=(0,)).reshape(())
        assert (x.shape, x.size, x.T.shape, total.shape) == ((), 1, (), ())
        return dml.element_wise_add(dml.element_wise_exp(x), total), dml.element_wise_multiply(x, y)

    made = dml.graph(function, x=dml.TensorDesc("FLOAT32", ()), y=dml.TensorDesc("FLOAT32", (3,)))
    made.save(tmp_path)
    y = np.array([1, 2, 4], np.float32)
    for graph in (made, dml.Graph.load(tmp_path)):
        for x in (np.float32(2), np.array(2, np.float32), np.array([2], np.float32)):
            total, product = graph(x, y)
            assert (total.shape, product.shape) == ((), (3,))
            eager = dml.element_wise_add(dml.element_wise_exp(np.float32(2)), np.float32(7))
            assert eager.shape == ()
            assert total.tobytes() == eager.tobytes()
            assert product.tolist() == [2, 4, 8]
    with pytest.raises(dml.BindingError, match=r"x has shape \(2,\), where the graph takes \(\)"):
        made(np.zeros(2, np.float32), y)
