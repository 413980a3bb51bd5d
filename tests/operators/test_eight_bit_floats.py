"""8-bit floats, which DirectML lacks: in operators that move elements, in CAST, QUANTIZE and DEQUANTIZE, beside the oracle."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import hostile_data
from agreement import SOAK, computed, expected
from anydml import DataType, FeatureLevel, TensorDesc, operators
from anydml.kernels.code import targets
from anydml.schema.field import INPUT, OUTPUT
from anydml.schema.operator import Desc
from anydml.tensor import EIGHT_BIT_FLOATS
from every_kernel import Ran, run
from extended_types import with_type
from pages import examples_run
from tensors import bound_as

ISAS = [target.name for target in targets.targets()]
E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ = (np.dtype(t.name.lower()) for t in EIGHT_BIT_FLOATS)
OPERATORS = [
    o
    for o in operators.every()
    if any(DataType.FLOAT8_E5M2 in s.data_types for s in o.spec.table[FeatureLevel.EXTENDED].values())
]
OTHERS = [t for t in DataType if t not in (DataType.UNKNOWN, *EIGHT_BIT_FLOATS) and t.element_bits >= 8]


def values(desc: Desc, t: TensorDesc, wire: str, rng: np.random.Generator) -> NDArray[np.generic]:
    """The elements of an input as they are bound, of which none breaks a rule; 8-bit floats have any bits."""
    if t.data_type in EIGHT_BIT_FLOATS:
        return rng.integers(0, 256, t.sizes, np.uint8)
    with np.errstate(all="ignore"):
        made = hostile_data.values(t.data_type.name, t.sizes, rng, hostile_data.KINDS[rng.integers(len(hostile_data.KINDS))])
        for rule in desc.spec.data_rules:
            for fit in (1, 0, 2) if wire in rule.tensors else ():
                made[rule.breaks(desc, made)] = fit
    return made.view(bound_as(t))


def compared(desc: Desc, inputs: dict[str, Any], isa: str) -> int:
    """The number of outputs, all of which have the oracle's bits."""
    device = dml.Device(isa=isa, feature_level="EXTENDED")
    compiled = device.compile(desc)
    assert compiled.kernel_name != "reference", desc
    tensors = [t for t in desc.tensors() if t.field.role == OUTPUT]
    made = {t.name: np.zeros(t.desc.sizes, bound_as(t.desc)) for t in tensors}
    run(compiled, inputs, made)
    count = 0
    for n, x in expected(desc, inputs).items():
        assert np.array_equal(x.view(f"u{x.itemsize}"), made[n].view(f"u{x.itemsize}")), f"{n}, {compiled.kernel_name}: {desc}"
        count += x.size
    return count


def test_every_operator_is_exact(ran: Ran) -> None:
    """Operators that move elements, CAST to integers, DEQUANTIZE, and QUANTIZE whose output has the type."""
    outputs = 0
    assert len(OPERATORS) == 30
    for number, operator in enumerate(OPERATORS):
        for turn, data_type in enumerate(EIGHT_BIT_FLOATS * SOAK):
            if SOAK == 1 and turn % 2 != number % 2:
                continue
            desc = with_type(operator, data_type, f"{operator.spec.name} {turn}")
            if operator is dml.Quantize:
                desc = _quantize(data_type, (3, 8), 1 + turn % 2)
            assert desc is not None, operator
            rng = np.random.default_rng([number, turn])
            inputs = {t.name: values(desc, t.desc, t.field.wire, rng) for t in desc.tensors() if t.field.role == INPUT}
            outputs += compared(desc, inputs, ISAS[(number + turn) % len(ISAS)])
    ran(outputs, 2000)


def _quantize(data_type: DataType, sizes: tuple[int, ...], count: int) -> Desc:
    parts = (TensorDesc("float32", sizes), TensorDesc(data_type, sizes))[:count]
    return dml.Quantize(
        input_tensor=TensorDesc("float32", sizes),
        quantization_type=count,  # type: ignore[arg-type]  # as its wire value
        quantization_tensor_count=count,
        quantization_tensors=parts,
        output_tensor=TensorDesc(data_type, sizes),
    )


