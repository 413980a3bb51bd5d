"""The rules of every operator: an example breaks only that rule, any desc can be checked, and paths of messages are those
read."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anydml import DataType, DescError, FeatureLevel, Slice1, TensorDesc, Violation, check
from anydml.schema.constraint import Constraint, places
from anydml.schema.operator import Desc, example_desc, rejections
from anydml.schema.tensor_rules import BREAKS, ON_OUTPUTS, TENSOR_RULES
from anydml.spelling import class_name, snake_case
from every_kernel import SOAK, Operator, Ran
from strategies import any_desc
from tables import OPERATORS, for_each
from tensors import SETTINGS

# Hypothesis shows a failing desc together with its operator's whole specification, and then warns that this is long.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

FROM_ROWS = {"dimension_count_supported", "data_type_supported"}  # rules that follow from the support rows


# --- each rule is broken by an example that breaks no other ---


@for_each(OPERATORS, at_least=1_400)
def test_every_rule_has_an_example_that_breaks_exactly_it(operator: Operator) -> int:
    spec = operator.spec
    every = rejections(operator)
    broken = Counter(rejects.constraint for rejects in every)
    available = {"available"} if spec.since > min(FeatureLevel) else set()
    assert set(broken) - FROM_ROWS == {rule.name for rule in spec.rules} | available
    assert max(broken.values()) == 1
    for rejects in every:
        desc = example_desc(operator, rejects.fields)
        with pytest.raises(DescError) as caught:
            check(desc, rejects.at, strict=rejects.strict)
        assert {v.constraint for v in caught.value.violations} == {rejects.constraint}
        for violation in caught.value.violations:
            assert str(violation).startswith(f"{class_name(spec.name)}.{rejects.constraint}")
            assert violation.wire_text().startswith(f"DML_OPERATOR_{spec.name}.{rejects.constraint}")
        if rejects.strict:  # an extension: legal, and listed
            assert {v.constraint for v in check(desc, rejects.at).extensions} == {rejects.constraint}
    assert len(every) >= len(spec.rules)
    return len(every)


def test_every_tensor_rule_has_an_example_that_breaks_exactly_it(ran: Ran) -> None:
    names = {rule.name for rule in TENSOR_RULES}
    assert set(BREAKS) == names
    cases = 0
    for name, t in BREAKS.items():
        on_outputs = name in {rule.name for rule in ON_OUTPUTS}
        for role in ("output_tensor",) if on_outputs else ("input_tensor", "output_tensor"):
            with pytest.raises(DescError) as caught:
                check(one_element_window(min(len(t.sizes), 8), **{role: t}))
            broken = [v for v in caught.value.violations if v.constraint in names]
            assert {v.constraint for v in broken} == {name}
            wire = "InputTensor." if role == "input_tensor" else "OutputTensor."
            for violation in broken:
                assert all(path.startswith(wire) for path in violation.values)
                assert str(violation).startswith(f"Slice1.{name}")
            cases += 1
        if on_outputs and t.data_type.element_bits >= 8:  # inputs may break rules about outputs
            check(one_element_window(len(t.sizes), input_tensor=t))
    ran(cases, 2 * len(names) - len(ON_OUTPUTS))


def one_element_window(rank: int, **tensors: TensorDesc) -> Slice1:
    one = TensorDesc(DataType.FLOAT32, (1,) * rank)
    return Slice1(
        input_tensor=tensors.get("input_tensor", one),
        output_tensor=tensors.get("output_tensor", one),
        input_window_offsets=(0,) * rank,
        input_window_sizes=(1,) * rank,
        input_window_strides=(1,) * rank,
    )


@for_each(OPERATORS, at_least=800)
def test_what_would_fit_fits(operator: Operator) -> int:
    """The valid values that a violation names are tried one by one: each of them must keep the rule."""
    cases = 0
    for rejects in rejections(operator):
        desc = example_desc(operator, rejects.fields)
        for violation in violations(desc, rejects.at, rejects.strict):
            for path, fits in violation.expected.items():
                for value in alternatives(fits):
                    level = value if path == "FeatureLevel" else rejects.at
                    changed = desc if path == "FeatureLevel" else with_value(desc, path, value)
                    if changed is None:
                        continue
                    still = violations(changed, level, rejects.strict)
                    asked = (violation.constraint, violation.dimension, next(iter(violation.values)))
                    assert asked not in [(v.constraint, v.dimension, next(iter(v.values))) for v in still], (path, value)
                    cases += 1
    return cases


def violations(desc: Desc, level: FeatureLevel, strict: bool) -> tuple[Violation, ...]:
    try:
        check(desc, level, strict=strict)
    except DescError as error:
        return error.violations
    return ()


def alternatives(fits: Any) -> list[Any]:
    if isinstance(fits, range):
        return [fits[0], fits[-1]]
    return fits if isinstance(fits, list) else [fits]


def with_value(desc: Desc, path: str, value: Any) -> Desc | None:
    """The desc with another value at a wire path; None if the path is a count that follows from an array."""
    *outer, name = path.split(".")
    name, _, index = name.removesuffix("]").partition("[")
    holder: Any = getattr(desc, snake_case(outer[0])) if outer else desc
    field = snake_case(name)
    if field not in {f.name for f in fields(holder)}:
        return None
    if index:
        there = getattr(holder, field)
        value = (*there[: int(index)], value, *there[int(index) + 1 :])
    changed = replace(holder, **{field: value})
    return replace(desc, **{snake_case(outer[0]): changed}) if outer else changed


# --- any desc can be checked ---


@for_each(OPERATORS, at_least=4 * 44 * SOAK, parts=4)
def test_check_is_total(operator: Operator) -> int:
    refused = 0

    @settings(SETTINGS, max_examples=5 * SOAK)
    @given(any_desc(operator), st.sampled_from(FeatureLevel), st.booleans())
    def judge(desc: Desc, level: FeatureLevel, strict: bool) -> None:
        nonlocal refused
        try:
            checked = check(desc, level, strict=strict)
        except DescError as caught:
            error = caught
        else:
            assert checked.desc is desc
            assert not (strict and checked.extensions)
            return
        refused += 1
        assert error.violations
        assert str(error) == "\n".join(map(str, error.violations))
        assert all(v.wire_text() for v in error.violations)

    judge()
    return refused


# --- each sentence names exactly the fields that its predicate reads ---

READS = {  # the fields that an attribute is computed from, if it is not a field
    "explicit_strides": ("Sizes", "Strides"),
    "span": ("Sizes", "Strides"),
    "element_bytes": ("Sizes", "Strides", "DataType"),
    "smallest_total": ("Sizes", "Strides", "DataType"),
    "total": ("Sizes", "Strides", "DataType", "TotalTensorSizeInBytes"),
}
WIRE = {
    snake_case(name): name
    for name in (
        *("DataType", "Flags", "DimensionCount", "Sizes", "Strides"),
        *("TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment"),
    )
}


class TensorStandIn:
    """A tensor desc that records which of its fields are read, by their wire paths."""

    def __init__(self, tensor: TensorDesc, wire: str, seen: set[str]) -> None:
        self._tensor, self._wire, self._seen = tensor, wire, seen

    def __getattr__(self, name: str) -> Any:
        self._seen |= {self._wire + read for read in READS.get(name) or (WIRE[name],)}
        return getattr(self._tensor, name)


class DescStandIn:
    """An operator's desc that does the same. `asked` has the tensors that were compared with None, too."""

    def __init__(self, desc: Desc, seen: set[str], asked: set[str]) -> None:
        self._desc, self._seen, self._asked = desc, seen, asked
        self._wire = {f.name: f for f in desc.spec.fields}

    def __getattr__(self, name: str) -> Any:
        if name == "spec":
            return self._desc.spec
        f, value = self._wire[name], getattr(self._desc, name)
        if not f.is_tensor:
            self._seen.add(f.wire)
            return value
        self._asked.add(f.wire)
        if value is None:
            return None
        if f.sized_by:
            return tuple(TensorStandIn(t, f.wire + ".", self._seen) for t in value)
        return TensorStandIn(value, f.wire + ".", self._seen)


