"""Every operator, compared with DirectML's own list of operators: names, numbers, levels, fields, and supported tensors."""

from __future__ import annotations

import itertools
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from anydml import DataType, DescError, FeatureLevel, TensorDesc, TensorFlags, Violation, check, operators
from anydml.schema.directml import NAMES
from anydml.schema.field import Field
from anydml.schema.operator import Desc, example_desc
from anydml.spelling import snake_case
from every_kernel import Operator, Ran
from tables import OPERATORS, for_each

DOCUMENTED = {o["name"]: o for o in json.loads((Path(__file__).parents[1] / "support" / "operators.json").read_text())}
"""The facts of the header and the pages. A field is required unless "optional", one tensor or value unless "sized_by".

"in_place" says whether the page allows the output to be an input; null if the page does not say.
"""


def test_every_operator_of_the_list_has_its_number() -> None:
    """A new operator of a later header must also be added to `schema/directml.py`."""
    assert [f"DML_OPERATOR_{name}" for name in NAMES] == sorted(DOCUMENTED, key=lambda name: DOCUMENTED[name]["number"])
    assert [o["number"] for o in DOCUMENTED.values()] == list(range(1, len(NAMES) + 1))


@for_each(OPERATORS, at_least=900)
def test_fields_are_those_of_the_documentation(operator: Operator) -> int:
    spec, documented = operator.spec, DOCUMENTED[operator.spec.wire_name]
    assert (spec.number, str(spec.since)) == (documented["number"], documented["level"])
    assert operators.find(spec.wire_name) is operators.find(spec.name) is operator
    told = []
    for f in spec.fields:
        facts: dict[str, Any] = {"name": f.wire, "role": f.role, "type": f.wire_type}
        told.append(facts | ({"optional": True} if f.optional else {}) | ({"sized_by": f.sized_by} if f.sized_by else {}))
    assert told == documented["fields"]
    assert [f.name for f in fields(operator)] == [snake_case(f["name"]) for f in documented["fields"]]
    assert all(f.meaning.endswith(".") for f in spec.fields)
    assert {f.wire for f in spec.inputs} >= set(spec.in_place)
    if spec.inputs:  # FILL_VALUE_SEQUENCE has no inputs
        assert documented["in_place"] in (bool(spec.in_place), None)
    return len(spec.fields)


DATA_TYPES = "UNKNOWN FLOAT32 FLOAT16 UINT32 UINT16 UINT8 INT32 INT16 INT8 FLOAT64 UINT64 INT64 UINT4 INT4"
EXTENSIONS = [  # which DirectML lacks
    ("BFLOAT16", 256), ("FLOAT8_E4M3FN", 257), ("FLOAT8_E5M2", 258), ("FLOAT8_E4M3FNUZ", 259), ("FLOAT8_E5M2FNUZ", 260),
]  # fmt: skip
LEVELS = {
    "1_0": 0x1000, "2_0": 0x2000, "2_1": 0x2100, "3_0": 0x3000, "3_1": 0x3100, "4_0": 0x4000, "4_1": 0x4100, "5_0": 0x5000,
    "5_1": 0x5100, "5_2": 0x5200, "6_0": 0x6000, "6_1": 0x6100, "6_2": 0x6200, "6_3": 0x6300, "6_4": 0x6400,
}  # fmt: skip


def test_the_enumerations_have_their_wire_values() -> None:
    assert [(t.name, t.value) for t in DataType] == [*((name, n) for n, name in enumerate(DATA_TYPES.split())), *EXTENSIONS]
    assert {str(level): level.value for level in FeatureLevel} == LEVELS | {"EXTENDED": 0x10000}
    assert [flag.value for flag in (TensorFlags.NONE, TensorFlags.OWNED_BY_DML)] == [0, 1]


# --- support at each level ---

SIX = "FLOAT32 FLOAT16 INT32 INT16 UINT32 UINT16"
EIGHT, ELEVEN = SIX + " INT8 UINT8", SIX + " INT8 UINT8 FLOAT64 INT64 UINT64"
SLICED, QUANTIZED = "InputTensor OutputTensor", "INT8 UINT8"
MATRICES, SCALES = "ATensor BTensor OutputTensor", "AScaleTensor BScaleTensor OutputScaleTensor"
ZERO_POINTS = "AZeroPointTensor BZeroPointTensor OutputZeroPointTensor"
SUPPORT = {  # operator: (from this level on, these tensors, smallest and largest dimension count, these types)
    "SLICE": (
        ("1_0", SLICED, 4, 5, SIX),
        ("2_1", SLICED, 4, 5, EIGHT),
        ("3_0", SLICED, 1, 8, EIGHT),
        ("4_1", SLICED, 1, 8, ELEVEN),
    ),
    "SLICE1": (("2_1", SLICED, 4, 5, EIGHT), ("3_0", SLICED, 1, 8, EIGHT), ("4_1", SLICED, 1, 8, ELEVEN)),
    "MATRIX_MULTIPLY_INTEGER": (
        ("2_1", "ATensor AZeroPointTensor BTensor BZeroPointTensor", 4, 4, QUANTIZED),
        ("2_1", "OutputTensor", 4, 4, "INT32"),
        ("4_0", "ATensor BTensor BZeroPointTensor", 2, 4, QUANTIZED),
        ("4_0", "AZeroPointTensor", 1, 4, QUANTIZED),
        ("4_0", "OutputTensor", 2, 4, "INT32"),
        ("5_2", "BZeroPointTensor", 1, 4, QUANTIZED),
    ),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": (
        ("2_1", MATRICES, 4, 4, QUANTIZED),
        ("2_1", ZERO_POINTS, 4, 4, QUANTIZED),
        ("2_1", SCALES, 4, 4, "FLOAT32"),
        ("4_0", MATRICES, 2, 4, QUANTIZED),
        ("4_0", ZERO_POINTS, 1, 4, QUANTIZED),
        ("4_0", SCALES, 1, 4, "FLOAT32"),
    ),
}


