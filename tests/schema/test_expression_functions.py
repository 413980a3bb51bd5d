"""The table of modules that name expression functions is complete, and CONTRIBUTING.md has it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import anydml
from anydml import operators
from anydml.devices.families import DEVICES
from anydml.kernels.reduce.stages import COSTLY
from anydml.schema import expression
from expression_functions import READERS, Reader

ROOT = Path(anydml.__file__).parent
FUNCTIONS = {
    name for name, value in vars(expression).items() if getattr(value, "__qualname__", "").startswith("_function.<locals>")
}
REALS = FUNCTIONS & COSTLY
WHOLES = {"floor", "ceil", "truncate", "half_to_even", "half_away"}
FOLDERS = ("schema", "exact", "explain", "kernels")


def tables(reader: Reader) -> list[Any]:
    module = importlib.import_module(f"anydml.{reader.module}")
    return [getattr(module, name) for name in reader.tables]


def test_functions_are_those_that_are_known() -> None:
    assert len(FUNCTIONS) >= 30
    assert WHOLES < FUNCTIONS
    assert {"exp", "atan2", "erf"} <= REALS


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.module)
def test_readers_have_the_functions_that_they_need(reader: Reader) -> None:
    there = {name for table in tables(reader) for name in table}
    wanted = {"always": FUNCTIONS, "reals": REALS, "wholes": WHOLES, "where it pays": set()}[reader.need]
    assert wanted <= there
    assert not reader.tables or there & FUNCTIONS


def test_no_table_of_functions_is_missing() -> None:
    known = {id(table) for reader in READERS for table in tables(reader)}
    found, looked_at = [], 0
    for folder in FOLDERS:
        for info in pkgutil.walk_packages([str(ROOT / folder)], f"anydml.{folder}."):
            for name, value in vars(importlib.import_module(info.name)).items():
                if isinstance(value, (dict, set, frozenset)):
                    looked_at += 1
                    if len({x for x in value if isinstance(x, str)} & FUNCTIONS) > 1 and id(value) not in known:
                        found.append(f"{info.name}.{name}")
    assert looked_at > 200
    assert not found


@pytest.mark.parametrize("module", [reader.module for reader in READERS if not reader.tables])
def test_files_without_tables_have_names_of_functions(module: str) -> None:
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    assert FUNCTIONS & {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_the_page_has_the_table() -> None:
    page = Path(__file__).parents[2] / "CONTRIBUTING.md"
    text = page.read_text(encoding="utf-8")
    for reader in READERS:
        path = f"{reader.module.replace('.', '/')}.py"
        row = f"| `{path}` | {', '.join(f'`{name}`' for name in reader.tables)} | {reader.need} | {reader.what} |"
        assert row in text, row


def test_the_map_of_families_names_what_there_is() -> None:
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in text.partition("## Where things are")[2].partition("## A wrong")[0].splitlines()]
    rows = [[cell.strip() for cell in row] for row in rows if len(row) == 7][2:]
    of_devices = {name.partition(":")[0] for families in DEVICES.values() for name in families} - {"reference"}
    assert of_devices < {row[0].strip("`") for row in rows}
    kernels, count = ROOT / "kernels", 0
    for family, patterns, plan, emitters, undecided, tests, _ in rows:
        own = kernels / family.strip("`").replace(".", "/")
        for name in re.findall("`([^`]+)`", patterns):
            assert (kernels / "match" / f"{name}.py").exists() or (ROOT / f"{name}.py").exists(), name
            count += 1
        for name in re.findall("`([^`]+)`", f"{plan} {emitters} {undecided}"):
            path = name.partition(".")[0].rstrip("/").replace("*", "")
            places = (kernels / path, own / path, own.parent / path)
            assert any(p.is_dir() or p.with_suffix(".py").exists() or [*p.parent.glob(f"{p.name}*")] for p in places), name
            count += 1
        for name in re.findall("`([^`]+)`", tests):
            assert [*Path(__file__).parents[1].rglob(f"{name}.py")], name
            count += 1
    assert count > 90


OPERATOR_FILE = '''
from anydml.feature_level import FeatureLevel
from anydml.operators.activation_swish import ActivationSwish
from anydml.schema.operator import Desc, operator

@operator("DML_OPERATOR_ACTIVATION_MISH2", 178, since=FeatureLevel.FL_6_4)
class ActivationMish2(Desc):
    """A mish."""
    rows = ActivationSwish.spec.rows
    examples = ()
    rejecting = ()
    errata = ()
    def statement(self): ...
'''


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("activation_mish2", "", r"operators/activation_mish2.py: .* such as operators/activation_mish.py"),
        (
            "activation_misch",
            OPERATOR_FILE,
            r"activation_misch.py has .*ACTIVATION_MISH2, .* looked for in operators/activation_mish.py",
        ),
        (
            "activation_mish",
            OPERATOR_FILE.replace("@op", "#op"),
            r"activation_mish.py: the class ActivationMish2 has no @operator",
        ),
        ("activation_mish", OPERATOR_FILE.replace("178", "167"), r"ACTIVATION_\w+ and \w+ have the same number, 167"),
        ("activation_mish", OPERATOR_FILE.replace("errata =", "errors ="), r"ACTIVATION_MISH2: its class lacks errata"),
        ("activation_mish", OPERATOR_FILE.replace("def statement", "def said"), r"ACTIVATION_MISH2: its class lacks statement"),
    ],
)
def test_a_faulty_operator_file_is_an_error_that_names_it(
    name: str, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(operators, "__path__", [*operators.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, f"anydml.operators.{name}", raising=False)
    for cached in (operators.lineages, operators.every):
        cached.cache_clear()
    try:
        if name == "activation_misch":
            assert "would be in operators/activation_mish.py" in operators.why_missing("ACTIVATION_MISH2")
            assert "operators/activation_misch.py" in operators.why_missing("ACTIVATION_MISH2")
        with pytest.raises((ImportError, TypeError), match=message):
            operators.every()
    finally:
        monkeypatch.undo()
        sys.modules.pop(f"anydml.operators.{name}", None)
        vars(operators).pop(name, None)
        for cached in (operators.lineages, operators.every):
            cached.cache_clear()
    assert operators.find("ELEMENT_WISE_EXP") is not None