def ties(data_type: DataType, dtype: np.dtype[Any]) -> NDArray[Any]:
    """All numbers of a type, the numbers in the middle between neighbours, and their neighbours in another float type."""
    numbers = np.arange(256, dtype=np.uint8).view(data_type.name.lower()).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    largest, step = numbers[-1], numbers[-1] - numbers[-2]
    numbers = np.concatenate([numbers, [largest + step / 2, largest + step, -largest - step / 2]])
    with np.errstate(over="ignore"):
        at = np.unique(np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2]).astype(dtype))
    bits = at.view(f"u{dtype.itemsize}")
    beside = [(bits + bits.dtype.type(k)).view(dtype) for k in (0, 1, -1 % 2 ** (8 * dtype.itemsize))]
    return np.concatenate([*beside, np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)])


def test_casts_are_exact(ran: Ran) -> None:
    """Every element to other types; of others, ties, the elements next to them, and limits; all pairs in `make soak`."""
    outputs = 0
    for number, data_type in enumerate(EIGHT_BIT_FLOATS):
        for turn, other in enumerate([*OTHERS, *(t for t in EIGHT_BIT_FLOATS if t != data_type)]):
            if SOAK == 1 and turn % 4 != number:
                continue
            isas = ISAS if SOAK > 1 else [ISAS[(number + turn) % len(ISAS)]]
            every = np.arange(256, dtype=np.uint8)
            dtype = np.dtype(other.name.lower())
            if other in EIGHT_BIT_FLOATS:
                given = every
            elif other.is_float:
                given = ties(data_type, dtype)
            else:
                given = hostile_data.values(other.name, 200, np.random.default_rng(turn), "ties")
            for x, source, target in ((every, data_type, other), (given, other, data_type)):
                desc = dml.Cast(input_tensor=TensorDesc(source, x.shape), output_tensor=TensorDesc(target, x.shape))
                inputs = {"input_tensor": x.view(source.dtype)}
                outputs += sum(compared(desc, inputs, isa) for isa in isas)
                made = computed(desc, inputs)["output_tensor"]
                assert made.tobytes() == expected(desc, inputs)["output_tensor"].tobytes()
    ran(outputs, 8000)


def test_quantisation_is_exact(ran: Ran) -> None:
    outputs = 0
    for number, data_type in enumerate(EIGHT_BIT_FLOATS):
        for turn, isa in enumerate(ISAS):
            if SOAK == 1 and turn % 2 != number % 2:
                continue
            rng = np.random.default_rng([number, turn])
            x = ties(data_type, np.dtype(np.float32))
            scale = rng.choice([1, 1, 0.5, 3, 0.1, -2, np.inf, np.nan], x.shape).astype(np.float32)
            desc = _quantize(data_type, x.shape, 1 + turn % 2)
            zeros = rng.choice([0, 0x80, *range(256)], x.shape).astype(np.uint8)
            arrays = {"input_tensor": x, "quantization_tensors[0]": scale, "quantization_tensors[1]": zeros}
            inputs = {t.name: arrays[t.name] for t in desc.tensors() if t.field.role == INPUT}
            outputs += compared(desc, inputs, isa)
            back = dml.Dequantize(
                input_tensor=desc.output_tensor,  # type: ignore[attr-defined]
                quantization_type=1 + turn % 2,  # type: ignore[arg-type]  # as its wire value
                quantization_tensor_count=1 + turn % 2,
                quantization_tensors=desc.quantization_tensors,  # type: ignore[attr-defined]
                output_tensor=desc.input_tensor,  # type: ignore[attr-defined]
            )
            outputs += compared(back, inputs | {"input_tensor": zeros}, isa)
    ran(outputs, 2000)


