"""The eager functions as text: parameters from an operator's fields, and its examples as calls.

`tools/functions.py` writes the functions from this text, and `describe` shows the calls.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.functional.inference import SPECIAL, argument, equal, leaves_open
from anydml.int4_tensors import array_dtype, unpacked
from anydml.schema.field import Field
from anydml.schema.kinds import Enumerated, Pair
from anydml.schema.operator import Desc, Example
from anydml.tensor import TensorDesc, of_ml_dtypes

_JOINED = "\x00"  # a space at which no line is broken
WIDTH = 100  # characters of a line of an example
_TYPES = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "Desc": "Desc",
    "DataType": "DataType | DTypeLike",
    "ScaleBias": "tuple[float, float]",
    "Size2D": "tuple[int, int]",
}


class Parameter(NamedTuple):
    """A parameter of an eager function. type, default: in Python's syntax; None: required. keyword: keyword-only."""

    name: str
    type: str
    default: str | None
    field: Field | None
    keyword: bool = False


def parameters(cls: type[Desc]) -> list[Parameter]:
    """The parameters of an operator's function: input tensors, attributes without counts, and what `outputs` cannot infer.

    Tensors are in DirectML's order, required ones first.
    """
    spec = cls.spec
    defaults = {f.name: f.default for f in dataclasses.fields(cls)}
    inputs = {f.name for f in spec.inputs if not f.sized_by}
    groups = [inputs.intersection(group) for group in equal(spec, "Sizes")]
    numbers = {name for group in groups if len(group) > 1 for name in group}  # a number may be given if the sizes are equal
    rules = {rule.name for rule in spec.constraints}
    numbers |= {name for name in inputs if f"{name.removesuffix('_tensor')}_single_element" in rules}
    finer = ("_scale_tensor", "_zero_point_tensor")  # these may be per tensor, or per row or column
    numbers |= {name for name in inputs if name.endswith(finer) and f"{name.removesuffix('_tensor')}_sizes" in rules}
    made = []
    for f in sorted(spec.inputs, key=lambda f: f.optional):
        one = "NDArray[Any] | float" if f.name in numbers else "NDArray[Any]"
        kind = f"Sequence[{one}]" if f.sized_by else one
        made.append(Parameter(argument(f), f"{kind} | None" if f.optional else kind, "None" if f.optional else None, f))
    for f in spec.attributes:
        if f.name in spec.counts:
            continue
        default = _literal(defaults[f.name]) if f.name not in cls.eager else "None"
        kind = _attribute(f)
        made.append(Parameter(f.name, f"{kind} | None" if default == "None" else kind, default, f))
    optional = False
    for at, p in enumerate(made):
        if optional and p.default is None:
            made[at:] = [q._replace(keyword=True) for q in made[at:]]
            break
        optional |= p.default is not None
    if any(p.name == "axes" for p in made):
        made.append(Parameter("axis", "int | None", "None", None, True))
    sizes = leaves_open(cls)[0]
    data_types = {leaves_open(cls, example.fields)[1] for example in spec.examples}
    if sizes:
        several = any(f.sized_by for f in spec.outputs)
        made.append(Parameter("output_sizes", "Sequence[Sequence[int]]" if several else "Sequence[int]", None, None, True))
    if True in data_types:
        optional = False in data_types  # if it is inferred from an input that may be absent
        kind = _TYPES["DataType"]
        default = "None" if optional else None
        keyword = optional or sizes or any(p.default is not None or p.keyword for p in made)  # cast(x, "int8")
        made.append(Parameter("output_data_type", f"{kind} | None" if optional else kind, default, None, keyword))
    one = "Sequence[Any]" if len(spec.outputs) > 1 or spec.outputs[0].sized_by else "NDArray[Any]"
    made.append(Parameter("out", f"{one} | None", "None", None, True))
    made.append(Parameter("device", "Device | str | None", "None", None, True))
    return _special(cls, made) if spec.name in SPECIAL else made


