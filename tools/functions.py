"""Writes what is made from the operator files: signatures of eager functions, the table of public names. `make functions`.

A test makes their text again and compares.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from anydml import operators
from anydml.devices.device import Device
from anydml.functional.definition import head
from anydml.functional.documentation import docstring
from anydml.functional.inference import outputs_name, outputs_type
from anydml.functional.signatures import parameters
from anydml.schema.kinds import Enumerated
from anydml.schema.operator import Desc, example_desc

SOURCE = Path(__file__).parent.parent / "src" / "anydml"
HEAD = '''"""The signatures of the eager functions. Their whole docstrings, which `help` shows, are made at run time.

Made from the operator files by tools/functions.py (`make functions`): change those, not this file.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

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
        SOURCE / "functional" / "functions.pyi": "\n\n".join([_head(by_name), *map(function, by_name)]),
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
    listed = "\n".join(f"    {kind}," for kind in sorted(kinds))
    text = f"from anydml.schema.enumerations import (\n{listed}\n)" if kinds else ""
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
    """The signature of an operator's function with the beginning of its docstring, and the class of several outputs."""
    made = parameters(cls)
    told = [p for p in made if p.name not in ("out", "device")]  # which are the same everywhere
    beginning = docstring(cls, told).partition("\n\nReturns\n")[0].replace("\\", "\\\\")
    text = f"{head(cls, made)}\n" + textwrap.indent(f'"""{beginning}\n"""\n', "    ")
    if len(cls.spec.outputs) == 1:
        return text
    members = [
        f"    {name}: {getattr(kind, '__forward_arg__', kind)}" for name, kind in outputs_type(cls).__annotations__.items()
    ]
    return "\n".join([f"class {outputs_name(cls)}(NamedTuple):", *members, "", text])


def main() -> None:
    for path, text in files().items():
        path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