def test_levels_below_do_not_have_them() -> None:
    x = np.ones(3, E4M3FN)
    with pytest.raises(dml.BindingError, match="EXTENDED takes float8_e4m3fn"):
        dml.cast(x, "float32")
    with pytest.raises(dml.BindingError, match="is float8_e4m3fn; feature level EXTENDED takes float32, float16 or bfloat16"):
        dml.element_wise_exp(x, device=dml.Device(feature_level="EXTENDED"))


def test_calls_and_graphs_take_arrays_of_ml_dtypes() -> None:
    device = dml.Device(feature_level="EXTENDED")
    x = np.array([[1.06, 449, -470], [np.inf, np.nan, -0.0]], np.float32)
    assert dml.cast(x, "float8_e4m3fn", device=device).astype(np.float32).tolist()[0][:2] == [1, 448]
    assert dml.cast(x, "float8_e4m3fn", device=device).view(np.uint8).tolist() == [[0x38, 0x7E, 0x7F], [0x7F, 0x7F, 0x80]]
    assert dml.cast(x, "float8_e5m2fnuz", device=device).view(np.uint8)[1].tolist() == [0x80, 0x80, 0]
    graph = dml.graph(
        lambda x: dml.cast(dml.element_wise_clip(x, min=-448, max=448), "float8_e4m3fn"), x=TensorDesc("float32", x.shape)
    )
    saturated = graph.run({"x": x}, device=device)["output"]
    assert saturated.dtype == E4M3FN
    assert saturated.view(np.uint8).tolist() == [[0x38, 0x7E, 0xFE], [0x7E, 0x7F, 0x80]]
    with pytest.raises(dml.Error, match="feature level EXTENDED"):
        graph.run({"x": x})
    y = dml.quantize(x, [np.full((1, 1), 2, np.float32)], output_data_type="float8_e5m2", device=device)
    assert np.array_equal(y.view(np.uint8), (x / 2).clip(-57344, 57344).astype(E5M2).view(np.uint8))
    assert np.array_equal(
        dml.dequantize(y, [np.full((1, 1), 2, np.float32)], device=device), 2 * y.astype(np.float32), equal_nan=True
    )
    joined = dml.join([y, y[:, ::-1]], axis=1, device=device)
    assert np.array_equal(joined.view(np.uint8), np.concatenate([y, y[:, ::-1]], 1).view(np.uint8))


@pytest.mark.parametrize(
    ("data_type", "shown"), [("FLOAT8_E4M3FN", "1, nan, -0, 0.005859375"), ("BFLOAT16", "1.0625, 470, -0, 0.006011963")]
)
def test_programs_give_and_print_their_numbers(data_type: str, shown: str) -> None:
    def tensor(name: str) -> dict[str, Any]:
        return {"DataType": name, "Sizes": [4]}

    desc = {"InputTensor": tensor("FLOAT32"), "OutputTensor": tensor(data_type)}
    document = {
        "resources": {
            "x": {"initialValuesDataType": "FLOAT32", "initialValues": [1.06, 470.5, -0.0, 0.006]},
            "y": {"initialValuesDataType": data_type, "initialValues": [1.5, "nan", 0.3, -2]},
        },
        "dispatchables": {"cast": {"type": "DML_OPERATOR_CAST", "desc": desc}},
        "commands": [
            {"type": "print", "resource": "y"},
            {"type": "dispatch", "dispatchable": "cast", "bindings": {"InputTensor": "x", "OutputTensor": "y"}},
            {"type": "print", "resource": "y"},
        ],
    }
    out = io.StringIO()
    dml.program.load(io.StringIO(json.dumps(document))).run(dml.Device(feature_level="EXTENDED"), out=out)
    first, second = (line for line in out.getvalue().splitlines() if line.startswith("Resource"))
    assert first.startswith("Resource 'y': 1.5, nan, 0.3")
    assert second == f"Resource 'y': {shown}"


def test_the_page_shows_what_its_code_prints() -> None:
    assert examples_run("eight-bit-floats.md") == 2