def _special(cls: type[Desc], made: list[Parameter]) -> list[Parameter]:
    """The parameters of an operator with a plan of its own."""
    found = []
    for p in made:
        if p.name.endswith("strides"):
            p = p._replace(type=f"{p.type} | None", default="None")
        elif p.name.endswith("zero_point"):
            p = p._replace(type="NDArray[Any] | int | None")
        elif p.name == "out" and cls.spec.name == "SLICE1":
            found.append(Parameter("output_sizes", "Sequence[int] | None", "None", None, True))
        elif p.name == "out" and cls.spec.name == "QUANTIZED_LINEAR_MATRIX_MULTIPLY":
            found.append(Parameter("output_data_type", f"{_TYPES['DataType']} | None", "None", None, True))
        found.append(p)
    if cls.spec.name != "QUANTIZED_LINEAR_MATRIX_MULTIPLY":
        return found
    order = [f.name for f in cls.spec.inputs]  # that of ONNX's QLinearMatMul, where zero points are not optional
    tensors = sorted((p for p in found if p.field), key=lambda p: order.index(p.field.name if p.field else ""))
    return [*(p._replace(default=None, keyword=False) for p in tensors), *(p for p in found if not p.field)]


def _attribute(f: Field) -> str:
    assert f.kind is not None
    kind = _TYPES.get(f.kind.python) or f"{f.kind.python} | str"
    several = f"Sequence[{kind}]" if f.sized_by else kind
    return f"{several} | int" if f.name == "axes" else several


def _literal(default: Any) -> str | None:
    """A default in Python's syntax; None if there is none."""
    if default is dataclasses.MISSING:
        return None
    if isinstance(default, enum.Enum):
        return repr(default.name)
    return "None" if isinstance(default, Desc) else repr(default)


class Call(NamedTuple):
    """An example as an eager call, and its results; with several outputs, by expressions of `result`."""

    text: str
    results: tuple[tuple[str, str], ...]

    @property
    def session(self) -> str:
        """The call and its result as Python's prompt shows them."""
        asked = self.text.replace("\n", "\n... ")
        if self.results[0][0] == "":
            return f">>> {asked}\n{self.results[0][1]}"
        return "\n".join([f">>> result = {asked}", *(f">>> {expression}\n{shown}" for expression, shown in self.results)])


def as_call(cls: type[Desc], example: Example) -> Call:
    """An example of an operator's file as a call, with its results."""
    spec = cls.spec
    desc = cls(**example.fields)
    given: list[str] = []
    positional = True
    for p in parameters(cls):
        if p.field is None:
            continue
        value = (example.inputs if p.field.is_tensor else example.fields).get(p.field.name)
        if p.field.is_tensor:
            value = _elements(value, getattr(desc, p.field.name))
        spelled = "None" if value is None else _spelled(value, p.field)
        if spelled == p.default or (value is None and p.default is not None):
            positional = False
            continue
        positional = positional and not p.keyword and (p.field.is_tensor or p.default is None)
        given.append(spelled if positional else f"{p.name}={spelled}")
    names = {p.name for p in parameters(cls)}
    asked = []
    if "output_data_type" in names and spec.name not in SPECIAL and leaves_open(cls, example.fields)[1]:
        asked.append(f"output_data_type={getattr(desc, spec.outputs[0].name).data_type.name!r}")
    if "output_sizes" in names:
        sizes = _sizes(getattr(desc, spec.outputs[0].name))
        if spec.name not in SPECIAL or sizes != cls.outputs(desc)[spec.outputs[0].name][0]:
            asked.append(f"output_sizes={sizes}")
    text = _text(spec.name, [*given, *asked])
    results = {}
    for f in spec.outputs:
        if (value := example.outputs.get(f.name)) is not None:
            results[argument(f)] = _elements(value, getattr(desc, f.name))
    if len(spec.outputs) > 1:
        return Call(text, tuple((f"result.{name}", _shown(x)) for name, x in results.items()))
    (result,) = results.values()
    if isinstance(result, list):
        return Call(text, tuple((f"result[{i}]", _shown(x)) for i, x in enumerate(result)))
    return Call(text, (("", _shown(result)),))


