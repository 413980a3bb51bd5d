"""The commands `run`, `check` and `describe` for ONNX and TensorFlow Lite models."""

from __future__ import annotations

import collections
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from anydml.cli.output import as_json, note, result
from anydml.devices.device import Device
from anydml.errors import BindingError, Error, Fault, GraphError
from anydml.feature_level import FeatureLevel
from anydml.fork_safety import guard
from anydml.graphs.check import check_graph
from anydml.rule_messages import listed
from anydml.spelling import printable

if TYPE_CHECKING:
    from anydml import onnx, tflite
    from anydml.cli.compare_models import Source

    Model = onnx.Model | tflite.Model

LONGEST_NAME = 200  # characters of a file's name
LITE = ".tflite"
SUFFIXES = (".onnx", LITE)
NEEDS = 'Models of this kind need the {0} package, which is not installed: pip install "anydml[{0}]".'


def is_model(file: str) -> bool:
    """Whether a file's name is a model's."""
    return Path(file).suffix.lower() in SUFFIXES


def is_lite(file: str) -> bool:
    """Whether a file's name is that of a TensorFlow Lite model."""
    return Path(file).suffix.lower() == LITE


def model_of(file: str, turns: int | None = None) -> Model:
    """The model in a file. turns: the most iterations of its loops, if not the default."""
    if is_lite(file) and turns:
        raise click.UsageError("--turns is for ONNX models")
    with guard:  # imports that other commands do not need
        try:
            if is_lite(file):
                from anydml.tflite import load as load_lite
            else:
                from anydml.onnx import load
        except ModuleNotFoundError as error:
            if error.name not in ("onnx", "google", "ml_dtypes", "tflite", "flatbuffers"):
                raise
            raise click.UsageError(NEEDS.format("tflite" if is_lite(file) else "onnx")) from None
    if not Path(file).is_file():
        raise BindingError([Fault("", printable(f"{file} cannot be read: there is no such file"))])
    if is_lite(file):
        return load_lite(file)
    return load(file, turns=turns) if turns else load(file)


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """Options of the form NAME=VALUE."""
    found = dict(text.partition("=")[::2] for text in given)
    if bad := [text for text in given if "=" not in text]:
        raise click.UsageError(f"{option} takes NAME=VALUE, not {bad[0]!r}.")
    return found


def sizes_of(given: Sequence[str]) -> dict[str, Any]:
    """Sizes from options: a number for the name of a size, or numbers with commas for an input."""
    found: dict[str, Any] = {}
    for name, text in pairs(given, "--size").items():
        try:
            numbers = tuple(int(n) for n in text.split(","))
        except ValueError:
            raise click.UsageError(f"--size takes a number, or numbers with commas between them, not {text!r}.") from None
        found[name] = numbers if "," in text else numbers[0]
    return found


def run_model(file: str, device: Device, source: Source, output_path: str, turns: int | None, keep: str | None) -> int:
    """Run a model, and write an .npy file for each output, for all tensors, or for those of some names (`keep`)."""
    from anydml.cli.compare_models import inputs_of

    model = model_of(file, turns)
    given = inputs_of(file, model, source) if model.inputs or source.given or source.inputs else {}
    with source.explained(given):
        found = model.run(given, device=device, keep="outputs" if keep is None else "all")
    if keep not in (None, "all"):
        names = [name.strip() for name in keep.split(",")]
        if missing := [name for name in names if name not in found]:
            raise BindingError([Fault(name, "is not a tensor that the model computes") for name in missing])
        found = {name: found[name] for name in names}
    Path(output_path).mkdir(parents=True, exist_ok=True)
    written: set[str] = set()
    for i, (name, array) in enumerate(found.items()):
        title = re.sub(r"[^\w.-]", "_", name).lstrip(".") or "output"
        title = title[:LONGEST_NAME]
        title = title if title not in written else f"{title}_{i}"
        written.add(title)
        at = Path(output_path) / f"{title}.npy"
        np.save(at, array)
        result(printable(f"{name}: {array.dtype} {array.shape}"))
        note(printable(f"Wrote {at}"))
    return 0


def check_model(file: str, sizes: tuple[str, ...], json_wanted: bool) -> int:
    """Print the nodes of a model that are refused; if there are none, the feature level and the memory that it needs."""
    model = model_of(file)
    given = sizes_of(sizes)
    if left := missing_sizes(model, given):
        options = " ".join(f"--size {name}=1" for name in left)
        which = "the size" if len(left) == 1 else "the sizes"
        raise click.UsageError(printable(f"The model does not give {which} {listed(left, 'and')}: {options}."))
    refusals = model.check(**given)
    for mended in model.notes:
        note(printable(f"{file}: {mended}"))
    if json_wanted:
        as_json([r._asdict() for r in refusals])
    elif refusals:
        result("\n".join(map(str, refusals)))
    else:
        result(printable(f"{file}: nothing is refused"), "green")
        _needs(file, model, given)
    return 2 if refusals else 0


def _needs(file: str, model: Model, sizes: dict[str, Any]) -> None:
    try:
        graph = model.graph(**sizes)
    except Error as error:
        note(printable(str(error)))
        return
    taken = graph.compile().binding_properties
    memory = f"{taken.persistent_resource_size} bytes of constants, {taken.temporary_resource_size} of scratch"
    result(memory if is_lite(file) else f"feature level {_level(graph)}; {memory}")


def missing_sizes(model: Model, sizes: Mapping[str, Any]) -> list[str]:
    """The names of sizes that neither the model nor an option gives."""
    known = [s.sizes or () for name, s in model.inputs.items() if name not in sizes]
    return [*dict.fromkeys(n for found in known for n in found if isinstance(n, str) and n not in sizes)]


def _level(graph: Any) -> FeatureLevel:
    """The first feature level at which the graph is valid."""
    for level in FeatureLevel:
        try:
            check_graph(graph.desc, level)
        except GraphError:
            continue
        return level
    raise AssertionError("the graph was compiled, and no feature level takes it")


def describe_model(file: str, json_wanted: bool) -> int:
    """Print a model's inputs and outputs, and its operators."""
    model = model_of(file)
    found = lite_facts(model) if is_lite(file) else facts(model)
    if json_wanted:
        as_json(found)
        return 0
    for title, members in found.items():
        result(title, "bold")
        for name, value in members.items():
            result(printable(f"  {name}: {value}"))
    return 0


def facts(model: Any) -> dict[str, Any]:
    """The description of an ONNX model."""
    operators = collections.Counter(f"{n.domain}.{n.op_type}" if n.domain else n.op_type for n in model.proto.graph.node)
    return {
        "opsets": {o.domain or "ai.onnx": o.version for o in model.proto.opset_import},
        "inputs": {name: _spelt(s) for name, s in model.inputs.items()},
        "outputs": {name: _spelt(s) for name, s in model.outputs.items()},
        "operators": dict(sorted(operators.items())),
    }


def lite_facts(model: Any) -> dict[str, Any]:
    """The description of a TensorFlow Lite model."""
    return {
        "inputs": {name: str(s) for name, s in model.inputs.items()},
        "outputs": {name: str(s) for name, s in model.outputs.items()},
        "operators": model.operators,
    }


def _spelt(signature: Any) -> str:
    from anydml.onnx.read import shown
    from anydml.onnx.types import type_name

    return f"{type_name(signature.element_type)} {'?' if signature.sizes is None else shown(signature.sizes)}"
