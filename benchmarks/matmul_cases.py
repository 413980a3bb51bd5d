"""The matmuls that are timed: their data, bound to a device, and exact corners of their results."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml

Array = NDArray[Any]
TYPES: dict[str, np.dtype[Any]] = {"u8": np.dtype(np.uint8), "s8": np.dtype(np.int8), "s32": np.dtype(np.int32)}
MIDDLE = {"u8": 128, "s8": 0}


class Case(NamedTuple):
    """One matmul.

    types: of A, B and the output; "s32" is MATRIX_MULTIPLY_INTEGER. granularity: the parameters that differ by row (of B: by
    column): "", "scales", or "scales and zero points". owned: B is bound by initialize. data: "random", over the whole range;
    "powers", the same with scales that are powers of two; "ties", with a tie in every element of the result.
    """

    m: int
    k: int
    n: int
    types: tuple[str, str, str]
    batch: int = 1
    granularity: str = "tensor"
    owned: bool = True
    data: str = "random"

    @property
    def shape(self) -> str:
        return f"{self.batch} x " * (self.batch > 1) + f"{self.m} x {self.k} x {self.n}"

    @property
    def macs(self) -> int:
        return self.batch * self.m * self.k * self.n

    @property
    def quantized(self) -> bool:
        return self.types[2] != "s32"

    def __str__(self) -> str:
        extras = [] if self.granularity == "tensor" else [f"per row: {self.granularity}"]
        extras += [] if self.owned else ["bound"]
        extras += [] if self.data == "random" else [self.data]
        return ", ".join([self.shape, " ".join(self.types), *extras])


class Data(NamedTuple):
    """The inputs by field name, with the sizes of their descs."""

    case: Case
    inputs: dict[str, Array]

    def scalar(self, name: str) -> Any:
        return self.inputs[name].flat[0].item()


def data(case: Case, seed: int = 0) -> Data:
    """Random numbers over the whole range of the types, with which few results saturate."""
    rng = np.random.default_rng(seed)
    a_type, b_type, y_type = case.types
    lead = (case.batch,) if case.batch > 1 else ()
    a, b = (
        np.frombuffer(rng.bytes(math.prod(sizes)), TYPES[of]).reshape(sizes).copy()
        for of, sizes in ((a_type, (*lead, case.m, case.k)), (b_type, (*lead, case.k, case.n)))
    )
    inputs = {"a_tensor": a, "b_tensor": b}
    zero_points = case.granularity == "scales and zero points"

    def zero_point(of: str, sizes: tuple[int, int]) -> Array:
        values: Array = MIDDLE[of] + rng.integers(-9, 10, sizes if zero_points else (1, 1))
        return values.astype(TYPES[of])

    inputs["a_zero_point_tensor"] = zero_point(a_type, (case.m, 1))
    inputs["b_zero_point_tensor"] = zero_point(b_type, (1, case.n))
    if not case.quantized:
        return Data(case, inputs)
    inputs["output_zero_point_tensor"] = zero_point(y_type, (case.m, 1))
    fine = case.granularity != "tensor"
    for of, sizes, typical in (("a", (case.m, 1), 0.02), ("b", (1, case.n), 0.005), ("output", (case.m, 1), 0.0)):
        # 74 is the standard deviation of numbers over the whole range; that of results is forty steps of the output
        around = typical or 0.02 * 0.005 * 74 * 74 * math.sqrt(case.k) / 40
        scale: Array = around * rng.uniform(0.8, 1.25, sizes if fine else (1, 1))
        if case.data == "powers":
            scale = 2.0 ** np.round(np.log2(scale))
        inputs[f"{of}_scale_tensor"] = scale.astype(np.float32)
    if case.data == "ties":
        _make_ties(case, inputs, rng)
    return Data(case, inputs)


def _make_ties(case: Case, inputs: dict[str, Array], rng: np.random.Generator) -> None:
    """Sums that are odd multiples of 3, with scales whose quotient is exactly a sixth: all are half-integers, in range.

    Pairs of products that cancel fill K with ordinary numbers, and multiples of 6 in A. The rest is one product of 3, an odd
    number, and an odd number.
    """
    a_type, b_type, y_type = case.types
    assert case.k % 2 == 0
    assert case.granularity == "tensor"
    a = 6 * rng.integers(-21, 22, (case.m, case.k))
    b = rng.integers(-127, 128, (case.k, case.n))
    a[:, 1::2], b[1::2] = a[:, ::2], -b[::2]
    a[:, 0], a[:, 1] = 3 * rng.choice((-5, -3, -1, 1, 3, 5), case.m), 0
    b[0] = 2 * rng.integers(-23, 24, case.n) - 1
    for of, centred, of_type in (("a", a, a_type), ("b", b, b_type), ("output", None, y_type)):
        inputs[f"{of}_zero_point_tensor"] = np.full((1, 1), MIDDLE[of_type], TYPES[of_type])
        if centred is not None:
            inputs[f"{of}_tensor"] = (centred + MIDDLE[of_type]).astype(TYPES[of_type])
    for of, scale in (("a", 3 * 2.0**-8), ("b", 5 * 2.0**-9), ("output", 6 * 15 * 2.0**-17)):
        inputs[f"{of}_scale_tensor"] = np.full((1, 1), scale, np.float32)
    products = np.outer(a[:, 0], b[0])
    assert (products % 6 == 3).all()
    assert (np.abs(products) < 6 * 127).all()


def bound(d: Data, device: dml.Device) -> tuple[Callable[[], object], Array, str]:
    """The call that is timed, its output, and the kernel's name."""
    case = d.case
    output = np.zeros((*d.inputs["a_tensor"].shape[:-1], case.n), TYPES[case.types[2]])
    owned = {"b_tensor"} if case.owned else set()
    descs: dict[str, Any] = {
        name: dml.TensorDesc(x.dtype.name.upper(), x.shape, flags="OWNED_BY_DML" if name in owned else "NONE")
        for name, x in (d.inputs | {"output_tensor": output}).items()
    }
    desc = dml.QuantizedLinearMatrixMultiply(**descs) if case.quantized else dml.MatrixMultiplyInteger(**descs)
    compiled = device.compile(desc)
    if owned:
        compiled.initialize(**{name: d.inputs[name] for name in owned})
    rest = {name: x for name, x in d.inputs.items() if name not in owned}
    return compiled.bind(**rest, output_tensor=output).execute, output, compiled.kernel_name