def violations(desc: Desc, level: FeatureLevel) -> tuple[Violation, ...]:
    try:
        check(desc, level)
    except DescError as error:
        return error.violations
    return ()


def with_tensor(operator: Operator, field: Field, data_type: DataType, count: int) -> Desc:
    """The first example's desc with a tensor of a data type and dimension count in a field."""
    tensor = TensorDesc(data_type, (1,) * count)
    desc = example_desc(operator)
    return replace(desc, **{field.name: (tensor,) * len(getattr(desc, field.name)) if field.sized_by else tensor})


def refused(desc: Desc, field: Field, level: FeatureLevel) -> set[str]:
    """The rules about levels that refuse the tensor in a field."""
    shown = f"{field.wire}[0]" if field.sized_by else field.wire
    return {
        f"{v.constraint} until {v.expected.get('FeatureLevel')}"
        for v in violations(desc, level)
        if v.constraint.endswith("_supported") and {f"{shown}.DimensionCount", f"{shown}.DataType"} & v.values.keys()
    }


@pytest.mark.parametrize("name", SUPPORT)
def test_support_is_that_of_the_documentation(name: str, ran: Ran) -> None:
    """Every data type and dimension count, at every level, in every tensor: accepted, or refused by the rule for it."""
    operator = operators.find(name)
    assert operator is not None
    cases = 0
    takes: dict[str, tuple[int, int, str]] = {}
    every = [(f, n, t, with_tensor(operator, f, t, n)) for f in operator.spec.tensors for n in range(1, 9) for t in NUMBERS]
    for level in FeatureLevel:
        for since, tensors, low, high, types in SUPPORT[name]:
            if since == str(level):
                takes |= dict.fromkeys(tensors.split(), (low, high, types))
        for f, count, data_type, desc in every:
            told = {rule.split()[0] for rule in refused(desc, f, level)}
            low, high, types = takes.get(
                f.wire, (1, 8, f"{ELEVEN} BFLOAT16{EIGHT_BIT_FLOATS}")
            )  # below its first level, only `available` refuses
            if level == FeatureLevel.EXTENDED and f.wire in takes:
                types += " BFLOAT16" * ("FLOAT16" in types.split())
                types += EIGHT_BIT_FLOATS * (f.wire in operator.spec.eight_bit_floats)
            assert ("dimension_count_supported" in told) == (not low <= count <= high), (level, f, count)
            assert ("data_type_supported" in told) == (data_type.name not in types.split()), (level, f, data_type)
            cases += 1
    ran(cases, 16 * 2 * 8 * 12)


EIGHT_BIT_FLOATS = " FLOAT8_E4M3FN FLOAT8_E5M2 FLOAT8_E4M3FNUZ FLOAT8_E5M2FNUZ"
NUMBERS = tuple(t for t in DataType if t not in (DataType.UNKNOWN, DataType.UINT4, DataType.INT4))


@for_each(OPERATORS, at_least=8_000, parts=4)
def test_a_level_that_lacks_something_is_told_the_first_that_has_it(operator: Operator) -> int:
    """Every data type and dimension count in every tensor is refused up to the level that the message names.

    Of levels with equal support, the first and the last are tested.
    """
    cases = 0
    for f in operator.spec.tensors:
        taken = {level: tensors[f.wire] for level, tensors in sorted(operator.spec.table.items())}
        runs = [list(alike) for _, alike in itertools.groupby(taken, taken.__getitem__)]
        levels = sorted({level for run in runs for level in (run[0], run[-1])})
        first = taken[levels[-1]]
        asked: list[tuple[str, DataType, int]] = [("data_type_supported", t, first.dimension_counts[0]) for t in NUMBERS]
        asked += [("dimension_count_supported", first.data_types[0], n) for n in range(1, 9)]
        for rule, data_type, count in asked:
            told: list[str | None] = []
            desc = with_tensor(operator, f, data_type, count)
            for level in levels:
                found = [r for r in refused(desc, f, level) if r.startswith(rule)]
                told.append(found[0] if found else None)
                cases += 1
            until = next((i for i, r in enumerate(told) if r is None), None)
            named = "None" if until is None else str(levels[until])
            assert told[:until] == [f"{rule} until {named}"] * len(told[:until]), (f.wire, data_type, count)
            assert until is None or set(told[until:]) == {None}, "what a level takes, later ones take too"
    assert cases >= 19
    return cases
