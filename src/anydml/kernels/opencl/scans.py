"""Running sums and products on OpenCL devices: exact, each line in chunks, each chunk by a work item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from math import isqrt, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.exact.formats import FORMATS, Format
from anydml.kernels.code import opencl
from anydml.kernels.evaluate.tally import Counted
from anydml.kernels.kernel import Built, DeviceCall, DeviceMemory, Machine, Refused
from anydml.kernels.match.scans import Scan, scan
from anydml.kernels.opencl.calls import ElementCall, ExactCall, Launch, Layout, Listing, Stage, Workspace, unbound
from anydml.kernels.opencl.order import UNSIGNED, shape_of
from anydml.kernels.opencl.overlap import Arrays, Copies
from anydml.kernels.problem import Problem
from anydml.kernels.scan import exact
from anydml.tensor import DataType, TensorDesc

LEAST = 64  # elements of a chunk, if a line has more
ENOUGH = 1 << 14  # chunks that keep all work items of a device busy
FACTORS = 3  # words of a product
UNITS = 64  # of work for an element
TYPES = (DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16)  # the floats whose sums few words hold


class ScanText(NamedTuple):
    """dims: of lines. later: whether products are left to the last decision."""

    data_type: DataType
    product: bool
    exclusive: bool
    dims: int
    later: bool

    @property
    def limbs(self) -> int:
        """The words of a sum of fewer than 2^31 floats, or of a product; 1 of integers."""
        if not self.data_type.is_float:
            return 1
        form = FORMATS[self.data_type]
        return FACTORS if self.product else -(-(form.highest - form.lowest + 32) // 64)

    @property
    def state(self) -> int:
        """The bytes of a total."""
        return 8 * (self.limbs + 3) if self.data_type.is_float else 8


def lower(problem: Problem, machine: Machine) -> Built | Refused:
    """The running sums or products of lines."""
    found = scan(problem.statement)
    if isinstance(found, str):
        return Refused(found)
    if found.data_type.element_bits < 8 or (found.data_type.is_float and found.data_type not in TYPES):
        return Refused(f"elements have type {found.data_type.name}")
    if found.sizes[found.axis] >= 1 << 31:
        return Refused("lines are too long")
    later = opencl.target(machine.stage).later
    key = ScanText(found.data_type, found.product, found.exclusive, max(1, len(found.sizes) - 1), later)
    lists = found.product and found.data_type.is_float
    return Built(unbound, counted=Counted() if lists else None, on_device=partial(_bound, found, key, problem.tensors))


@lru_cache(maxsize=64)
def text(key: ScanText) -> str:
    """The text of the kernels "totals" and "starts", and of the one for elements."""
    numbers: dict[str, Any] = dict(ELEMENT=UNSIGNED[key.data_type.element_bits], DIMS=key.dims, EXCLUSIVE=int(key.exclusive))
    if not key.data_type.is_float:
        numbers |= dict(INTEGERS=1, PRODUCT=int(key.product))
    else:
        form = FORMATS[key.data_type]
        numbers |= dict(LIMBS=key.limbs, PRECISION=form.precision, LOWEST=f"({form.lowest})", HIGHEST=form.highest)
        numbers |= {n: f"{x}UL" for n, x in (("INFINITY_", form.infinity), ("SIGN", form.sign), ("QUIET_NAN", form.quiet_nan))}
        numbers |= dict(PRODUCTS=1, LATER=int(key.later)) if key.product else {}
    lines = [f"#define {name} {value}" for name, value in numbers.items()]
    return "\n".join([*lines, "", Path(__file__).with_name("scan.cl").read_text()])


def _bound(
    found: Scan, key: ScanText, tensors: Mapping[str, TensorDesc], workspace: Workspace, memory: Mapping[str, DeviceMemory]
) -> Sequence[DeviceCall]:
    lists = found.product and found.data_type.is_float
    opened, source, into = workspace.opened, tensors[found.source], tensors[found.target]
    own = Copies(opened, memory, tensors, [found.target] if lists else [])
    itemsize, n = found.data_type.dtype.itemsize, found.sizes[found.axis]
    strides = [(a * itemsize, b * itemsize) for a, b in zip(source.explicit_strides, into.explicit_strides, strict=True)]
    others = [d for d in range(len(found.sizes)) if d != found.axis]
    lines = prod(found.sizes[d] for d in others)
    chunk = min(n, max(LEAST, isqrt(n), -(-n * lines // ENOUGH)))
    chunks = -(-n // chunk)
    step, to_step = (-s if found.backward else s for s in strides[found.axis])
    last = [(n - 1) * s if found.backward else 0 for s in strides[found.axis]]
    shape = shape_of(workspace, [(found.sizes[d], *strides[d]) for d in others] or [(1, 0, 0)])
    states = opened.allocate(key.state * lines * chunks if chunks > 1 else 8)
    given, out = own.memory[found.source], memory[found.target]
    out = out._replace(offset=out.offset + last[1])
    at = [given.data, np.int64(given.offset + last[0])]
    cut = [np.int64(n), np.int64(chunk), np.int64(chunks)]
    whole = [*at, out.data, np.int64(out.offset), shape, np.int64(step), np.int64(to_step), *cut]
    program = opencl.program([text(key)])
    units = UNITS * chunk

    totals = Launch(program, "totals", [*at, shape, np.int64(step), *cut, states], lines * chunks, units)
    before = [totals, Launch(program, "starts", [states, cut[2]], lines, UNITS * chunks)] if chunks > 1 else []
    if not lists:
        elements = Launch(program, "kernel_", [*whole, states], lines * chunks, units)
        return [ExactCall(workspace, lambda: [*before, elements])]
    layout = Layout([*(found.sizes[d] for d in others), n], [*(strides[d][1] for d in others), to_step], itemsize)
    decide = partial(_decided, found, FORMATS[found.data_type], others, own)
    listing = Listing(1, lambda: None, decide, layout, alone=False, beforehand=False)
    return [
        *([own] if own else []),
        ExactCall(workspace, lambda: before),
        ElementCall(opened, workspace, Stage(text(key), [*whole, states]), lines * chunks, units, out, listing, each=chunk),
    ]


def _decided(
    found: Scan, form: Format, others: Sequence[int], own: Copies, entries: NDArray[np.int64], arrays: Arrays
) -> NDArray[Any]:
    """Products of floats that are close to a tie: those of a line up to its last one that is asked for."""
    array = own.arrays(arrays)(found.source)
    bits = array.view(f"u{array.itemsize}")
    lines, places = np.divmod(entries[:, 0], found.sizes[found.axis])
    made = np.zeros(len(entries), bits.dtype)
    for line in np.unique(lines):
        asked = np.flatnonzero(lines == line)
        index: list[Any] = [slice(None)] * len(found.sizes)
        for d, at in zip(others, np.unravel_index(line, [found.sizes[d] for d in others] or [1]), strict=False):
            index[d] = int(at)
        elements = bits[tuple(index)][:: -1 if found.backward else 1]
        count = int(places[asked].max()) + 1
        products = exact.products(elements[:count].tolist(), form, exclusive=found.exclusive)
        made[asked] = np.array(list(islice(products, count)), bits.dtype)[places[asked]]
    return made