def check_corners(d: Data, output: Array, rows: int = 3, columns: int = 40) -> None:
    """Compare some rows of the first batch and of the last, at both ends, with integers and fractions."""
    case, inputs = d.case, d.inputs

    def corner(name: str, at_row: slice, at_column: slice) -> Array:
        array = inputs[name]
        array = array[0 if first else -1] if array.ndim > 2 else array
        at_row = slice(None) if array.shape[0] == 1 else at_row
        return array[at_row, slice(None) if array.shape[1] == 1 else at_column]

    everything = slice(None)
    ends = [(slice(0, rows), slice(0, columns), True), (slice(-rows, None), slice(-columns, None), False)]
    for r, c, first in ends:
        a = corner("a_tensor", r, everything).astype(np.int64) - corner("a_zero_point_tensor", r, everything)
        b = corner("b_tensor", everything, c).astype(np.int64) - corner("b_zero_point_tensor", everything, c)
        q = a @ b
        found = (output[0 if first else -1] if output.ndim > 2 else output)[r, c]
        if case.quantized:
            scales = [np.broadcast_to(corner(f"{of}_scale_tensor", r, c), q.shape) for of in ("a", "b", "output")]
            steps = [
                round(Fraction(int(s)) * Fraction(float(x)) * Fraction(float(y)) / Fraction(float(z)))  # half to even
                for s, x, y, z in zip(q.flat, *(scale.flat for scale in scales), strict=True)
            ]
            exact = np.reshape(steps, q.shape) + corner("output_zero_point_tensor", r, c).astype(np.int64)
            limits = np.iinfo(output.dtype)
            assert ((exact > limits.min) & (exact < limits.max)).mean() > 0.5, "most outputs saturate"
            q = exact.clip(limits.min, limits.max)
        np.testing.assert_array_equal(found, q, err_msg=str(case))
