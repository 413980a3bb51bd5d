"""`anydml compare model.onnx` or `.tflite`: a model judged node by node, as a table, as JSON and as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.table import Table
from rich.text import Text

from anydml.cli.models import NEEDS, is_lite, model_of, pairs, sizes_of
from anydml.cli.output import as_json, note, result, show_table
from anydml.devices.device import OPENCL, Device
from anydml.devices.families import kind_of
from anydml.errors import BindingError, Error, Fault
from anydml.rule_messages import listed
from anydml.spelling import printable

if TYPE_CHECKING:
    from anydml.onnx.compare_results import ModelComparison, NodeComparison
    from anydml.onnx.compare_runtimes import Run
    from anydml.tflite.comparing import Run as LiteRun

MOST_ROWS = 100  # of a table with nodes that are equal
STYLES = {"equal": "green", "rounding": "yellow", "beyond rounding": "bold red", "no bound": "magenta", "not judged": "dim"}


def compared(
    model: str,
    *,
    against: str | None,
    actual: Sequence[str],
    source: Source,
    html: str | None,
    explorer: str | None,
    seconds: float,
    provider: str | None,
    precision: str | None,
    fail_on: str | None,
    json_wanted: bool,
) -> int:
    """Compare a model's tensors with the exact ones, and print what was found. Returns the exit status."""
    device = _device(against)
    fails = _condition("differs" if device is not None and fail_on is None else fail_on)
    if against is None and not actual:
        raise click.UsageError(
            f"A model is compared with a runtime (--against {'litert' if is_lite(model) else 'onnxruntime'}) or with recorded "
            "tensors (--actual DIR)."
        )
    if provider is not None and against not in ("onnxruntime", "torch"):
        raise click.UsageError("--provider is for --against onnxruntime, and for torch's devices.")
    source.checked()
    with _needed(model):
        from anydml.onnx.compare_page import page
    read = model_of(model)
    _installed(against, model)
    given = inputs_of(model, read, source)
    asked: list[tuple[str | None, str | None]] = [(against, None)] if against is not None else []
    asked += [(None, path) for path in dict.fromkeys(actual)]
    several: dict[str, ModelComparison] = {}
    details = html is not None
    with source.explained(given):
        for runtime, path in asked:
            if is_lite(model):
                found = _lite(read, given, _lite_run(runtime, device) if runtime else None, path, precision, details)
            else:
                run = _run_of(runtime, provider or "CPU", device) if runtime else None
                found = _onnx(read, given, run, path, precision, seconds, details)
            several[runtime or path or ""] = found
    _said(several, json_wanted, precision)
    if html is not None:
        Path(html).write_text(page(several, Path(model).name), encoding="utf-8")
        note(f"Wrote {printable(html)}")
    if explorer is not None:
        _explored(several, explorer)
    return max(fails(found, list(read.outputs)) for found in several.values())


def _said(several: Mapping[str, ModelComparison], json_wanted: bool, precision: str | None) -> None:
    """Print comparisons: one by itself, several by the names of the runtimes."""
    if json_wanted:
        found = {name: one.to_dict() for name, one in several.items()}
        as_json(found if len(found) > 1 else next(iter(found.values())))
        return
    for name, one in several.items():
        if len(several) > 1:
            result(printable(name), "bold")
        _table(one.nodes)
        result(str(one), "green" if one.equal else None)
        if said := _precise(one, precision):
            note(said)


def _explored(several: Mapping[str, ModelComparison], path: str) -> None:
    """Write node data for Model Explorer; of several runtimes, with their numbers in the names of the files."""
    from anydml.onnx.model_explorer import write_node_data

    to = Path(path)
    for i, one in enumerate(several.values(), 1):
        files = write_node_data(one, to if len(several) == 1 else to.with_suffix(f".{i}{to.suffix}"))
        note(printable(f"Wrote {', '.join(map(str, files))}"))


