"""The scratch of the kernel of windows, and its arguments with the tensors' addresses."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from anydml.kernels.call.steps import At
from anydml.kernels.match.windows import MAX, QUANTIZED, WindowAxis, WindowReduction
from anydml.kernels.undecided.state import STATE_WORDS
from anydml.kernels.windows import tuning
from anydml.kernels.windows.key import WindowsKey, WindowsLayout, parts, present, raw
from anydml.tensor import DataType, TensorDesc

CACHE_LINE = 64  # bytes


def length_of(line: WindowAxis, lanes: int) -> int:
    """The number of elements of a line with its padding, to the end of the last group's read."""
    last = (line.output - 1) * line.stride + (line.window - 1) * line.dilation + 1
    return max(last, line.start + line.size) + 2 * lanes


class Memory(NamedTuple):
    """The scratch of a share of the output. size: bytes; room: elements on the list; places: the offset of each part."""

    size: int
    room: int
    places: dict[str, int]
    numbers: dict[str, int]

    def arguments(self, scratch: At) -> dict[str, At | int]:
        return {**self.numbers, **{name: scratch + place for name, place in self.places.items()}}


def memory_of(w: WindowReduction, layout: WindowsLayout, key: WindowsKey) -> Memory:
    line = w.axes[layout.line]
    *apart, last = (w.axes[d] for d in layout.taps)
    extent = (last.window - 1) * last.dilation + 1
    each = prod(a.window for a in apart)
    grain = CACHE_LINE // min(map(_bytes, raw(key)))
    length = -(-length_of(line, key.lanes) // grain) * grain if key.slides else 0
    pitch = -(-line.output // grain) * grain
    # the columns of the padded line at multiples of the stride begin at `before`; the others follow after `across`
    before = across = 0
    if key.down:
        before = -(-line.start // key.step // grain) * grain
        across = before + -(-length_of(line, key.lanes) // key.step // grain) * grain + grain
        columns, read = key.step * across * _bytes(raw(key)[0]), line.size * key.types[0].dtype.itemsize
        # lines of the output that are made together: the first of them are reduced down while the last are not, and then along
        most = tuning.TUNING.near // 2 // (columns + last.stride * read) if last.stride <= extent else 1
    else:
        bytes_ = sum(map(_bytes, raw(key))) * length + sum(map(_bytes, parts(key))) * pitch
        # those of the input that they share are read once
        most = tuning.TUNING.near // (bytes_ * each * last.stride) if last.stride < extent else 1
    band = max(1, min(most, tuning.TUNING.band, last.output))
    ring = (band - 1) * last.stride + extent
    slots = ring * each
    met = prod(w.axes[d].window for d in layout.taps)
    groups = -(-line.output // key.lanes)
    room = 2 * groups * key.lanes + tuning.TUNING.listed if key.listed else 0
    places: dict[str, int] = {}
    size = 8 * STATE_WORDS
    places["state"] = 0

    def take(name: str, bytes_: int) -> None:
        nonlocal size
        places[name] = size
        size += -(-bytes_ // 64) * 64

    take("list", 16 * (room + 1))
    for name in ("offsets", "positions", "rows_at"):
        take(name, 8 * max(met, ring))
    for name in ("counts", "divisors"):
        take(name, 4 * line.output)
    for name in ("numbers", "inverses"):
        take(name, 8 * line.output)
    kept = not key.down or (key.kind, key.types[0]) == (MAX, DataType.FLOAT32)  # whether lines are copied at all
    for j, element in enumerate(raw(key)):
        take(f"line{j}", kept * slots * length * _bytes(element) + CACHE_LINE)
        places[f"line{j}"] += -line.start * _bytes(element) % CACHE_LINE  # aligns the copied elements
    for j, element in enumerate(parts(key)):
        take(f"slot{j}", kept * (slots + 1) * pitch * _bytes(element))
        places[f"blank{j}"] = places[f"slot{j}"] + kept * slots * pitch * _bytes(element)
    numbers: dict[str, int] = {}
    if key.down:
        take("columns", band * columns)
        take("nothing", read)
        numbers |= dict(column=before, across=across)
    terms = prod(a.window for a in w.axes).bit_length()
    numbers |= dict(slots=slots, pitch=pitch, length=length, ring=ring, band=band, extent=extent, terms=terms)
    return Memory(size, room, places, numbers)


def _bytes(element: str) -> int:
    return {"double": 8, "float": 4}.get(element) or int(element[1:]) // 8


def sizes_and_strides(
    w: WindowReduction, tensors: Mapping[str, TensorDesc], layout: WindowsLayout, kernel_key: WindowsKey
) -> dict[str, At | int]:
    """The addresses of tensors, and the sizes and strides in bytes of every dimension."""
    tensors = tensors
    streams = {"x": tensors[w.source], "y": tensors[w.output], "z": tensors[w.indices] if w.indices else None}
    bases = {"x": w.source, "y": w.output, "z": w.indices}
    strides = {
        s: tuple(n * t.data_type.dtype.itemsize for n in t.explicit_strides) if t is not None else (0,) * len(w.axes)
        for s, t in streams.items()
    }
    # the weights of positions, modulo their type
    bits = 63 if w.indices is None else min(tensors[w.indices].data_type.element_bits, 63)
    weights = [prod(a.size for a in w.axes[d + 1 :]) % (1 << bits) for d in range(len(w.axes))]
    line, at = w.axes[layout.line], layout.line
    found: dict[str, At | int] = {s: At(name) if name else 0 for s, name in bases.items()}
    found |= {f"{s}s": strides[s][at] for s in "xyz"}
    found |= dict(n=line.size, m=line.output, weight=weights[at])
    found |= dict(
        stride=line.stride, window=line.window, dilation=line.dilation, start=line.start, limit=line.counted or line.size
    )
    for j, d in enumerate(layout.plain):
        found |= {f"pn{j}": w.axes[d].output, f"pw{j}": weights[d]}
        found |= {f"p{s}{j}": strides[s][d] for s in "xyz"}
    for j, d in enumerate(layout.taps):
        a = w.axes[d]
        values = dict(o=a.output, n=a.size, s=a.stride, k=a.window, d=a.dilation, p=a.start, c=a.counted, w=weights[d])
        found |= {f"t{key}{j}": value for key, value in values.items()}
        found |= {f"t{s}{j}": strides[s][d] for s in "xyz"}
    if w.kind == QUANTIZED:
        for q in present(kernel_key):
            p = w.parameters[q]
            assert p is not None
            t = tensors[p.name]
            size = t.data_type.dtype.itemsize
            by = [sum(n * size for n, v in zip(t.explicit_strides, p.along, strict=True) if v == d) for d in range(len(w.axes))]
            found |= {f"g{q}": At(p.name), f"gs{q}": by[at]}
            found |= {f"gp{q}_{j}": by[d] for j, d in enumerate(layout.plain)}
    return found
