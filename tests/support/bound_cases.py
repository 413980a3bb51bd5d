"""Searches for the largest ratio of an error to its bound, for each case, with records of the ratios found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml import operators
from anydml.kernels.code import targets
from anydml.schema.operator import Desc
from anydml.tensor import DataType, TensorDesc
from bound_probes import climbed, exactly, probed, ratios
from every_kernel import SOAK, without_dot_products

CANDIDATES, ROUNDS = 8, 2 * SOAK
CHANGED = 1.25  # if a ratio differs from its record by a larger factor, the bound has changed
STAGES = ("first", "second")
ISAS = {"generic": 0, "avx2": 1, "avx_vnni": 1, "avx512bw": 2, "avx512_vnni": 2}  # of x86: the column of each in the records
Array = NDArray[Any]
Rng = np.random.RandomState
Inputs = dict[str, Array]
Records = Mapping[str, Sequence[float]]
TYPES = {np.dtype(t.name.lower()): t for t in (DataType.FLOAT32, DataType.FLOAT16, DataType.INT32, DataType.UINT32)}


class Case(NamedTuple):
    """An operator and the inputs of a search, with candidates along the first axis.

    inputs: makes them from random numbers; kept: the inputs that the search does not change. sizes: of the output. open: the
    largest share of elements without a bound.
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
    stages: Sequence[str] = STAGES


def described(case: Case, inputs: Inputs, sizes: Sequence[int], dtype: Any) -> Desc:
    tensors = {name: TensorDesc(TYPES[x.dtype], x.shape) for name, x in inputs.items()}
    kind: Any = operators.find(case.operator)
    made: Desc = kind(**tensors, **{case.output: TensorDesc(TYPES[np.dtype(dtype)], sizes)}, **case.fields)
    return made


def largest(case: Case, stage: str, isa: str) -> float:
    """The largest ratio that a search finds for a kernel stage and an instruction set."""
    start = case.inputs(Rng(7))
    same = {name: start.pop(name) for name in case.kept}

    def rate(inputs: Inputs) -> Array:
        count = len(next(iter(inputs.values())))
        inputs = case.shaped(inputs) | same
        sizes = case.sizes(inputs)
        dtype = next(iter(inputs.values())).dtype
        records = probed(described(case, inputs, sizes, dtype), inputs, case.kernel, stage=stage, isa=isa, output=case.output)
        exact = exactly(case.oracle, case.operator, case.told or case.fields, inputs, {case.output: (sizes, dtype)})
        found = ratios(records, exact)
        assert np.isnan(found).mean() <= case.open, f"nothing is claimed of {np.isnan(found).mean():.0%} of the elements"
        best: Array = np.fmax.reduce(found.reshape(count, -1), axis=1, initial=0.0)
        return best

    with np.errstate(all="ignore"):
        return climbed(start, rate, case.rounds, Rng(5))


def judge(name: str, stage: str, isa: str, ratio: float, records: Records) -> None:
    assert ratio <= 1, f"{name}: an error is {ratio:.4g} times its bound, at the {stage} stage on {isa}"
    if SOAK == 1 and isa in ISAS and targets.named(isa) in targets.X86:
        record = records[name][3 * STAGES.index(stage) + ISAS[isa]]
        message = f"{name}: the largest ratio is {ratio:.4g}, and was {record:.4g}, at the {stage} stage on {isa}"
        assert record / CHANGED <= ratio <= record * CHANGED, f"{message}: a bound has changed"


def check(cases: Mapping[str, Case], records: Records, name: str) -> None:
    """Judge a case at both stages. Instruction sets take turns; in `make soak`, each case runs on all of them."""
    rows = [row.name for row in without_dot_products()]
    turn = list(records).index(name)
    for n, stage in enumerate(cases[name].stages):
        for isa in rows if SOAK > 1 else [rows[(turn + n) % len(rows)]]:
            ratio = largest(cases[name], stage, isa)
            print(f"{name}, {stage} stage, {isa}: {ratio:.3g}")
            judge(name, stage, isa, ratio, records)


def printed(cases: Mapping[str, Case], names: Sequence[str]) -> None:
    """Print a table of records."""
    for name in names or cases:
        found = [
            f"{largest(cases[name], stage, isa):.3g}" for stage in cases[name].stages for isa in ("generic", "avx2", "avx512bw")
        ]
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


def scaled(make: Callable[..., Array], by: float) -> Callable[..., Array]:
    """The rows of `make` times a factor, as far as to the ends of the range."""
    return lambda rng, *sizes: (make(rng, *sizes).astype(np.float64) * by).astype(np.float32)