@contextmanager
def _needed(model: str) -> Iterator[None]:
    """Imports of what reads a model; UsageError if it is not installed."""
    try:
        yield
    except ImportError:
        raise click.UsageError(NEEDS.format("tflite" if is_lite(model) else "onnx")) from None


def _device(runtime: str | None) -> Device | None:
    """The OpenCL device of a name; None for another runtime."""
    return Device(runtime) if runtime is not None and kind_of(runtime) == OPENCL else None


def _run_of(runtime: str, provider: str, device: Device | None) -> Run:
    """The function that runs ONNX models. provider: onnxruntime's execution provider, or torch's device."""
    if device is not None:
        from anydml.onnx.compare_runtimes import on_device

        return on_device(device)
    if runtime == "torch":
        from anydml.onnx.compare_torch import torch_on

        return torch_on(provider)
    from anydml.onnx.compare_runtimes import onnxruntime_on

    return onnxruntime_on(provider)


def _onnx(
    read: Any,
    given: Mapping[str, Any],
    run: Run | None,
    actual: str | None,
    precision: str | None,
    seconds: float,
    details: bool,
) -> ModelComparison:
    from anydml.onnx.compare_runtimes import recorded
    from anydml.onnx.comparing import compare

    tensors = recorded(actual) if actual else None
    return compare(read.proto, given, run, actual=tensors, precision=precision, seconds=seconds, details=details)


def _lite_run(runtime: str, device: Device | None) -> LiteRun:
    """The function that runs TensorFlow Lite models."""
    from anydml.tflite import runtimes

    if device is not None:
        return runtimes.on_device(device)
    return partial(runtimes.litert, reference=runtime == "litert-reference")


def _lite(
    read: Any, given: Mapping[str, Any], run: LiteRun | None, actual: str | None, precision: str | None, details: bool
) -> ModelComparison:
    from anydml.onnx.compare_files import recorded
    from anydml.tflite.comparing import compare

    tensors = recorded(actual) if actual else None
    return compare(read, given, run, actual=tensors, precision=precision, details=details)


LESS_PRECISE = {  # causes -> the precision that explains them
    "tf32_inputs": "tf32", "bfloat16_inputs": "bfloat16", "bfloat16_arithmetic": "bfloat16", "float16_inputs": "float16",
    "float16_arithmetic": "float16",
}  # fmt: skip


def _precise(found: ModelComparison, precision: str | None) -> str:
    """A sentence about nodes beyond rounding that --precision would explain; empty if there are none."""
    names = [LESS_PRECISE[row.deviation] for row in found.nodes if _is_beyond(row) and row.deviation in LESS_PRECISE]
    if not names or precision is not None:
        return ""
    often = max(dict.fromkeys(names), key=names.count)
    return f"If the runtime is meant to compute in {often}, --precision {often} counts that as rounding"


def record(model: str, *, runtime: str | None, provider: str, source: Source, folder: str) -> int:
    """Record the inputs of a model, and every tensor as another runtime computes it, as files for `compare`."""
    source.checked()
    read: Any = model_of(model)
    runtime = runtime or ("litert" if is_lite(model) else "onnxruntime")
    device = _device(runtime)
    _installed(runtime, model)
    given = inputs_of(model, read, source)
    into = Path(folder)
    if is_lite(model):
        if provider != "CPU":
            raise click.UsageError("--provider is for ONNX models")
        with source.explained(given):
            tensors = _lite_run(runtime, device)(read.read.data, given)
        into.mkdir(parents=True, exist_ok=True)
        numbered = {str(read.tensors[name].number): x for name, x in given.items()}  # names may be too long for files
        for name, arrays in (("inputs", numbered), ("actual", tensors)):
            np.savez(into / f"{name}.npz", allow_pickle=False, **arrays)
        ends = [".npz"] * 2
    else:
        with source.explained(given):
            tensors = _of_onnx(read, _run_of(runtime, provider, device), given)
        for name, arrays in (("inputs", given), ("actual", tensors)):
            (into / name).mkdir(parents=True, exist_ok=True)
            for tensor, array in arrays.items():
                np.save(into / name / f"{tensor.replace('/', '%2F')}.npy", array)
        ends = [""] * 2
    note(f"Wrote {len(given)} inputs and {len(tensors)} tensors to {printable(folder)}; compare them by")
    result(
        f"anydml compare {printable(model)} --inputs {printable(folder)}/inputs{ends[0]} "
        f"--actual {printable(folder)}/actual{ends[1]}"
    )
    return 0


