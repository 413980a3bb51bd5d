"""Docstrings of eager functions, in NumPy's style, from operator files."""

from __future__ import annotations

import textwrap

from anydml.feature_level import FeatureLevel
from anydml.functional.inference import SPECIAL, argument, axis_fields
from anydml.functional.signatures import Parameter, as_call
from anydml.schema.desc import AXES
from anydml.schema.formula import formulas, prose
from anydml.schema.kinds import Enumerated
from anydml.schema.operator import Desc, example_desc

WIDTH = 120


def docstring(cls: type[Desc], made: list[Parameter]) -> str:
    """A NumPy-style docstring: what it computes, the formula, parameters, returns, errors, an example, the page."""
    spec = cls.spec
    text = prose(textwrap.dedent("    " + spec.summary).strip())
    newest = example_desc(cls).as_newest()
    lines = [line for f in formulas(newest).values() for line in f.split("\n")]  # the second one says what a letter stands for
    formula = [textwrap.fill(line, WIDTH - 8, subsequent_indent="    ") for line in lines]
    parts = [text, textwrap.indent("\n".join(formula), "    "), "Parameters\n----------"]
    parts[-1] += "".join(f"\n{_entry(cls, p)}" for p in made)
    parts.append("Returns\n-------\n" + "\n".join(_returned(cls)))
    errors = [
        ("BindingError", "Arguments do not fit one another, or DirectML has no tensors of an array's type or dimension count."),
        ("DescError", "A documented rule of the operator is broken."),
    ]
    if spec.data_rules:
        errors.append(("DataError", " ".join(rule.sentence.replace("`", "") for rule in spec.data_rules)))
    raises = "\n".join(f"{kind}\n{_meaning(meaning)}" for kind, meaning in errors)
    parts.append(f"Raises\n------\n{raises}")
    call = as_call(cls, spec.examples[0])
    parts.append(f"Notes\n-----\nDirectML's page: <{spec.page}>")
    parts.append(f"Examples\n--------\n{call.session}")
    return "\n\n".join(parts)


def _meaning(text: str) -> str:
    return textwrap.fill(text, WIDTH - 4, initial_indent="    ", subsequent_indent="    ")


def _entry(cls: type[Desc], p: Parameter) -> str:
    kind = p.type.removesuffix(" | None")
    said = "optional" if p.default == "None" else "" if p.default is None else f"default {p.default}".replace("'", '"')
    if p.name == "out":
        text = "An array for the result, with its sizes and data type. By default, a new one."
    elif p.name == "device":
        text = 'A device, or "cpu" or "reference". By default, the cpu.'
    elif p.name == "axis" and p.field is None:
        text = "A single axis."
    elif p.name == "output_sizes":
        text = "The sizes of the output, which the inputs do not determine." if p.default is None else "The output's sizes."
    elif p.name == "output_data_type":
        optional = p.default is not None and cls.spec.name not in SPECIAL
        text = f"The data type of the output{', if no input determines it' if optional else ''}."
    else:
        assert p.field is not None, (cls, p)
        text = prose(p.field.meaning)
        if p.field.wire in axis_fields(cls.spec):
            text += " Negative ones count from the end." if p.field.sized_by else " A negative one counts from the end."
        if (vector := cls.vectors.get(p.field.name)) is not None:
            text += f" A vector lies along the {'axis if there is one, else the ' if vector == AXES else ''}channel."
        if p.field.is_tensor:
            text += f" {_takes(cls, p.field.wire)}"
        elif p.field.name in cls.eager:
            text += f" By default, {cls.eager[p.field.name][0]}."
        elif p.field.kind is not None and isinstance(p.field.kind, Enumerated) and p.field.kind.python != "DataType":
            text += f" One of {', '.join(p.field.kind.enumeration.__members__)}."
    return f"{p.name} : {kind}{', ' if said else ''}{said}\n{_meaning(text)}"


def _takes(cls: type[Desc], wire: str) -> str:
    row = cls.spec.table[FeatureLevel.FL_6_4][wire]
    least, most = row.dimension_counts[0], row.dimension_counts[-1]
    counts = f"{least}" if least == most else f"{least} to {most}"
    types = [t.name.lower() for t in row.data_types]
    types += ["bool"] * any(f.wire == wire and f.truth for f in cls.spec.inputs)
    return f"{counts} dimensions of {', '.join(types[:-1])}{' or ' if types[1:] else ''}{types[-1]}."


def _returned(cls: type[Desc]) -> list[str]:
    lines = []
    for f in cls.spec.outputs:
        kind = "list of arrays" if f.sized_by else "array"
        lines += [
            f"{argument(f)} : {kind}{' or None' if f.optional else ''}",
            _meaning(f"{prose(f.meaning)} {_takes(cls, f.wire)}"),
        ]
    return lines
