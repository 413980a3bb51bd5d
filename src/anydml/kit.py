"""An export kit: programs for DxDispatch with exact outputs, by which a machine with DirectML is compared with anydml.

A kit is a folder: `kit.json` with a record for each case, `programs/NAME/` with a program of DxDispatch and its inputs,
`expected/NAME/` with the exact contents of its outputs, and `run.ps1`, which runs all programs and writes `results/NAME/`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.devices.device import Device
from anydml.errors import DescError, Error
from anydml.feature_level import FeatureLevel
from anydml.program import of
from anydml.program.files import whole_or_nothing
from anydml.program.model import Dispatch
from anydml.program.program import Program
from anydml.program.save import FILE, document_of
from anydml.schema.check import check
from anydml.schema.operator import Desc, Example, example_desc, rejections
from anydml.tensor import DataType, TensorDesc, TensorFlags

RECORDS, SCRIPT, PROGRAMS, EXPECTED, RESULTS = "kit.json", "run.ps1", "programs", "expected", "results"
KINDS = {
    "example": "an example of the documentation page or of anydml, at feature level 6_4",
    "level": "the first example at the first feature level that allows it",
    "strides": "the first example with strides twice as large, whose outputs keep the zeros between elements",
    "ties": "the first example with numbers of few digits, whose results are often halfway between two neighbours",
    "special": "the first example with NaN, infinities, zeros of both signs, subnormal and huge numbers",
    "rejected": "the first example with a change that breaks exactly one rule",
    "extension": "the same with a rule of the documentation that anydml does not require",
}
PARTS = 4  # of the special values, for inputs of few elements
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0)
FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
BYTES = (DataType.UINT8, DataType.INT8)


@dataclass(frozen=True)
class Case:
    """A program of one operator. kind: a key of KINDS. detail: the example's title, or the message of the broken rule.

    rule: the name of the broken rule. expected: the exact contents of each resource that is an output; empty if the program
    only creates the operator.
    """

    name: str
    operator: str
    kind: str
    detail: str
    level: FeatureLevel
    program: Program | Mapping[str, Any]
    rule: str | None
    expected: Mapping[str, NDArray[Any]]


def cases(operator: type[Desc]) -> Iterator[Case]:
    """The cases of an operator: examples, its first feature level, other layouts and data, and descs that break a rule."""
    spec = operator.spec
    counts: Counter[str] = Counter()

    def made(
        kind: str, detail: str, level: FeatureLevel, program: Any, expected: Mapping[str, Any], rule: str | None = None
    ) -> Case:
        counts[kind] += 1
        return Case(f"{spec.name.lower()}.{kind}.{counts[kind]}", spec.name, kind, detail, level, program, rule, expected)

    def computed(kind: str, example: Example, level: FeatureLevel = FeatureLevel.FL_6_4) -> Case | None:
        desc = operator(**example.fields)
        try:
            check(desc, level)
            program = _with_files(of(desc, example.inputs))
            return made(kind, example.title, level, program, _contents(program))
        except Error:  # another layout or other data may break a rule
            if kind == "example":
                raise
            return None

    first = spec.examples[0]
    found = [
        *(computed("example", example) for example in spec.examples),
        computed("level", first, _first_level(operator(**first.fields))),
        *(computed(kind, example) for kind, example in [("strides", _strided(first)), *changed(first)] if example is not None),
    ]
    yield from filter(None, found)
    for broken in rejections(operator):
        desc = example_desc(operator, broken.fields)
        try:
            extensions = check(desc, broken.at).extensions
        except DescError as error:
            kind, detail = "rejected", str(error)
        else:
            kind, detail = "extension", "; ".join(map(str, extensions))
        yield made(kind, detail, broken.at, _creation(desc), {}, broken.constraint)


def changed(first: Example) -> Iterator[tuple[str, Example | None]]:
    """An example with other elements of its inputs, with a key of KINDS for each."""
    yield "ties", _with_values(first, _few_digits)
    for part in range(PARTS):
        yield "special", _with_values(first, partial(_special, part))


def write(folder: Path, operators: Sequence[type[Desc]], progress: Callable[[str], object]) -> Counter[str]:
    """Write the kit of some operators, and return how many cases of each kind it has. OSError if a file cannot be written."""
    from anydml import SEMANTICS_VERSION, __version__

    records, kinds = [], Counter[str]()
    for operator in operators:
        progress(operator.spec.name)
        for case in cases(operator):
            kinds[case.kind] += 1
            program = folder / PROGRAMS / case.name
            if isinstance(case.program, Program):
                case.program.save(program)
            else:
                program.mkdir(parents=True, exist_ok=True)
                text = json.dumps(case.program, indent=2) + "\n"
                whole_or_nothing(program / FILE, partial(_write_text, text=text))
            for name, contents in case.expected.items():
                (folder / EXPECTED / case.name).mkdir(parents=True, exist_ok=True)
                file = folder / EXPECTED / case.name / f"{name}.npy"
                whole_or_nothing(file, partial(np.save, arr=contents, allow_pickle=False))
            records.append(
                {
                    "name": case.name,
                    "operator": case.operator,
                    "kind": case.kind,
                    "level": str(case.level).replace("_", "."),
                    "detail": case.detail,
                    "rule": case.rule,
                    "outputs": list(case.expected),
                }
            )
    script = resources.files("anydml").joinpath(SCRIPT).read_text(encoding="utf-8")
    whole_or_nothing(folder / SCRIPT, partial(_write_text, text=script))
    document = {"anydml": __version__, "semantics": SEMANTICS_VERSION, "kinds": KINDS, "cases": records}
    whole_or_nothing(folder / RECORDS, partial(_write_text, text=json.dumps(document, indent=1) + "\n"))
    return kinds


def _write_text(file: Any, text: str) -> None:
    file.write(text.encode())


def _with_files(program: Program) -> Program:
    """The program with files of all its outputs instead of prints, which show six digits of an element."""
    commands = [
        {"type": "writeFile", "resource": c["resource"], "targetPath": f"{c['resource']}.npy"} if c["type"] != "dispatch" else c
        for c in program.document["commands"]
    ]
    return replace(program, document={**program.document, "commands": commands})


def _contents(program: Program) -> dict[str, NDArray[Any]]:
    """The exact contents of each output of a program, from its first element to its last one."""
    dispatches = tuple(c for c in program.commands if isinstance(c, Dispatch))
    found = replace(program, commands=dispatches).run(Device("reference"))
    return {c["resource"]: found[c["resource"]] for c in program.document["commands"] if c["type"] == "writeFile"}


def _creation(desc: Desc) -> dict[str, Any]:
    """A program that creates an operator of the desc, and nothing else."""
    return {"resources": {}, "dispatchables": {desc.spec.name.lower(): document_of(desc)}, "commands": []}


def _first_level(desc: Desc) -> FeatureLevel:
    """The first feature level that allows a desc."""
    for level in FeatureLevel:
        try:
            check(desc, level)
        except DescError:
            continue
        return level
    raise AssertionError("an example is allowed at no feature level")


def _strided(example: Example) -> Example | None:
    """The example with twice as large strides; None if it has tensors of 4 bits, or tensors that DirectML owns."""
    tensors = {name: t for name, t in example.fields.items() if isinstance(t, TensorDesc)}
    if any(t.data_type.element_bits == 4 or t.flags & TensorFlags.OWNED_BY_DML for t in tensors.values()):
        return None
    other = {
        name: replace(t, strides=tuple(2 * s for s in t.explicit_strides), total_tensor_size_in_bytes=0)
        for name, t in tensors.items()
    }
    return example._replace(fields={**example.fields, **other})


def _with_values(example: Example, drawn: Callable[[np.random.Generator, TensorDesc], NDArray[Any] | None]) -> Example | None:
    """The example with other elements of its inputs of floats and bytes; None if it has no such inputs."""
    rng = np.random.default_rng(len(example.inputs))
    inputs = dict(example.inputs)
    for name in example.inputs:
        tensor = example.fields.get(name)
        if isinstance(tensor, TensorDesc) and (values := drawn(rng, tensor)) is not None:
            inputs[name] = values
    return example._replace(inputs=inputs) if any(inputs[n] is not x for n, x in example.inputs.items()) else None


def _few_digits(rng: np.random.Generator, tensor: TensorDesc) -> NDArray[Any] | None:
    if tensor.data_type in BYTES:
        return rng.integers(0, 128, tensor.sizes).astype(tensor.data_type.dtype)
    if tensor.data_type in FLOATS:
        return (rng.integers(1, 32, tensor.sizes) / 8).astype(tensor.data_type.dtype)
    return None


def _special(part: int, rng: np.random.Generator, tensor: TensorDesc) -> NDArray[Any] | None:
    """Special values in a random order; an input of a quarter of their number has all of them in its PARTS parts."""
    if tensor.data_type not in FLOATS:
        return None
    info = np.finfo(tensor.data_type.dtype)
    among = np.array([*SPECIAL, info.smallest_subnormal, -info.smallest_subnormal, info.tiny, info.max, -info.max], info.dtype)
    return np.resize(np.roll(rng.permutation(among), part * len(among) // PARTS), tensor.sizes)
