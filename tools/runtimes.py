"""Judges float operators of NumPy, onnxruntime and torch at hostile inputs: is what correct runtimes compute ever called wrong?

python tools/runtimes.py [--runtime NAME] [--only WORD] [--inputs NAME]

Each output is judged as `assert_rounding` and `anydml compare` judge it: equal, explained by rounding at each step of the
operator's formula, explained by rounding in another form of it, or beyond all of them. Runtimes that are not installed are left
out.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.explain.beyond import judged as judged_case
from anydml.explain.bounded import Unbounded
from anydml.explain.compare import case_of
from anydml.explain.forms import FORMS
from runtimes_cases import OPERATORS
from runtimes_maps import Operator

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


def table(cells: list[Cell], runtimes: list[str], inputs: list[str]) -> None:
    """A sign for each cell, by operator, runtime and input; the counts; and a sentence for each cell beyond rounding."""
    signs = {"equal": "=", "rounding": "r", BEYOND: "X", UNBOUNDED: "?", FAILED: "!"}
    signs |= {form.sentence: letter for form, letter in zip(FORMS, "F1BA", strict=False)}  # the others are of integers
    found = {(c.operator, c.runtime, c.inputs): c for c in cells}
    operators = list(dict.fromkeys(c.operator for c in cells))
    print(f"inputs: {', '.join(inputs)}\n\n{'':34}" + "".join(f"{r:{len(inputs) + 4}}" for r in runtimes))
    for operator in operators:
        rows = (("".join(_sign(found.get((operator, r, i)), signs) for i in inputs)) for r in runtimes)
        print(f"{operator:34}" + "".join(f"{row:{len(inputs) + 4}}" for row in rows))
    print(f"\n{'':64}" + "".join(f"{r:>13}" for r in runtimes))
    for verdict in dict.fromkeys([*signs, *(c.verdict for c in cells)]):
        counts = [sum(c.verdict == verdict for c in cells if c.runtime == r) for r in runtimes]
        if any(counts):
            title = verdict if verdict in ("equal", "rounding", BEYOND, UNBOUNDED, FAILED) else f"explained by {verdict}"
            print(f"{signs.get(verdict, '*'):3}{title:61}" + "".join(f"{n:>13}" for n in counts))
    print(f"{'':3}{'all':61}" + "".join(f"{sum(c.runtime == r for c in cells):>13}" for r in runtimes) + "\n")
    for c in cells:
        if c.detail:
            print(f"{c.operator}, {c.runtime}, {c.inputs}: {c.verdict}: {c.detail}")


def _sign(cell: Cell | None, signs: Mapping[str, str]) -> str:
    return " " if cell is None else signs.get(cell.verdict, "*")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", choices=RUNTIMES, action="append", help="judge only this one")
    parser.add_argument("--only", default="", help="operators whose names contain this word")
    parser.add_argument("--inputs", choices=INPUTS, action="append", help="only these inputs")
    given = parser.parse_args(arguments)
    runtimes = [r for r in given.runtime or RUNTIMES if importlib.util.find_spec(r)]
    inputs = given.inputs or list(INPUTS)
    cells = []
    for operator in OPERATORS:
        if given.only not in operator.name:
            continue
        for kind in inputs:
            cells += [judged(operator, r, kind) for r in runtimes if r in operator.runtimes]
    table(cells, runtimes, inputs)


if __name__ == "__main__":
    main()