def _elements(value: Any, tensors: Any) -> Any:
    """An example's data as arguments of a call: bytes of 4-bit elements become arrays of ml_dtypes' types."""
    if isinstance(value, list):
        return [_elements(v, t) for v, t in zip(value, tensors, strict=True)]
    if not isinstance(tensors, TensorDesc) or tensors.data_type.element_bits != 4 or value is None:
        return value
    return unpacked(value, tensors).astype(array_dtype(tensors.data_type))


def _shown(x: Any) -> str:
    """An array as the prompt shows it, with <BLANKLINE> for empty lines, which would end doctest's expected output."""
    return "\n".join(line or "<BLANKLINE>" for line in repr(np.asarray(x)).split("\n"))


def _sizes(value: Any) -> Any:
    return [t.sizes for t in value] if isinstance(value, tuple) else value.sizes


def _text(name: str, arguments: Sequence[str]) -> str:
    """A call on one line, or on several, broken between numbers."""
    text = f"dml.{name.lower()}({', '.join(arguments)})"
    if len(text) <= WIDTH:
        return text
    lines = [f"dml.{name.lower()}("]
    for given in arguments:
        whole = re.sub(
            r"\(([^()]*)\)(?=[,\]]|$)", lambda m: f"({m[1].replace(' ', _JOINED)})" if len(m[1]) < 40 else m[0], given
        )
        lines += textwrap.wrap(
            f"{whole},", WIDTH, initial_indent="    ", subsequent_indent="        ", break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join([*lines, ")"]).replace(_JOINED, " ")


def _spelled(value: Any, f: Field) -> str:
    """A value of an example in Python's syntax."""
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, Desc):
        return f"dml.{value!r}".replace("TensorDesc(", "dml.TensorDesc(")
    if isinstance(value, (list, tuple)) and (f.is_tensor or isinstance(value, list) or (value and isinstance(value[0], Desc))):
        return f"[{', '.join(_spelled(v, f) for v in value)}]"
    if isinstance(value, enum.Enum):
        return repr(value.name)
    if isinstance(f.kind, Pair) and not f.sized_by:
        return f"({', '.join(map(repr, value))})"
    if isinstance(f.kind, Enumerated):
        return repr(value.name if hasattr(value, "name") else value)
    return repr(value)


def _array(array: NDArray[Any]) -> str:
    dtype = array.dtype
    module = "np" if of_ml_dtypes(dtype) is None else "ml_dtypes"
    if array.size > 1 and array.size > 4 and (array == array.reshape(-1)[0]).all():
        return f"np.full({array.shape}, {_number(array.reshape(-1)[0])}, {module}.{dtype})"
    first = array.reshape(-1)[0] if array.size else 0
    if array.size > 6 and dtype.kind in "iuf" and np.array_equal(
        array.reshape(-1), np.arange(array.size).astype(dtype) + first, equal_nan=False
    ):  # fmt: skip
        start = f"{_number(first)}, {_number(first + array.size)}" if first != 0 else f"{array.size}"
        shaped = f".reshape{array.shape}" if array.ndim > 1 else ""
        return f"np.arange({start}, dtype=np.{dtype}){shaped}"
    return f"np.array({_nested(array)}, {module}.{dtype})"


def _nested(array: NDArray[Any]) -> str:
    return f"[{', '.join(map(_nested, array))}]" if array.ndim else _number(array[()])


def _number(x: Any) -> str:
    if x.dtype.kind != "f":
        return str(int(x))
    if x != x:
        return "np.nan"
    if np.isinf(x):
        return "np.inf" if x > 0 else "-np.inf"
    if x == int(x) and abs(float(x)) < 1e7:
        return "-0.0" if x == 0 and np.signbit(x) else str(int(x))
    return str(x)
