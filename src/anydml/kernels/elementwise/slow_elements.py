"""Elements that some processors are slow with: a group that has any of them is computed without float32's products.

On Intel's processors, a product, quotient or root of vectors of float32 takes 50 ns where it reads a subnormal number or makes
one; a sum, a comparison and a conversion take as long as ever. In float64, no float32 is subnormal.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import partial, reduce
from typing import NamedTuple

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import settled
from anydml.kernels.elementwise.key import MapKey
from anydml.kernels.elementwise.levels import element
from anydml.tensor import DataType


class SlowElements(NamedTuple):
    """Elements but zeros that are smaller than `least`, those below `low` if it is below 0, and those from `far` on."""

    least: float
    low: float = 0.0
    far: float = math.inf

    def found(self, bits: Value) -> Value:
        """Which of some float32 are such, by their bits alone."""
        return self.any([bits])

    def any(self, words: Sequence[Value]) -> Value:
        """Where any of some float32 is such."""

        def extreme(which: str, bits: Sequence[Value]) -> Value:
            return reduce(partial(words[0].body.intrinsic, which), bits)

        sizes = [(word & 0x7FFFFFFF) - 1 for word in words]  # of a zero, -1, or the largest number without a sign
        found = extreme("umin", sizes).compared("ult", _bits(self.least) - 1)
        if self.low:
            found = found | extreme("umax", words).compared("ugt", _bits(self.low))
        if self.far < math.inf:
            found = found | extreme("smax", sizes).compared("sgt", _bits(self.far) - 2)
        return found


# below `least`, squares of arguments or tails of results are subnormal; elsewhere, tails are, or what a function makes of
# arguments beyond those that it serves
OF_FUNCTIONS: dict[str, SlowElements | None] = {
    "exp": SlowElements(2.0**-60, far=68.0),
    "sigmoid": SlowElements(2.0**-40, -50.0),
    "swish": SlowElements(2.0**-60, -50.0),
    "tanh": SlowElements(2.0**-40),
    "erf": SlowElements(2.0**-80),
    "gelu": SlowElements(2.0**-70),
    "pow": None,  # whose products are float64's
}
OF_PAIRS = SlowElements(2.0**-126)  # where arguments of a function are no elements
OF_OPERATIONS = SlowElements(2.0**-60)  # products of two that are not slow are no subnormal numbers


def slow_elements(body: Body, key: MapKey) -> SlowElements | None:
    """Those of a kernel, if it has another way for them."""
    if "avx2" not in body.target.features or DataType.FLOAT32 not in key.types[:-1]:
        return None
    if key.listed:
        if key.levels[0] != "paired":
            return None
        name = settled.function(key.formula)
        return OF_PAIRS if name is None else OF_FUNCTIONS.get(name, OF_PAIRS)
    return OF_OPERATIONS if not key.moves and _by_operations(body, key) else None


def _by_operations(body: Body, key: MapKey) -> bool:
    """Whether an element is made by operations of float32 that float64 has as well."""
    texts = []
    for level in ("wide", "float64"):
        trial = Body(body.target)
        streams = [trial.undefined(Kind(f"i{t.element_bits}", key.lanes)) for t in key.types[:-1]]
        try:
            _, undecided = element(trial, key, streams, level)
        except Uncompilable:
            return False
        if undecided is not None:
            return False
        texts.append(trial.lines)
    kind = f"<{key.lanes} x float>"
    return any(_slow(line, kind) for line in texts[0]) and not any(_slow(line, kind) for line in texts[1])


def _slow(line: str, kind: str) -> bool:
    instruction = line.partition(" = ")[2]
    return instruction.startswith((f"fmul {kind}", f"fdiv {kind}", f"call {kind} @llvm.sqrt.", f"call {kind} @llvm.fma."))


def _bits(x: float) -> int:
    found: int = struct.unpack("<i", struct.pack("<f", x))[0]
    return found
