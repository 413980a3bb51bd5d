"""Searches for the largest ratio of an error to its bound, for each case, with records of the ratios found."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from anydml import operators
from anydml.kernels.code import targets
from anydml.schema.operator import Desc
from anydml.tensor import DataType, TensorDesc
from bound_probes import Extent, climbed, exactly, probed, ratios
from bound_probes import Records as Claims
from every_kernel import SOAK, without_dot_products

CANDIDATES, ROUNDS = 8, 2 * SOAK
CHANGED = 1.25  # a ratio that differs from its record by more belongs to another bound
STAGES = ("first", "second", "rough")  # the last is a second stage's wider bound, where it tries two
PLACES = {stage: place for place, stage in enumerate(STAGES)} | {"careful": 1}  # of records: a first stage's narrower bound
EXTENTS = Path(__file__).with_name("bound_extents.json")
WIDER, OTHERS = 0.02, 0.01  # differences from the records of extents: of the mean logarithm, and of counts as a share of all
WIDTHS = ("generic", "avx2", "avx512bw")
ISAS = {
    "generic": 0,
    "avx2": 1,
    "avx_vnni": 1,
    "avx512bw": 2,
    "avx512_vnni": 2,
    "amx_int8": 2,
}  # of x86: the column of the records
Array = NDArray[Any]
Rng = np.random.RandomState
Inputs = dict[str, Array]
Records = Mapping[str, Sequence[float]]
TYPES = {np.dtype(t.name.lower()): t for t in (DataType.FLOAT32, DataType.FLOAT16, DataType.INT32, DataType.UINT32)}


class Case(NamedTuple):
    """An operator and the inputs of a search, with candidates along the first axis.

    inputs: makes them from random numbers; kept: the inputs that the search does not change. sizes: of the output; beside: of
    others, which are not looked at. open: the largest share of elements without a bound.
    """

    operator: str
    kernel: str
    oracle: Any  # the module
    fields: dict[str, Any]
    inputs: Callable[[Rng], Inputs]
    sizes: Callable[[Inputs], tuple[int, ...]]
    kept: tuple[str, ...] = ()
    output: str = "output_tensor"
    told: dict[str, Any] | None = None  # the fields in the oracle's form
    shaped: Callable[[Inputs], Inputs] = dict  # the operator's inputs, from the candidates
    open: float = 0.1
    rounds: int = ROUNDS
    stages: Sequence[str] = STAGES[:2]
    patched: Sequence[tuple[Any, str, Any]] = ()  # modules, names and values: limits beyond which another family serves
    all_extents: bool = False  # on every instruction set, where first stages differ
    beside: Callable[[Inputs], Mapping[str, tuple[int, ...]]] = lambda _: {}


def described(case: Case, inputs: Inputs, sizes: Sequence[int], dtype: Any) -> Desc:
    tensors = {name: TensorDesc(TYPES[x.dtype], x.shape) for name, x in inputs.items()}
    kind: Any = operators.find(case.operator)
    every = {case.output: sizes, **case.beside(inputs)}
    outputs = {name: TensorDesc(TYPES[np.dtype(dtype)], n) for name, n in every.items()}
    made: Desc = kind(**tensors, **outputs, **case.fields)
    return made


def begun(case: Case) -> tuple[Inputs, Inputs]:
    """The candidates that a search begins with, and the inputs that it leaves as they are."""
    start = case.inputs(Rng(7))
    return start, {name: start.pop(name) for name in case.kept}


def claimed(case: Case, start: Inputs, same: Inputs, stage: str, isa: str) -> Claims:
    """The records of the outputs of candidates."""
    inputs = case.shaped(start) | same
    dtype = next(iter(inputs.values())).dtype
    desc = described(case, inputs, case.sizes(inputs), dtype)
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in case.patched:
            patch.setattr(module, name, value)
        return probed(desc, inputs, case.kernel, stage=stage, isa=isa, output=case.output)


def extent(case: Case, stage: str, isa: str) -> Extent:
    """The width of the claims about the inputs that a search begins with."""
    with np.errstate(all="ignore"):
        return claimed(case, *begun(case), stage, isa).extent()


def largest(case: Case, stage: str, isa: str) -> float:
    """The largest ratio that a search finds."""
    start, same = begun(case)

    def rate(candidates: Inputs) -> Array:
        count = len(next(iter(candidates.values())))
        records = claimed(case, candidates, same, stage, isa)
        inputs = case.shaped(candidates) | same
        sizes, dtype = case.sizes(inputs), next(iter(inputs.values())).dtype
        outputs = {name: (n, dtype) for name, n in {case.output: sizes, **case.beside(inputs)}.items()}
        exact = exactly(case.oracle, case.operator, case.told or case.fields, inputs, outputs)
        found = ratios(records, exact)
        assert np.isnan(found).mean() <= case.open, f"nothing is claimed of {np.isnan(found).mean():.0%} of the elements"
        best: Array = np.fmax.reduce(found.reshape(count, -1), axis=1, initial=0.0)
        return best

    with np.errstate(all="ignore"):
        return climbed(start, rate, case.rounds, Rng(5))


def judge(name: str, stage: str, isa: str, ratio: float, records: Records) -> None:
    assert ratio <= 1, f"{name}: an error is {ratio:.4g} times its bound, at the {stage} stage on {isa}"
    if SOAK == 1 and isa in ISAS and targets.named(isa) in targets.X86:
        record = records[name][3 * PLACES[stage] + ISAS[isa]]
        message = f"{name}: the largest ratio is {ratio:.4g}, and was {record:.4g}, at the {stage} stage on {isa}"
        assert record / CHANGED <= ratio <= record * CHANGED, f"{message}: a bound has changed"


@cache
def extents() -> dict[str, dict[str, list[float]]]:
    """The records of extents, by kernel and case, and by stage and instruction set."""
    found: dict[str, dict[str, list[float]]] = json.loads(EXTENTS.read_text())
    return found


def judge_extent(kernel: str, name: str, stage: str, isa: str, found: Extent) -> None:
    """Compare the extent of claims with its record, which a bound changes even where no error is near it."""
    if isa in ISAS and targets.named(isa) in targets.X86:
        record = Extent(*extents()[f"{kernel} {name}"][f"{stage} {WIDTHS[ISAS[isa]]}"])  # type: ignore[arg-type]
        told = f"{name}: the claims are {found}, and were {record}, at the {stage} stage on {isa}: a bound has changed"
        assert abs(found.mean - record.mean) <= WIDER, told
        most = OTHERS * (sum(record[1:]) + 1)
        assert all(abs(a - b) <= most for a, b in zip(found[1:], record[1:], strict=True)), told


def check(cases: Mapping[str, Case], records: Records, name: str) -> None:
    """Judge a case at both stages. Instruction sets take turns; in `make soak`, each case runs on all of them."""
    rows = [row.name for row in without_dot_products()]
    turn = list(records).index(name)
    for n, stage in enumerate(cases[name].stages):
        for isa in rows if SOAK > 1 else [rows[(turn + n) % len(rows)]]:
            ratio = largest(cases[name], stage, isa)
            print(f"{name}, {stage} stage, {isa}: {ratio:.3g}")
            judge(name, stage, isa, ratio, records)
        for isa in rows if SOAK > 1 or (cases[name].all_extents and n == 0) else [rows[(turn + n) % len(rows)]]:
            judge_extent(cases[name].kernel, name, stage, isa, extent(cases[name], stage, isa))


def check_extent(case: Case, name: str) -> None:
    """Judge the width of the claims of a case, on an instruction set; in `make soak`, on all."""
    for stage in case.stages:
        for row in without_dot_products()[:: None if SOAK > 1 else 99]:
            judge_extent(case.kernel, name, stage, row.name, extent(case, stage, row.name))


def printed(cases: Mapping[str, Case], names: Sequence[str]) -> None:
    """Print a table of records."""
    for name in names or cases:
        found = [f"{largest(cases[name], stage, isa):.3g}" for stage in cases[name].stages for isa in WIDTHS]
        print(f'    "{name}": ({", ".join(found)}),', flush=True)


# --- candidates ---


def normal(rng: Rng, *sizes: int) -> Array:
    """Nearly normal numbers, made of uniform ones only."""
    found: Array = rng.uniform(-1, 1, (3, CANDIDATES, *sizes)).sum(0).astype(np.float32)
    return found


def signs(rng: Rng, *sizes: int) -> Array:
    found: Array = np.sign(normal(rng, *sizes))
    return found


def about_one(rng: Rng, *sizes: int) -> Array:
    return 1 + normal(rng, *sizes) / 64


def cancelling(rng: Rng, *sizes: int) -> Array:
    """Numbers near 1 with alternating signs, whose sums are far below their terms."""
    found: Array = (about_one(rng, *sizes) * np.where(np.arange(sizes[-1]) % 2, 1, -1)).astype(np.float32)
    return found


def wide(rng: Rng, *sizes: int, least: int = -40, most: int = 40) -> Array:
    """Numbers with very different exponents."""
    found: Array = (normal(rng, *sizes) * 2.0 ** rng.randint(least, most, (CANDIDATES, *sizes))).astype(np.float32)
    return found


def outlier(rng: Rng, *sizes: int, size: float = 1e4) -> Array:
    """Rows whose first element is far larger than the others."""
    found: Array = normal(rng, *sizes)
    found[..., 0] *= size
    return found


def powers_of_two(rng: Rng, *sizes: int) -> Array:
    found: Array = (signs(rng, *sizes) * 2.0 ** rng.randint(-12, 12, (CANDIDATES, *sizes))).astype(np.float32)
    return found


def alike(rng: Rng, *sizes: int, apart: float = 1e-3) -> Array:
    """Rows of large, nearly equal numbers."""
    found: Array = (40 * (1 + normal(rng, *sizes[:-1], 1) ** 2) + apart * normal(rng, *sizes)).astype(np.float32)
    return found


def halves(case: Case) -> Case:
    """The same case of FLOAT16."""

    def inputs(rng: Rng) -> Inputs:
        return {name: x.astype(np.float16) if x.dtype.kind == "f" else x for name, x in case.inputs(rng).items()}

    return case._replace(inputs=inputs)


def scaled(make: Callable[..., Array], by: float) -> Callable[..., Array]:
    """The rows of `make` times a factor, as far as to the ends of the range."""
    return lambda rng, *sizes: (make(rng, *sizes).astype(np.float64) * by).astype(np.float32)