def _of_onnx(read: Any, run: Run, given: Mapping[str, Any]) -> Mapping[str, Any]:
    from anydml.onnx.compare_models import marked, named

    proto = named(read.proto)
    tensors = run(marked(proto, [n for node in proto.graph.node for n in node.output if n]), given)
    assert isinstance(tensors, Mapping)
    return tensors


@dataclass(frozen=True)
class Source:
    """Options that say what a model's inputs are: a folder or file, files by name, a seed; sizes for random ones."""

    inputs: str | None
    given: Sequence[str]
    random: int | None
    sizes: Sequence[str]
    folder: str | None = None
    """That of the files by name."""

    def checked(self, names: Iterable[str] = ()) -> None:
        """UsageError if the options contradict one another, or if there are none. names: those of the model's inputs."""
        if self.inputs is not None and self.random is not None:
            raise click.UsageError("--inputs and --random exclude one another.")
        if self.inputs is None and self.random is None and not self.given:
            one = " ".join(f"--input {name}=FILE.npy" for name in names) or "--input NAME=FILE"
            reads = f"The model reads {listed(list(names), 'and')}" if names else "A model needs inputs"
            raise click.UsageError(printable(f"{reads}: {one}, or --inputs DIR, or --random SEED."))
        if self.sizes and self.random is None:
            raise click.UsageError("--size is for random inputs; files have sizes of their own.")

    @contextmanager
    def explained(self, given: Mapping[str, np.ndarray[Any, Any]]) -> Iterator[None]:
        """A context whose errors say which random inputs a model may not take."""
        try:
            yield
        except Error as error:
            drawn = [] if self.random is None else [n for n in given if n not in pairs(self.given, "--input")]
            integers = [n for n in drawn if given[n].dtype.kind in "iu" and given[n].dtype.itemsize > 1]
            if integers:
                options = " ".join(f"--input {name}=FILE.npy" for name in integers)
                are = f"{listed(integers, 'and')} {'is' if len(integers) == 1 else 'are'}"
                why = "the model may take only some, such as indices, lengths or a mask"
                note(printable(f"The inputs are random. {are} of integers, and {why}: {options}"))
            raise error


