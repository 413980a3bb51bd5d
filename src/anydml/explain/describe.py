"""`describe`: the contents of an operator's file as plain data (for JSON), as Markdown and as text.

The messages shown are those that `check` gives for the examples that break the rules.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.devices.device import Device
from anydml.errors import DataError, DescError, Violation
from anydml.functional.signatures import as_call
from anydml.operators import PREFIX
from anydml.schema.check import check
from anydml.schema.constraint import Constraint, DataRule
from anydml.schema.formula import formulas, prose
from anydml.schema.kinds import FLOAT
from anydml.schema.operator import Desc, Example, Rejects, example_desc, rejections
from anydml.schema.support import LEVEL_RULES
from anydml.schema.tensor_rules import BREAKS, ON_OUTPUTS, TENSOR_RULES, broken
from anydml.spelling import class_name
from anydml.tensor import TensorDesc, TensorFlags

Facts = dict[str, Any]


def plain(value: Any) -> Any:
    """A value of a desc or of a violation as JSON: enumerations by name, ranges by their ends, names in wire spelling."""
    if isinstance(value, range):
        return {"minimum": value[0], "maximum": value[-1]}
    if isinstance(value, enum.Enum):
        return value.name.removeprefix("FL_") if value.name else int(value.value)
    if isinstance(value, TensorDesc):
        return _tensor(value)
    if isinstance(value, Desc):
        return plain({"Type": value.spec.wire_name, **value.document()})
    if isinstance(value, float) and not math.isfinite(value):
        return FLOAT.json(value)
    if isinstance(value, np.ndarray):
        return plain(value.tolist()) if value.dtype != np.float32 else _float32(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _float32(array: NDArray[Any]) -> Any:
    """Nested lists of the shortest numbers that round to these float32: 0.0066, not 0.006599999964237213."""
    return [_float32(row) for row in array] if array.ndim > 1 else [plain(float(str(x))) for x in array]


def _tensor(t: TensorDesc) -> Facts:
    members: Facts = {"DataType": t.data_type.name, "Sizes": list(t.sizes)}
    if t.strides is not None:
        members["Strides"] = list(t.strides)
    if t.flags is not TensorFlags.NONE:
        members["Flags"] = t.flags.name
    if t.total_tensor_size_in_bytes:
        members["TotalTensorSizeInBytes"] = t.total_tensor_size_in_bytes
    if t.guaranteed_base_offset_alignment:
        members["GuaranteedBaseOffsetAlignment"] = t.guaranteed_base_offset_alignment
    return members


def describe(operator: type[Desc]) -> Facts:
    """Everything about an operator as data that JSON can hold, in the order of its documentation page."""
    spec = operator.spec
    return {
        "operator": spec.wire_name,
        "number": spec.number,
        "since": str(spec.since),
        "python": class_name(spec.name),
        "function": spec.name.lower(),
        "page": spec.page,
        "summary": "\n".join(line.strip() for line in spec.summary.splitlines()),
        "formulas": list(formulas(example_desc(operator).as_newest()).values()),
        "fields": [
            {
                "name": f.wire,
                "python": f.name,
                "role": f.role,
                "type": f.wire_type,
                "optional": f.optional,
                "sized_by": f.sized_by,
                "meaning": f.meaning,
            }
            for f in spec.fields
        ],
        "support": [
            {
                "since": str(row.level),
                "tensors": list(row.tensors),
                "dimension_counts": plain(row.dimension_counts),
                "data_types": plain(row.data_types),
            }
            for row in spec.rows
        ],
        "constraints": _constraints(operator),
        "tensor_constraints": [_tensor_constraint(operator, rule) for rule in TENSOR_RULES],
        "data_rules": [_data_rule(operator, rule) for rule in spec.data_rules],
        "errata": list(spec.errata),
        "examples": [_example(operator, example) for example in spec.examples],
    }


def _by_wire_name(operator: type[Desc], fields: Mapping[str, Any]) -> Facts:
    """Field values under their wire names, in the page's order, without those not given."""
    return {f.wire: plain(fields[f.name]) for f in operator.spec.fields if fields.get(f.name) is not None}


def _constraints(operator: type[Desc]) -> list[Facts]:
    breaking = {example.constraint: example for example in rejections(operator)}
    rules = {rule.name: rule for rule in operator.spec.rules}
    # rules about feature levels follow from the file's rows and are not in its rules; only the examples name them
    return [_constraint(operator, breaking[name], rules.get(name)) for name in dict.fromkeys((*breaking, *rules))]


