"""The public names of the package, and its description for bug reports, with llvmlite and without."""

from __future__ import annotations

import ast
import builtins
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import catalog
from anydml.kernels.call import pool
from anydml.kernels.code.llvm import unavailable
from anydml.kernels.code.targets import ARM, X86, targets


def without_llvmlite(code: str, **environment: str) -> str:
    """The output of a Python in which llvmlite cannot be imported."""
    code = f"import sys; sys.modules['llvmlite'] = None; sys.modules['llvmlite.binding'] = None; import anydml as dml; {code}"
    clean = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=clean | environment)
    return done.stdout + done.stderr


def test_instruction_sets_without_llvmlite() -> None:
    told = without_llvmlite("print(dml.Device()); dml.Device(isa='generic')")
    assert told.startswith("<Device cpu: feature level 6_4, NumPy>\n")
    assert "anydml.errors.UnsupportedError: isa = 'generic' cannot be had: nothing can be compiled (llvmlite cannot" in told


def config_lines(text: str) -> dict[str, str]:
    return {name.strip(): value for name, value in (line.split("  ", 1) for line in text.splitlines())}


SUBJECTS = [
    "anydml",
    "feature levels",
    "devices",
    "Python",
    "NumPy",
    "llvmlite",
    "processor",
    "kernels",
    "instruction set",
    "threads",
    "tuning",
    "OpenCL",
    "cache",
]


def test_the_configuration(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANYDML_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    dml.show_config()
    lines = config_lines(capsys.readouterr().out)
    assert list(lines) == SUBJECTS
    assert dml.__version__ in lines["anydml"]
    assert lines["feature levels"].strip() == "1_0 to 6_4, EXTENDED"
    assert np.__version__ in lines["NumPy"]
    assert f"{pool.processors()} of " in lines["processor"]
    if unavailable() is None:
        assert lines["kernels"].strip() == "compiled"
        assert lines["instruction set"].split()[0].rstrip(",") == targets()[-1].name
        assert lines["threads"].strip() == "1: as OMP_NUM_THREADS says"
        lacking = set(X86 if targets()[0] in X86 else ARM) - set(targets())
        assert all(f"{row.name}, which needs " in lines["instruction set"] for row in lacking)


def test_the_configuration_without_llvmlite() -> None:
    lines = config_lines(without_llvmlite("dml.show_config()", ANYDML_NUM_THREADS="foo"))
    assert list(lines) == SUBJECTS
    assert lines["kernels"].strip().startswith("NumPy's, since llvmlite cannot be used: ")
    assert lines["instruction set"].strip() == "none, since nothing is compiled"
    assert lines["threads"].strip() == "none: ANYDML_NUM_THREADS is 'foo', and takes a number of threads, 1 or more"


PUBLIC = {
    *("BindingError", "BindingProperties", "BoundOperator", "Checked", "Comparison", "CompiledOperator", "DataError"),
    *("DataType", "DescError", "Device", "Error", "ExecutionFlags", "Fault", "FeatureLevel", "Program", "ProgramError"),
    *("TensorDesc", "TensorFlags", "UnsupportedError", "Violation", "__version__", "check", "chunks", "compare"),
    *("OptimizationWarning", "PerformanceWarning", "Picture"),
    *("ConstantNode", "Graph", "GraphDesc", "GraphError", "InputEdge", "IntermediateEdge", "OperatorNode", "OutputEdge"),
    *("SEMANTICS_VERSION", "deviations", "graph", "picture", "program", "requantize", "show_config", "testing"),
}


def test_dir_lists_what_is_public_and_nothing_else() -> None:
    """The object model, and each operator's desc class and function."""
    operators = {name for cls in dml.operators.every() for name in (cls.__name__, cls.spec.name.lower())}
    assert set(dir(dml)) == PUBLIC | operators
    assert set(dml.__all__) == (PUBLIC | operators) - {"__version__", "slice"}
    assert len(dml.__all__) == len(set(dml.__all__))
    for name in dir(dml):
        getattr(dml, name)
    for cls in dml.operators.every():
        assert getattr(dml, cls.__name__) is cls
        assert getattr(dml, cls.spec.name.lower()).__module__ == "anydml.functional.functions"
    with pytest.raises(AttributeError, match="module 'anydml' has no attribute 'Slice2'"):
        _ = dml.Slice2  # type: ignore[attr-defined]  # a type checker knows every name


def test_the_public_names_are_written_out() -> None:
    """For type checkers and editors, which read `__all__` without running code: lists of strings, and another module's list."""
    found: list[str] = []
    for module, others in ((dml, ["catalog.__all__"]), (catalog, [])):
        tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
        added = []
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found += ast.literal_eval(node.value)
            elif isinstance(node, ast.AugAssign) and ast.unparse(node.target) == "__all__":
                added.append(ast.unparse(node.value))
        assert added == others
    assert sorted(found) == sorted(dml.__all__)


def modules_after(code: str) -> set[str]:
    """The modules of anydml that a new Python process has imported after some code."""
    code = f"import sys; {code}; print(*[name for name in sys.modules if name.startswith('anydml')])"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_an_import_takes_no_operator_and_a_copy_takes_what_copies_need() -> None:
    later = ("anydml.operators.", "anydml.kernels.c", "anydml.kernels.numpy", "anydml.schema.statement", "anydml.functional")
    assert not [name for name in modules_after("import anydml") if name.startswith(later)]
    copied = modules_after("import anydml, numpy; anydml.slice1(numpy.zeros((8, 8)), (0, 0), (8, 8))")
    files = {name for name in copied if name.startswith("anydml.operators.") and ".shared" not in name}
    assert files == {"anydml.operators.slice"}
    assert {"anydml.kernels.copy.family", "anydml.kernels.numpy.copy"} & copied
    others = ("anydml.kernels.contract", "anydml.kernels.numpy.contract", "anydml.exact.re", "anydml.functional.faults")
    assert not [name for name in copied if name.startswith(others)]


def test_tables_of_models_operators_define_no_function() -> None:
    loaded = modules_after("import anydml.onnx.backend, anydml.tflite.mapping.windows")
    taken = [name for name in loaded if name.startswith("anydml.operators.")]
    kinds = ("element_wise", "activation", "reduce")
    others = [name for name in taken if any(kind in name for kind in kinds)]
    assert set(others) <= {"anydml.operators.activation_relu"}  # which the file of convolutions imports


def test_modules_of_torch_need_torch_and_nothing_else_imports_it() -> None:
    assert not [name for name in modules_after("import anydml; dir(anydml)") if name.split(".")[0] in ("torch", "onnx")]
    code = "import sys; sys.modules['torch'] = None; import anydml.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.endswith('ModuleNotFoundError: anydml.torch needs PyTorch: pip install "anydml[torch]"\n')


def test_means_between_bytes_take_no_kernels_of_rows() -> None:
    assert not [name for name in modules_after("import anydml.kernels.windows.quantised") if "kernels.reduce" in name]


def test_importing_everything_leaves_the_builtins_alone() -> None:
    names: dict[str, Any] = {}
    exec("from anydml import *", names)
    assert not set(vars(builtins)) & {name for name in names if not name.startswith("__")}
    assert names["slice1"] is dml.slice1
    assert names["__builtins__"]["slice"] is slice
