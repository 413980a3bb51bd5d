"""The plan of an eager call: the checked desc, and the ways of arguments to its tensors. It holds no array and no device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import round_to_float32
from anydml.functional.inputs import array_of_number
from anydml.functional.run import contiguous
from anydml.int4_tensors import pack
from anydml.kernels.kernel import ByName, Views
from anydml.schema.check import Checked
from anydml.schema.operator import Desc
from anydml.tensor import EXTENSIONS, DataType

Array = NDArray[Any]


class Placed(NamedTuple):
    """The conversion of an argument to an input.

    name: the input. place: the argument's index, with each array of a list counted. sizes: those that it is broadcast to, if
    not its own. number: the data type of an argument that is a number. shape: the shape that a vector along one dimension is
    given. copied: no desc has the argument's layout. rounded: float64 that is rounded to float32. reversed: the dimensions
    whose order is reversed. packed: two 4-bit elements go into each byte. truth: the argument is an array of bool.
    """

    name: str
    place: int
    sizes: tuple[int, ...] | None = None
    number: DataType | None = None
    shape: tuple[int, ...] | None = None
    copied: bool = False
    rounded: bool = False
    reversed: tuple[int, ...] = ()
    packed: bool = False
    truth: bool = False

    @property
    def plain(self) -> bool:
        """Whether the input is what `moved` returns."""
        return self.packed or (self.shape is None and self.sizes is None and not self.truth)

    @property
    def moves(self) -> bool:
        """Whether the input's first element is not at the address of the argument's."""
        return self.number is not None or self.copied or self.rounded or self.packed or self.reversed != ()

    def moved(self, value: Any) -> Array:
        """The argument, converted if necessary, as an array whose first element is the input's."""
        if self.number is not None:
            return array_of_number(value, self.number)
        x: Array = np.flip(value, self.reversed) if self.reversed else value
        if self.copied:
            x = contiguous(x)
        if self.packed:
            return pack(x if self.sizes is None else np.broadcast_to(x, self.sizes))
        return round_to_float32(contiguous(x)) if self.rounded else x

    def view(self, x: Array) -> Array:
        """The input, from what `moved` returns."""
        if self.packed:
            return x
        if self.shape is not None:
            x = x.reshape(self.shape)
        if self.truth:
            x = x.view(np.uint8)
        return x if self.sizes is None else np.broadcast_to(x, self.sizes)


class Plan(NamedTuple):
    """A kind of call.

    checked: the desc. inputs: those that are given. places: the number of arguments, with each array of a list counted.
    outputs: for each field, (name, desc, shape), a list of those, or None. in_place: the inputs that an output may be
    identical to. empty: the outputs have no elements, and the desc has sizes of 1 instead of 0.
    """

    checked: Checked[Desc]
    inputs: tuple[Placed, ...]
    places: int
    outputs: tuple[Any, ...]
    in_place: frozenset[str] = frozenset()
    empty: bool = False

    @property
    def names(self) -> list[str]:
        """The tensors of the arguments, "" for none, and of the outputs that follow them."""
        given = {i.place: i.name for i in self.inputs}
        several = [o if isinstance(o, list) else [o] for o in self.outputs if o is not None]
        return [*(given.get(k, "") for k in range(self.places)), *(name for each in several for name, *_ in each)]

    def viewer(self) -> Views:
        """A function from arguments that `moved` returned, and outputs, to the tensors' arrays by name."""
        names = self.names
        viewed = [i for i in self.inputs if not i.plain]
        as_bits = [(name, t.data_type.dtype) for name, t in self.checked.tensors.items() if t.data_type in EXTENSIONS.values()]

        def views(moved: Sequence[Array]) -> dict[str, Array]:
            found = dict(zip(names, moved, strict=True))
            for i in viewed:
                found[i.name] = i.view(moved[i.place])
            for name, dtype in as_bits:
                found[name] = found[name].view(dtype)
            return found

        return views if viewed or as_bits else ByName(names)
