"""Plans of QUANTIZED_LINEAR_MATRIX_MULTIPLY and MATRIX_MULTIPLY_INTEGER.

Matrices broadcast as those of np.matmul do. A scale or zero point with one dimension has an entry for each row or column.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.feature_level import FeatureLevel
from anydml.functional.plan import Placed, Plan
from anydml.functional.run import Signature, fail, output_desc, packed, unspellable_layout
from anydml.schema.check import check
from anydml.schema.operator import Desc
from anydml.tensor import DATA_TYPES, DataType, TensorDesc, as_data_type

FLOAT32 = np.dtype(np.float32)


def plan_integer(
    cls: type[Desc], level: FeatureLevel, kinds: tuple[Any, ...], attributes: Any, out: Any, sizes: Any, data_type: Any
) -> Plan:
    """The plan of MATRIX_MULTIPLY_INTEGER."""
    return _plan(cls, level, kinds, np.dtype(np.int32), out)


def plan_quantized(
    cls: type[Desc], level: FeatureLevel, kinds: tuple[Any, ...], attributes: Any, out: Any, sizes: Any, data_type: Any
) -> Plan:
    """The plan of QUANTIZED_LINEAR_MATRIX_MULTIPLY. data_type: that of the output, if it is asked for."""
    a, zero_point = kinds[0], kinds[-1]
    said: list[Any] = [zero_point[2]] if isinstance(zero_point, tuple) else []
    if data_type is not None:
        try:
            said.append(as_data_type(data_type).dtype)
        except (TypeError, ValueError) as error:
            raise fail("output_data_type", str(error)) from None
    if out is not None:
        said.append(out[2])
    if len({*said}) > 1:
        raise fail("output_data_type", "is given twice, differently")
    return _plan(cls, level, kinds, said[0] if said else a[2] if isinstance(a, tuple) else None, out)


def _plan(cls: type[Desc], level: FeatureLevel, kinds: tuple[Any, ...], dtype: Any, out: Any) -> Plan:
    names = [f.name for f in cls.spec.inputs]
    given = dict(zip(names, kinds, strict=True))
    a, b = given["a_tensor"], given["b_tensor"]
    for name, kind in (("a", a), ("b", b)):
        if not isinstance(kind, tuple) or len(kind[0]) < 2 or 0 in kind[0]:
            raise fail(name, "takes an array of 2 to 4 dimensions, with at least one element")
    if dtype not in DATA_TYPES:
        raise fail("out", f"is {dtype}, which no result is")
    try:
        lead = np.broadcast_shapes(a[0][:-2], b[0][:-2])
    except ValueError:
        raise fail("b", f"has shape {b[0]}, whose leading sizes do not broadcast with those of a, {a[0]}") from None
    dtypes = {"a": a[2], "b": b[2], "output": dtype}
    found = {}
    for place, (name, kind) in enumerate(given.items()):
        of, _, what = name.removesuffix("_tensor").partition("_")
        if kind is None and not cls.spec.inputs[place].optional:
            raise fail(name, "takes a number or an array, not None")
        if kind is not None:
            found[name] = _parameter(name, place, of, what, kind, dtypes[of]) if what else _matrix(name, place, kind, lead)
    rank = max(len(layout[0]) for layout, _ in found.values())
    inputs, descs = [], dict[str, Any]()
    for name, ((shape, strides, dtype_), placed) in found.items():
        if len(shape) < rank and name not in ("a_tensor", "b_tensor"):
            added = (1,) * (rank - len(shape))
            shape, strides = added + shape, (0,) * len(added) + strides
            placed = placed._replace(sizes=shape) if placed.number else placed._replace(shape=shape)
        inputs.append(placed)
        descs[name] = TensorDesc.of_layout(shape, strides, dtype_)
    result = TensorDesc(DataType.of(dtype), (*descs["a_tensor"].sizes[:-1], descs["b_tensor"].sizes[-1]))
    descs["output_tensor"] = output_desc(result, out)
    desc: Any = cls(**descs)
    return Plan(check(desc, level), tuple(inputs), len(kinds), (("output_tensor", desc.output_tensor, result.sizes),))


def _matrix(name: str, place: int, kind: Signature, lead: tuple[int, ...]) -> tuple[Signature, Placed]:
    """The layout of a matrix whose leading sizes are broadcast."""
    copied = unspellable_layout(kind)
    shape, strides, dtype = packed(kind) if copied else kind
    sizes = (*lead, *shape[-2:])
    if sizes == shape:
        return (shape, strides, dtype), Placed(name, place, copied=copied)
    added = len(sizes) - len(shape)
    strides = (0,) * added + tuple(s if n == m else 0 for n, m, s in zip(shape, sizes[added:], strides, strict=True))
    return (sizes, strides, dtype), Placed(name, place, sizes, copied=copied)


def _parameter(name: str, place: int, of: str, what: str, kind: Any, dtype: Any) -> tuple[Signature, Placed]:
    """The layout of a scale or a zero point with at least two dimensions. dtype: that of its tensor."""
    number = FLOAT32 if what == "scale" else dtype
    if kind is int or (kind is float and what == "scale"):
        if what != "scale" and (dtype is None or dtype.kind not in "iu"):
            raise fail(name, f"goes with a tensor of {dtype}, and only integers have zero points")
        return ((1, 1), (0, 0), number), Placed(name, place, (1, 1), DataType.of(number))
    if not isinstance(kind, tuple) or 0 in kind[0] or not (kind[2].kind in "iu" if what != "scale" else kind[2].char in "fd"):
        raise fail(name, f"takes {'a number' if what == 'scale' else 'an integer'} or an array")
    rounded, copied = kind[2].char == "d", unspellable_layout(kind)
    if rounded:
        kind = kind[0], kind[1], FLOAT32
    shape, strides, dtype = packed(kind) if rounded or copied else kind
    placed = Placed(name, place, copied=copied, rounded=rounded)
    if len(shape) > 1:
        return (shape, strides, dtype), placed
    n, stride = (shape[0], strides[0]) if shape else (1, 0)
    at = (1, n), (0, stride) if of == "b" else (stride, 0)
    shape = (1, n) if of == "b" else (n, 1)
    return (shape, at[1], dtype), placed._replace(shape=shape)