def _constraint(operator: type[Desc], breaking: Rejects, rule: Constraint | None) -> Facts:
    violation = _violation(operator, breaking)
    return {
        "id": violation.constraint,
        "sentence": LEVEL_RULES.get(violation.constraint, violation.sentence),
        "each": rule and rule.each,
        "extension": rule is not None and rule.extension,
        "example": {
            "changes": _by_wire_name(operator, breaking.fields),
            "feature_level": str(breaking.at),
            "strict": breaking.strict,
            "message": violation.wire_text(),
        },
    }


def _violation(operator: type[Desc], breaking: Rejects) -> Violation:
    """The violation by an example, which breaks exactly one rule."""
    try:
        check(example_desc(operator, breaking.fields), breaking.at, strict=breaking.strict)
    except DescError as error:
        return error.violations[0]
    raise AssertionError(f"the example for {breaking.constraint} breaks nothing")


def _tensor_constraint(operator: type[Desc], rule: Constraint) -> Facts:
    fields = operator.spec.outputs if rule in ON_OUTPUTS else operator.spec.tensors
    field, tensor = fields[0], BREAKS[rule.name]
    found, dimension = next(broken(tensor, field.role))
    return {
        "id": rule.name,
        "sentence": rule.sentence,
        "each": rule.each,
        "outputs_only": rule in ON_OUTPUTS,
        "example": {
            "tensor": plain(tensor),
            "message": found.violation(operator.spec.name, tensor, dimension, within=field.wire).wire_text(),
        },
    }


def _data_rule(operator: type[Desc], rule: DataRule) -> Facts:
    """A rule about values, with the message for the first of 0, NaN and infinity that breaks it in the first example."""
    example, field = operator.spec.examples[0], next(f for f in operator.spec.inputs if f.wire == rule.tensors[0])
    data = example.inputs[field.name]
    limits = (0.0, np.nan, np.inf) if data.dtype.kind == "f" else (np.iinfo(data.dtype).max, np.iinfo(data.dtype).min)
    desc = example_desc(operator)
    value = next(v for x in limits if rule.breaks(desc, v := np.full_like(data, x)).any())
    outputs = {name: np.empty_like(array) for name, array in example.outputs.items()}
    arrays = {**example.inputs, field.name: value, **outputs}
    message = ""
    try:
        Device("reference").compile(example_desc(operator)).bind(**arrays).execute()
    except DataError as error:
        message = str(error)
    return {"id": rule.name, "sentence": rule.sentence, "tensors": list(rule.tensors), "example": {"message": message}}


def _example(operator: type[Desc], example: Example) -> Facts:
    return {
        "title": example.title,
        "desc": _by_wire_name(operator, vars(operator(**example.fields))),
        "inputs": _by_wire_name(operator, example.inputs),
        "outputs": _by_wire_name(operator, example.outputs),
        "call": _call(operator, example),
    }


def _call(operator: type[Desc], example: Example) -> str | None:
    """The example at Python's prompt; None if its desc has something that a call cannot express, such as strides."""
    try:
        return as_call(operator, example).session.replace("<BLANKLINE>", "")
    except ValueError:
        return None


def _type(field: Facts) -> str:
    array = f"[{field['sized_by']}]" if field["sized_by"] else ""
    return f"{field['type']}{array}{', optional' if field['optional'] else ''}"


def _counts(row: Facts) -> str:
    least, most = row["dimension_counts"]["minimum"], row["dimension_counts"]["maximum"]
    return str(least) if least == most else f"{least} to {most}"


def _notes(rule: Facts) -> str:
    notes = (f"each {rule['each']}", rule["each"]), ("extension: only if strict", rule.get("extension"))
    return "".join(f" ({note})" for note, holds in (*notes, ("outputs", rule.get("outputs_only"))) if holds)


def _members(members: Facts) -> str:
    """A JSON object with one line for each member, to read and to paste into a program."""
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in members.items()) + "\n}"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    cells = [list(head), *(list(row) for row in rows)]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
    return [lines[0], "|" + " --- |" * len(cells[0]), *lines[1:], ""]


