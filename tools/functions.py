"""Writes the files that are made from the operator files: eager functions and the table of public names. `make functions`.

A test makes their text again and compares.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from anydml import operators
from anydml.devices.device import Device
from anydml.functional.inference import argument, axis_fields
from anydml.functional.signatures import SPECIAL, Parameter, as_call, outputs_name, parameters
from anydml.schema.desc import AXES
from anydml.schema.formula import formulas, prose
from anydml.schema.kinds import Enumerated
from anydml.schema.operator import Desc, example_desc

SOURCE = Path(__file__).parent.parent / "src" / "anydml"
WIDTH = 120
HEAD = '''"""The eager function of every operator: arrays in, arrays out, sizes inferred, every rule checked.

Made from the operator files by tools/functions.py (`make functions`): change those, not this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.functional import matrix_multiply as _matmuls
from anydml.functional import slice as _slices
from anydml.functional.call import along, call

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from anydml.devices.device import Device
{enumerations}
    from anydml.schema.operator import Desc
    from anydml.tensor import DataType
'''
CATALOG = '''"""Every operator's desc class and eager function, by name; the modules are imported when a name is asked for.

Made from the operator files by tools/functions.py (`make functions`): change those, not this file.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
{imports}

FILES = {{  # desc class -> its file in anydml.operators
{files}
}}
__all__ = [  # written out, for editors that complete names and type checkers; `import *` leaves the builtin `slice` alone
{public}
]
FUNCTIONS = tuple(sorted([*(name for name in __all__ if name not in FILES), "slice"]))
NOT_COMPILED: dict[str, str] = {{{others}}}  # operator -> what computes it; all others are compiled
'''


def files() -> dict[Path, str]:
    """Path -> text of every file that is made."""
    every = operators.every()
    by_name = sorted(every, key=lambda cls: cls.spec.name)
    made = {
        SOURCE / "functional" / "functions.py": "\n\n".join([_head(by_name), *map(function, by_name)]),
        SOURCE / "catalog.py": _catalog(by_name),
    }
    return {path: _linted(text, path) for path, text in made.items()}


def _linted(text: str, path: Path) -> str:
    """The text as `make lint` requires it: formatted, without unused imports."""
    for command in (["check", "--quiet", "--fix", "--select", "F401,I"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, encoding="utf-8").stdout
    return text


def _head(every: list[type[Desc]]) -> str:
    kinds = {f.kind.python for cls in every for f in cls.spec.attributes if isinstance(f.kind, Enumerated)} - {"DataType"}
    listed = "\n".join(f"        {kind}," for kind in sorted(kinds))
    text = f"    from anydml.schema.enumerations import (\n{listed}\n    )" if kinds else ""
    return HEAD.replace("{enumerations}\n", f"{text}\n" if text else "")


def _catalog(every: list[type[Desc]]) -> str:
    imports, rows, functions = [], [], []
    for cls in every:
        name, file = cls.__name__, cls.__module__.rpartition(".")[2]
        imports.append(f"    from anydml.operators.{file} import {name} as {name}")
        rows.append(f'    "{name}": "{file}",')
        functions.append(cls.spec.name.lower())
    listed = "\n".join(f"        {name} as {name}," for name in functions)
    imports.insert(0, f"    from anydml.functional.functions import (\n{listed}\n    )")
    public = {*(cls.__name__ for cls in every), *functions} - {"slice"}
    others = [f'    "{cls.spec.name}": "{by}",' for cls in every if (by := _computed_by(cls)) != "compiled"]
    return CATALOG.format(
        imports="\n".join(imports),
        files="\n".join(rows),
        public="\n".join(f'    "{name}",' for name in sorted(public)),
        others="".join(others),
    )


def _computed_by(cls: type[Desc]) -> str:
    """The kind of kernel that computes an example: "compiled", "NumPy" or "reference", the Python evaluation of formulas."""
    name = Device("cpu").compile(example_desc(cls)).kernel_name
    if name.startswith("copy:"):  # NumPy copies tensors as small as those of examples
        return "compiled"
    return {"numpy": "NumPy"}.get(kind := name.rpartition(":")[2], kind)


def function(cls: type[Desc]) -> str:
    """The definition of an operator's function, and of a tuple for its outputs if there are several."""
    spec = cls.spec
    name, several = spec.name.lower(), len(spec.outputs) > 1
    made = parameters(cls)
    lines, keyword = [], False
    for p in made:
        if p.keyword and not keyword:
            lines.append("    *,")
            keyword = True
        lines.append(f"    {p.name}: {p.type}" + (f" = {p.default}" if p.default is not None else "") + ",")
    returned = outputs_name(cls) if several else "list[NDArray[Any]]" if spec.outputs[0].sized_by else "NDArray[Any]"
    head = [f"def {name}(", *(line.replace("'", '"') for line in lines), f") -> {returned}:"]
    text = "\n".join([*head, textwrap.indent(docstring(cls, made), "    "), *_body(cls, made, several), ""])
    if not several:
        return text
    members = [
        f"    {argument(f)}: {'list[NDArray[Any]]' if f.sized_by else 'NDArray[Any]'}{' | None' if f.optional else ''}"
        for f in spec.outputs
    ]
    return "\n".join(
        [f"class {outputs_name(cls)}(NamedTuple):", f'    """The outputs of `{name}`."""', "", *members, "", "", text]
    )


def _body(cls: type[Desc], made: list[Parameter], several: bool) -> list[str]:
    spec = cls.spec
    if special := SPECIAL.get(spec.name):
        module = "_slices" if special.__module__.endswith("slice") else "_matmuls"
        passed = ", ".join(f"{p.name}={p.name}" if p.keyword else p.name for p in made)
        return _wrapped(f"return {module}.{special.__name__}({passed})")
    names = {p.name for p in made}
    tensors = [argument(f) for f in spec.inputs]
    attributes = [f.name for f in spec.attributes if f.name not in spec.counts]
    attributes = [f"along({name}, axis)" if name == "axes" and "axis" in names else name for name in attributes]
    passed = f'"{spec.name}", {_tuple(tensors)}, {_tuple(attributes)}, out, device'
    passed += "".join(f", {name}={name}" for name in ("output_sizes", "output_data_type") if name in names)
    if several:
        return _wrapped(f"return {outputs_name(cls)}(*call({passed}))")
    kind = "list[NDArray[Any]]" if spec.outputs[0].sized_by else "NDArray[Any]"
    return [*_wrapped(f"result: {kind} = call({passed})"), "    return result"]


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _wrapped(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [f"    {line}"]
    opening, closing = line.index("("), len(line) - 1
    inner = textwrap.wrap(line[opening + 1 : closing], WIDTH - 4, break_on_hyphens=False)
    return [f"    {line[: opening + 1]}", *(f"        {part}" for part in inner), f"    {line[closing:]}"]


def docstring(cls: type[Desc], made: list[Parameter]) -> str:
    """A NumPy-style docstring: what it computes, the formula, parameters, returns, errors, an example, the page."""
    spec = cls.spec
    text = prose(textwrap.dedent("    " + spec.summary).strip())
    newest = example_desc(cls).as_newest()
    lines = [line for f in formulas(newest).values() for line in f.split("\n")]  # further lines define the parts of the first
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
    escaped = "\n\n".join(parts).replace("\\", "\\\\")
    return f'"""{escaped}\n"""'


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
    row = cls.spec.table[max(cls.spec.table)][wire]
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


def main() -> None:
    for path, text in files().items():
        path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