def inputs_of(model: str, read: Any, source: Source) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs of a model: those of a folder or file, files by name, or random ones."""
    source.checked([*read.inputs])
    files = {name: _array(name, Path(source.folder or ".") / path) for name, path in pairs(source.given, "--input").items()}
    if strange := [name for name in files if name not in read.inputs]:
        these = ", ".join(read.inputs)
        raise BindingError([Fault(name, f"is not an input of the model; its inputs are {these}") for name in strange])
    if source.random is not None:
        return _drawn(model, read, source.random, source.sizes) | files
    found = _recorded(model, read, source.inputs) if source.inputs is not None else {}
    found |= files
    if missing := [name for name in read.inputs if name not in found]:
        options = " ".join(f"--input {name}=FILE.npy" for name in missing)
        where = "" if source.inputs is None else ", and no file of --inputs has it"
        raise BindingError([Fault(name, f"is an input of the model{where}: {options}") for name in missing])
    return {name: found[name] for name in read.inputs}


def _drawn(model: str, read: Any, seed: int, sizes: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    if not is_lite(model):
        from anydml.onnx.compare_runtimes import drawn

        return drawn(read, seed, sizes_of(sizes))
    from anydml.tflite.runtimes import drawn as drawn_lite

    if sizes:
        raise click.UsageError("--size is for ONNX models; random inputs of others have the sizes in the file.")
    return drawn_lite(read, seed)


def _recorded(model: str, read: Any, path: str) -> dict[str, np.ndarray[Any, Any]]:
    if not is_lite(model):
        from anydml.onnx.compare_files import named_as
        from anydml.onnx.compare_runtimes import recorded

        return named_as(recorded(path), read.inputs)
    from anydml.onnx.compare_files import recorded as recorded_lite
    from anydml.tflite.comparing import renamed

    return renamed(read, recorded_lite(path))


def _array(name: str, path: Path) -> np.ndarray[Any, Any]:
    try:
        found: np.ndarray[Any, Any] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BindingError([Fault(name, printable(f"{path} cannot be read: {reason}"))]) from None
    return found


PACKAGES = {"onnxruntime": ["onnxruntime"], "litert": ["ai_edge_litert"], "litert-reference": ["ai_edge_litert"],
            "torch": ["torch", "onnx2pytorch"]}  # fmt: skip


def _installed(against: str | None, model: str) -> None:
    if against is None or kind_of(against) == OPENCL:
        return
    if is_lite(model) != against.startswith("litert"):
        kind = "TensorFlow Lite" if against.startswith("litert") else "ONNX"
        raise click.UsageError(f"{against} runs models of {kind}, and {printable(model)} is none")
    if missing := [name.replace("_", "-") for name in PACKAGES[against] if find_spec(name) is None]:
        are = "is" if len(missing) == 1 else "are"
        raise click.UsageError(f"{listed(missing, 'and')} {are} not installed here: pip install {' '.join(missing)}.")


def _condition(fail_on: str | None) -> Callable[[Any, list[str]], int]:
    """The function from a comparison, and the names of the model's outputs, to the exit status."""
    if fail_on in (None, "unjudged"):
        return lambda found, outputs: 1 if _beyond(found) else 3 if found.unjudged else 0
    if fail_on == "beyond":
        return lambda found, outputs: int(_beyond(found))
    if fail_on == "differs":
        return lambda found, outputs: 1 if not found.equal else 3 if found.unjudged else 0
    try:
        tolerance = float(fail_on or "")
    except ValueError:
        tolerance = -1.0
    if not 0 <= tolerance < float("inf"):
        raise click.UsageError(
            f"--fail-on takes differs, beyond, unjudged or a tolerance such as 1e-3, not {printable(fail_on or '')}."
        )

    def off(found: Any, outputs: list[str]) -> int:
        rows = [row for row in found.nodes if set(row.writes) & set(outputs)]
        if len({name for row in rows for name in row.writes} & set(outputs)) < len(outputs):
            return 3
        if any(row.accumulated is None for row in rows):
            return 3
        return int(any((row.accumulated.away if row.accumulated.unit else row.accumulated.largest) > tolerance for row in rows))

    return off


def _beyond(found: Any) -> bool:
    return any(map(_is_beyond, found.nodes))


def _is_beyond(row: NodeComparison) -> bool:
    return row.verdict == "beyond rounding"


def _table(rows: Sequence[Any]) -> None:
    """Print a row for each node, on a terminal in colours; of many, those that are not equal."""
    shown = rows if len(rows) <= MOST_ROWS else [row for row in rows if row.verdict != "equal"]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("node", "operator", "own error", "accumulated"):
        table.add_column(title, overflow="fold")
    table.add_column("verdict")
    for row in shown:
        cells = (row.name, ", ".join(dict.fromkeys(row.operators)), str(row.own or "-"), str(row.accumulated or "-"))
        table.add_row(*(Text(printable(cell)) for cell in cells), Text(row.verdict, STYLES[row.verdict]))
    show_table(table)
    if len(shown) < len(rows):
        result(f"{len(rows) - len(shown)} nodes that are equal are not listed.", "dim")
