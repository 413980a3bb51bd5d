"""Elements that some processors are slow with: a group that has any of them is computed without products of float32.

On Intel's processors, a product, quotient or root of float32 vectors takes 50 ns if it reads a subnormal number or makes one;
sums, comparisons and conversions are as fast as ever. As float64, no float32 is subnormal.
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
from anydml.kernels.numbers.functions.paired_circular import FAR
from anydml.tensor import DataType


class SlowElements(NamedTuple):
    """Nonzero elements of magnitude below `least`, those below a negative `low`, and those of magnitude from `far` on."""

    least: float
    low: float = 0.0
    far: float = math.inf

    def found(self, bits: Value) -> Value:
        """The lanes of a float32 vector that are slow elements, by their bits."""
        return self.any([bits])

    def any(self, words: Sequence[Value]) -> Value:
        """The lanes where any of several float32 vectors has a slow element, by their bits."""

        def extreme(which: str, bits: Sequence[Value]) -> Value:
            return reduce(partial(words[0].body.intrinsic, which), bits)

        sizes = [(word & 0x7FFFFFFF) - 1 for word in words]  # for 0, this is -1, the largest unsigned number
        found = extreme("umin", sizes).compared("ult", _bits(self.least) - 1)
        if self.low:
            found = found | extreme("umax", words).compared("ugt", _bits(self.low))
        if self.far < math.inf:
            found = found | extreme("smax", sizes).compared("sgt", _bits(self.far) - 2)
        return found


# below `least`, squares of arguments or tails of results are subnormal; in the other cases, tails are, or intermediate values
# of arguments that a function does not serve
OF_FUNCTIONS: dict[str, SlowElements | None] = {
    "exp": SlowElements(2.0**-60, far=68.0),
    "sigmoid": SlowElements(2.0**-40, -50.0),
    "swish": SlowElements(2.0**-60, -50.0),
    "tanh": SlowElements(2.0**-40),
    "erf": SlowElements(2.0**-80),
    "gelu": SlowElements(2.0**-70),
    "sin": SlowElements(2.0**-40, far=FAR),
    "cos": SlowElements(2.0**-30, far=FAR),
    "pow": None,  # its products are float64
}
OF_PAIRS = SlowElements(2.0**-126)  # if arguments of functions are computed numbers
OF_OPERATIONS = SlowElements(2.0**-60)  # the product of two elements that are not slow is not subnormal


def slow_elements(body: Body, key: MapKey) -> SlowElements | None:
    """The slow elements of a kernel, or None if it has no other way to compute them."""
    if "avx2" not in body.target.features or DataType.FLOAT32 not in key.types[:-1]:
        return None
    if key.listed:
        if key.levels[0] != "paired":
            return None
        name = settled.function(key.formula)
        return OF_PAIRS if name is None else OF_FUNCTIONS.get(name, OF_PAIRS)
    return OF_OPERATIONS if not key.moves and _by_operations(body, key) else None


def _by_operations(body: Body, key: MapKey) -> bool:
    """Whether elements are computed by slow float32 operations that float64 can replace."""
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