def ask(rule: Constraint, desc: Any, stand_in: Any, dimensions: int) -> None:
    for at in places(rule, desc, dimensions):
        # the rule cannot be checked for this example
        with contextlib.suppress(IndexError, ValueError, ZeroDivisionError, AttributeError):
            rule.predicate(stand_in, *(() if at is None else (at,)))


@for_each(OPERATORS, at_least=1_300)
def test_each_sentence_names_what_its_predicate_reads(operator: Operator) -> int:
    # a predicate may return early, so all examples are combined
    examples = [operator(**example.fields) for example in operator.spec.examples]
    examples += [example_desc(operator, rejects.fields) for rejects in rejections(operator)]
    for rule in operator.spec.rules:
        seen: set[str] = set()
        asked: set[str] = set()
        for desc in examples:
            dimensions = max((len(t.desc.sizes) for t in desc.tensors()), default=0)
            ask(rule, desc, DescStandIn(desc, seen, asked), dimensions)
        tensors = {f.wire for f in operator.spec.tensors}
        whole = tensors & set(rule.paths)  # tensors that are only compared with None
        assert seen == set(rule.paths) - whole, rule.name
        assert whole <= asked, rule.name
        # for the presence of an optional tensor, a sentence names it or one of its fields
        assert asked <= {path.split(".")[0] for path in rule.paths}, rule.name
    assert operator.spec.rules
    return len(operator.spec.rules)


def test_each_sentence_about_tensors_names_what_its_predicate_reads(ran: Ran) -> None:
    for rule in TENSOR_RULES:
        seen: set[str] = set()
        for tensor in BREAKS.values():
            for at in range(len(tensor.sizes)) if rule.each else (None,):
                with contextlib.suppress(IndexError, ValueError, ZeroDivisionError):
                    rule.predicate(TensorStandIn(tensor, "", seen), *(() if at is None else (at,)))
        assert seen == set(rule.paths), rule.name
    ran(len(TENSOR_RULES), 13)
