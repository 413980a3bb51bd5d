"""`Program`: load, check, run, save."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from numpy.typing import NDArray

from anydml.devices.compiled import BoundOperator
from anydml.devices.device import Device, device_of
from anydml.feature_level import FeatureLevel
from anydml.fork_safety import guard
from anydml.program import save as saving
from anydml.program.check import Plan, compile_operators, examine
from anydml.program.files import Folders, Refused
from anydml.program.model import Command, Dispatchable, FromFile, Given, Resource
from anydml.program.parse import parse
from anydml.program.run import execute
from anydml.program.text import LONGEST, Notes, ProgramFault, read
from anydml.schema.check import check
from anydml.schema.operator import Desc

if TYPE_CHECKING:
    from onnx import ModelProto

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Program:
    """A program in DxDispatch's JSON format, without faults of form. `load` and `of` make it.

    file: its name in messages. folder: the folder of the files it names. document: its JSON. warnings: of members not read.
    """

    file: str
    folder: Path
    document: dict[str, Any]
    resources: dict[str, Resource]
    dispatchables: dict[str, Dispatchable]
    commands: tuple[Command, ...]
    warnings: tuple[ProgramFault, ...] = ()

    def check(
        self,
        feature_level: FeatureLevel = FeatureLevel.FL_6_4,
        *,
        strict: bool = False,
        input_path: PathLike | None = None,
        output_path: PathLike = ".",
        allow_outside: bool = False,
    ) -> None:
        """Check all that can be checked without running; ProgramError has every fault.

        Each broken rule of a desc is a fault with its `violation`. Of the files that resources come from, only the headers
        are read. Operators are compiled for "cpu", to count the memory that they take. With `strict`, extensions count as
        violations; the other arguments are those of `run`.
        """
        folders = self._folders(input_path, output_path, allow_outside)
        self._plan(Notes(self.file), device_of("cpu"), feature_level, strict, folders)

    def run(
        self,
        device: Device | str | None = None,
        *,
        input_path: PathLike | None = None,
        output_path: PathLike = ".",
        out: TextIO | None = None,
        allow_outside: bool = False,
        iterations: int = 1,
        warmup: int = 0,
        profile: bool = False,
    ) -> dict[str, NDArray[Any]]:
        """Check the program at the device's feature level (6_4 unless the device has another), then run it.

        Returns every resource's final contents, one-dimensional, of its own type (uint8 if it has none). Prints go to `out`,
        with a line for each file that was written. Unless allow_outside, files are read only below input_path (default: the
        program's folder) and written only below output_path, and never over the program, its inputs or hidden files.
        ProgramError, before anything runs or is written, holds every fault; DataError if a value breaks a data rule;
        OSError, after all commands, if a file could not be written. A file is written whole or not at all.
        iterations, warmup: how many times each dispatch executes; if more than once in all, a line in `out` gives the median.
        profile: whether the last output is a table of the dispatches, with each one's kernel, shortest time and bytes.
        """
        if iterations < 1 or warmup < 0:
            raise ValueError(f"iterations is at least 1 and warmup at least 0, not {iterations} and {warmup}")
        on = device_of(device)
        notes = Notes(self.file)
        plan = self._plan(notes, on, on.feature_level, False, self._folders(input_path, output_path, allow_outside))
        if out is not None:
            out.write(f"Running on '{on.name}', checked against feature level {on.feature_level}\n")
        try:
            return execute(self.resources, self.commands, plan, notes, out, iterations, warmup, profile)
        except MemoryError as error:
            notes.fault("", f"takes more memory than the machine has ({error})")
            notes.settle()
            raise

    def save(self, folder: PathLike) -> None:
        """Write the program as a folder that `load` takes: program.json and the files that its resources come from.

        ProgramError if one of these files does not exist; OSError if one cannot be written.
        """
        folders = self._folders(None, ".", False)
        notes, sources = Notes(self.file), {}
        for name, resource in self.resources.items():
            if isinstance(resource.values, FromFile):
                try:
                    sources[name] = folders.source(resource.values.source)
                except (Refused, OSError) as error:
                    notes.fault(f"{resource.pointer}/initialValues/sourcePath", str(error))
        notes.settle()
        saving.save(self.document, self.resources, sources, Path(folder))

    def to_onnx(self) -> ModelProto:
        """The program as an ONNX model with the same results, if ONNX has an equal of every operator as it is used.

        Resources that are read before they are written are inputs of the model, by their names; what is printed or written to
        files, or everything that is written if nothing is, are its outputs. Initial values are not part of the model.
        UnsupportedError names a dispatch that has no equal; ImportError without the onnx package.
        """
        with guard:
            from anydml.program.onnx_model import model_of
        return model_of(self)

    def _folders(self, input_path: PathLike | None, output_path: PathLike, allow_outside: bool) -> Folders:
        inputs = self.folder if input_path is None else Path(input_path)
        return Folders(inputs, Path(output_path), Path(self.file), allow_outside)

    def _plan(self, notes: Notes, device: Device, feature_level: FeatureLevel, strict: bool, folders: Folders) -> Plan:
        plan = examine(self.resources, self.dispatchables, self.commands, notes, feature_level, strict, folders)
        notes.settle()
        compile_operators(plan, notes, device)
        notes.settle()
        return plan


def load(source: PathLike | TextIO) -> Program:
    """The program in a file, in a folder that `Program.save` wrote, or in a text stream.

    ProgramError holds every fault of form: text that is not JSON, missing or mistyped members, undefined names.
    `Program.warnings` has members that are not read.
    """
    path, name, text = Path(), str(getattr(source, "name", "<stream>")), ""
    if isinstance(source, (str, os.PathLike)):
        path = Path(source) / saving.FILE if os.path.isdir(source) else Path(source)
        name = str(path)
    notes = Notes(name)
    try:
        if isinstance(source, (str, os.PathLike)):
            with path.open(encoding="utf-8-sig", newline="") as file:
                text = file.read(LONGEST + 1)
        else:
            text = source.read(LONGEST + 1)
    except (OSError, ValueError) as error:  # missing, or not UTF-8
        notes.fault("", f"cannot be read ({getattr(error, 'strerror', None) or error})")
        notes.settle()
    return _program(read(text, notes), notes, path.parent)


def of(call: Desc | BoundOperator, arrays: Mapping[str, Any] | None = None) -> Program:
    """The program of one call, a bound operator or a desc and its arrays, with copies of its inputs.

    arrays: the arguments of `initialize` and `bind`, by field name. Outputs, which may be left out, are initially zeros; they
    are printed, or written to files above 256 elements. DescError if the desc breaks rules, BindingError if the arrays do not
    fit it.
    """
    desc, given = (call.compiled.desc, call.arrays) if isinstance(call, BoundOperator) else (call, arrays or {})
    check(desc)
    document, values = saving.call(desc, given)
    notes = Notes(saving.FILE)
    program = _program(document, notes, Path())
    resources = {
        name: replace(resource, values=Given(values[name])) if name in values else resource
        for name, resource in program.resources.items()
    }
    return replace(program, resources=resources)


def _program(document: Any, notes: Notes, folder: Path) -> Program:
    resources, dispatchables, commands = parse(document, notes)
    notes.settle()
    return Program(notes.file, folder, document, resources, dispatchables, commands, tuple(notes.warnings))
