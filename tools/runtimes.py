"""Judges float operators of NumPy, onnxruntime and torch at hostile inputs: is what correct runtimes compute ever called wrong?

python tools/runtimes.py [--runtime NAME] [--only WORD] [--inputs NAME] [--cells]

Each output is judged as `assert_rounding` and `anydml compare` judge it: equal, explained by rounding at each step of the
operator's formula, explained by rounding in another form of it, or beyond all of them. Runtimes that are not installed are left
out.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.explain.beyond import judged as judged_case
from anydml.explain.bounded import Unbounded
from anydml.explain.compare import case_of
from runtimes_cases import OPERATORS, Operator

Array = NDArray[Any]
F32 = np.float32
RUNTIMES = ("numpy", "onnxruntime", "torch")
BEYOND, UNBOUNDED, FAILED = "beyond", "no bound", "failed"

Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _alternating(random: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    """Pairs that cancel but for a millionth."""
    x = random.standard_normal(sizes).reshape(-1)
    x[1::2] = -x[: len(x) - len(x) % 2 : 2] * (1 + 1e-6)
    return x.reshape(sizes)


def _zeros(random: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    return np.where(random.random(sizes) < 0.5, np.copysign(0.0, random.standard_normal(sizes)), random.standard_normal(sizes))


INPUTS: Mapping[str, Draw] = {
    "normal": lambda random, sizes: random.standard_normal(sizes),
    "large mean": lambda random, sizes: 1000 + 0.01 * random.standard_normal(sizes),
    "small variance": lambda random, sizes: 30 + 0.05 * random.standard_normal(sizes),
    "saturated": lambda random, sizes: random.choice([-1, 1], sizes) * random.uniform(5, 110, sizes),
    "tiny": lambda random, sizes: random.standard_normal(sizes) * 10.0 ** random.uniform(-44, -20, sizes),
    "huge": lambda random, sizes: random.standard_normal(sizes) * 10.0 ** random.uniform(3, 18, sizes),
    "integers": lambda random, sizes: random.integers(-9, 10, sizes).astype(np.float64),
    "zeros": _zeros,
    "alternating": _alternating,
}


class Cell(NamedTuple):
    """An operator of a runtime at some inputs: the verdict, and a sentence about the worst element."""

    operator: str
    runtime: str
    inputs: str
    verdict: str
    detail: str = ""


def drawn(operator: Operator, kind: str) -> dict[str, Array]:
    """The operator's inputs, the same for every runtime."""
    random = np.random.default_rng(sum(map(ord, f"{operator.name} {kind}")))
    made = {name: INPUTS[kind](random, sizes) for name, sizes in operator.hostile.items()}
    made |= {name: random.standard_normal(sizes) * 0.5 for name, sizes in operator.ordinary.items()}
    return {name: (np.abs(x) if name in operator.positive else x).astype(F32) for name, x in made.items()}


def judged(operator: Operator, runtime: str, kind: str) -> Cell:
    """The verdict on one output."""
    arrays = drawn(operator, kind)
    where = operator.name, runtime, kind
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            actual = np.ascontiguousarray(operator.runtimes[runtime](arrays))
        except Exception as error:
            return Cell(*where, FAILED, f"{type(error).__name__}: {error}"[:150])
        fields = {**operator.fields, **({"output": operator.output} if operator.output else {})}
        case = case_of(operator.function, **arrays, **fields, actual=actual)
        bits = [np.ascontiguousarray(x).view(np.uint32) for x in (case.expected, case.actual)]
        if ((bits[0] == bits[1]) | (np.isnan(case.expected) & np.isnan(case.actual))).all():
            return Cell(*where, "equal")
        try:
            found, forms = judged_case(case)
        except Unbounded as error:
            return Cell(*where, UNBOUNDED, str(error))
    if found is None:
        return Cell(*where, "; ".join(forms) or "rounding")
    detail = (
        f"{found.elements} of {case.expected.size}, at {list(found.at)}: {case.actual[found.at]!s}, not "
        f"{case.expected[found.at]!s} ({found.low} to {found.high})"
    )
    return Cell(*where, BEYOND, detail)


def table(cells: list[Cell], runtimes: list[str]) -> None:
    """The counts of verdicts by runtime, and each cell that rounding at each step does not explain."""
    verdicts = list(dict.fromkeys(["equal", "rounding", *(c.verdict for c in cells)]))
    print(f"{'runtime':14}{'judged':>8}" + "".join(f"{v:>{max(12, len(v) + 2)}}" for v in verdicts))
    for runtime in runtimes:
        counts = Counter(c.verdict for c in cells if c.runtime == runtime)
        print(f"{runtime:14}{counts.total():>8}" + "".join(f"{counts[v]:>{max(12, len(v) + 2)}}" for v in verdicts))
    print()
    for c in cells:
        if c.verdict not in ("equal", "rounding"):
            print(f"{c.operator}, {c.runtime}, {c.inputs}: {c.verdict} {c.detail}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", choices=RUNTIMES, action="append", help="judge only this one")
    parser.add_argument("--only", default="", help="operators whose names contain this word")
    parser.add_argument("--inputs", choices=INPUTS, action="append", help="only these inputs")
    given = parser.parse_args()
    runtimes = [r for r in given.runtime or RUNTIMES if importlib.util.find_spec(r)]
    cells = []
    for operator in OPERATORS:
        if given.only not in operator.name:
            continue
        for kind in given.inputs or INPUTS:
            cells += [judged(operator, r, kind) for r in runtimes if r in operator.runtimes]
    table(cells, runtimes)


if __name__ == "__main__":
    main()