def markdown(facts: Facts) -> str:
    """The reference page of an operator."""
    lines = [f"# {facts['operator'].removeprefix(PREFIX)}", "", prose(facts["summary"]), ""]
    lines += ["```text", *facts["formulas"], "```", ""]
    if call := next((example["call"] for example in facts["examples"] if example["call"]), None):
        lines += ["```python", call, "```", ""]
    lines += [
        f"`anydml.{facts['function']}` is the function, `anydml.{facts['python']}` the desc of `{facts['operator']}`, operator "
        f"{facts['number']}, from feature level {facts['since']}: [DirectML's page]({facts['page']}).",
        "",
        "## Fields",
        "",
    ]
    lines += _table(
        ("Field", "In Python", "Role", "Type", "Meaning"),
        ((f"`{f['name']}`", f"`{f['python']}`", f["role"], _type(f), prose(f["meaning"])) for f in facts["fields"]),
    )
    lines += ["## Supported", "", "A row applies until a later row of the same tensor.", ""]
    lines += _table(
        ("From level", "Tensors", "Dimensions", "Data types"),
        ((r["since"], ", ".join(r["tensors"]), _counts(r), ", ".join(r["data_types"])) for r in facts["support"]),
    )
    lines += ["## Rules", "", "Each with changes to the first example that break it, and the message that they give.", ""]
    for rule in facts["constraints"]:
        lines += [f"### `{rule['id']}`", "", prose(rule["sentence"]) + _notes(rule), ""]
        example = rule["example"]
        if example["changes"]:
            lines += ["```json", _members(example["changes"]), "```", ""]
        lines += [f"At feature level {example['feature_level']}{', strict' if example['strict'] else ''}:", ""]
        lines += ["```text", example["message"], "```", ""]
    if facts["data_rules"]:
        lines += ["## Rules about values", "", "Judged when the values are seen, before any byte of the output is written.", ""]
        for rule in facts["data_rules"]:
            lines += [f"### `{rule['id']}`", "", f"{', '.join(f'`{t}`' for t in rule['tensors'])}: {rule['sentence']}", ""]
            lines += ["```text", rule["example"]["message"], "```", ""]
    lines += ["## Rules of every tensor", ""]
    lines += [f"- `{rule['id']}`: {rule['sentence']}{_notes(rule)}" for rule in facts["tensor_constraints"]]
    lines += ["", "## Errata of the documentation", "", *(f"- {prose(erratum)}" for erratum in facts["errata"])]
    lines += ["", "## Examples", ""]
    for example in facts["examples"]:
        lines += [f"### {example['title']}", "", "```json", _members(example["desc"]), "```", "", "```text"]
        lines += [f"{name}: {json.dumps(values)}" for role in ("inputs", "outputs") for name, values in example[role].items()]
        lines += ["```", ""]
        if example["call"]:
            lines += ["```python", example["call"], "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def text(facts: Facts) -> str:
    """A shorter page for a terminal: headings at the margin, everything else indented."""
    width = max(len(f["name"]) for f in facts["fields"])
    kinds = max(len(_type(f)) for f in facts["fields"])
    names = f"anydml.{facts['function']} and anydml.{facts['python']}"
    lines = [f"{facts['operator']} ({facts['number']}, from feature level {facts['since']}; {names} in Python)"]
    lines += [f"  {line}" if line else "" for line in facts["summary"].splitlines()]
    lines += ["", *(f"  {formula}" for formula in facts["formulas"])]
    lines += ["", "Fields"]
    lines += [f"  {f['name']:{width}}  {f['role']:9}  {_type(f):{kinds}}  {f['meaning']}" for f in facts["fields"]]
    lines += ["", "Supported"]
    for row in facts["support"]:
        lines += [f"  {row['since']}: {', '.join(row['tensors'])}: {_counts(row)} dimensions of {' '.join(row['data_types'])}"]
    lines += ["", "Rules, and the messages for breaking them"]
    for rule in facts["constraints"]:
        lines += [f"  {rule['id']}{_notes(rule)}: {rule['sentence'].replace('`', '')}"]
        lines += [f"      {line.strip()}" for line in rule["example"]["message"].partition(": ")[2].splitlines()]
    lines += [f"  {r['id']} (values): {', '.join(r['tensors'])}: {r['sentence']}" for r in facts["data_rules"]]
    lines += ["", "Rules of every tensor"]
    lines += [f"  {rule['id']}{_notes(rule)}: {rule['sentence'].replace('`', '')}" for rule in facts["tensor_constraints"]]
    lines += ["", "Errata of the documentation", *(f"  {erratum}" for erratum in facts["errata"]), "", "Examples"]
    lines += [f"  {example['title']}" for example in facts["examples"]]
    return "\n".join(lines) + "\n"
