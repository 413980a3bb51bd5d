"""Streams along a row: the layout of each one, and its elements read and written, a group of lanes at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anydml.kernels.code.values import Body, Kind, Value

CONTIGUOUS, CONSTANT, STRIDED, POSITION = "contiguous", "constant", "strided", "position"
PLACE = "place"  # a position that is the same along a row


def starts(
    body: Body, layouts: Sequence[str], bases: Sequence[str], number: str, dims: int, sizes: str, strides: str
) -> list[str]:
    """The address, or the position, where each stream begins in the part with a number, such as a row.

    sizes, strides: the arguments of the dimensions that the number counts through, {sizes}0 and {strides}0_0 the first.
    """
    at: list[str] = []
    left = number
    for d in range(dims - 1, 0, -1):
        at.insert(0, body.op(f"urem i64 {left}, %{sizes}{d}"))
        left = body.op(f"udiv i64 {left}, %{sizes}{d}")
    at.insert(0, left)
    found = []
    for k, how in enumerate(layouts):
        offset = "0"
        for d in range(dims):
            offset = body.op(f"add i64 {offset}, {body.op(f'mul i64 {at[d]}, %{strides}{d}_{k}')}")
        found.append(body.op(f"add i64 {bases[k]}, {offset}") if how in (POSITION, PLACE) else body.at(bases[k], offset))
    return found


class Streams:
    """The streams of a kernel, the output last. kinds: of a group of each; layouts: how each one is stored along a row.

    inside: the inputs that differ along a row and are read. bases: where each stream's row begins, as the kernel sets it;
    the argument %s{k} is the distance from one element of stream k to the next. spare: memory for a partial group.
    """

    def __init__(self, body: Body, kinds: Sequence[Kind], layouts: Sequence[str]) -> None:
        self.body, self.kinds, self.layouts = body, kinds, layouts
        self.last, self.lanes = len(layouts) - 1, kinds[-1].lanes
        self.inside = [k for k in range(self.last) if layouts[k] in (CONTIGUOUS, STRIDED)]
        self.iota = body.constants("i64", range(self.lanes))
        self.bases: list[str] = []
        self.spare: dict[int, str] = {}

    def begin(self) -> None:
        """Allocate the spare memory on the stack."""
        body = self.body
        self.spare = {k: body.op(f"alloca {self.kinds[k].text}, align 64") for k in (*self.inside, self.last)}
        for k, spare in self.spare.items():
            body.do(f"store {self.kinds[k].text} zeroinitializer, ptr {spare}, align 64")

    def place(self, k: int, i: str) -> str:
        """The address of an element of a row, or its position."""
        body, layout = self.body, self.layouts[k]
        if layout == CONSTANT:
            return self.bases[k]
        offset = body.op(f"mul i64 {i}, {self.kinds[k].bits // 8 if layout == CONTIGUOUS else f'%s{k}'}")
        return body.op(f"add i64 {self.bases[k]}, {offset}") if layout == POSITION else body.at(self.bases[k], offset)

    # --- groups that are read ---

    def whole(self, i: str) -> dict[int, Value]:
        """A group of every stream inside."""
        body = self.body
        found = {}
        for k in self.inside:
            at, kind = self.place(k, i), self.kinds[k]
            if self.layouts[k] == CONTIGUOUS:
                found[k] = body.loaded(kind, at)
                continue
            vector = body.undefined(kind)
            for lane in range(self.lanes):
                vector = vector.replaced(lane, body.loaded(Kind(kind.element), at))
                at = body.at(at, f"%s{k}")
            found[k] = vector
        return found

    def partial(self, i: str, take: str) -> dict[int, Value]:
        """The first lanes of a group of every stream inside; the others have any values."""
        body, found = self.body, {}
        for k in self.inside:
            kind = self.kinds[k]
            if self._masks(k):
                found[k] = body.masked(kind, self.place(k, i), self.first(take))
            else:
                self._copy(k, i, take, out=False)
                found[k] = body.loaded(kind, self.spare[k])
        return found

    def _masks(self, k: int) -> bool:
        """Whether masked loads and stores can access some of a stream's elements."""
        return self.layouts[k] == CONTIGUOUS and "avx512bw" in self.body.target.features

    def first(self, take: str) -> Value:
        """The mask of the first lanes."""
        return self.iota.compared("ult", self.body.splat(Value(self.body, take, Kind("i64")), self.lanes))

    def alone(self, i: str) -> dict[int, Value]:
        """One element of every stream inside, in every lane."""
        return {
            k: self.body.splat(self.body.loaded(Kind(self.kinds[k].element), self.place(k, i)), self.lanes) for k in self.inside
        }

    def positions(self, i: str) -> dict[int, Value]:
        """A group of every stream of positions."""
        body, found = self.body, {}
        for k, layout in enumerate(self.layouts):
            if layout == POSITION:
                steps = body.splat(Value(body, f"%s{k}", Kind("i64")), self.lanes)
                first = body.splat(Value(body, self.place(k, i), Kind("i64")), self.lanes)
                found[k] = first + steps * self.iota
        return found

    def constants(self, streams: Iterable[int]) -> dict[int, Value]:
        """Streams that are the same along the row, in every lane."""
        body, found = self.body, {}
        for k in streams:
            kind = Kind(self.kinds[k].element)
            value = Value(body, self.bases[k], kind) if self.layouts[k] == PLACE else body.loaded(kind, self.bases[k])
            found[k] = body.splat(value, self.lanes)
        return found

    # --- groups of the output ---

    def store(self, i: str, made: Value, *, past_cache: int = 0) -> None:
        """Store a whole group; past_cache: bytes of each aligned non-temporal store, 0 for ordinary stores."""
        body, at = self.body, self.place(self.last, i)
        if self.layouts[self.last] != CONTIGUOUS:
            for lane in range(self.lanes):
                body.stored(made.lane(lane), at)
                at = body.at(at, f"%s{self.last}")
        elif not past_cache:
            body.stored(made, at)
        else:
            lanes = past_cache * 8 // made.kind.bits
            for part in range(0, self.lanes, lanes):
                mask = ", ".join(f"i32 {part + lane}" for lane in range(lanes))
                kind = Kind(made.kind.element, lanes)
                piece = body.value(
                    f"shufflevector {made.kind.text} {made.name}, {made.kind.text} poison, <{lanes} x i32> <{mask}>", kind
                )
                body.store(kind.text, piece.name, at, part * made.kind.bits // 8, stream=past_cache)

    def store_partial(self, i: str, take: str, made: Value) -> None:
        """Store the first lanes of a group."""
        body, k = self.body, self.last
        if self._masks(k):
            name = f"llvm.masked.store.v{made.kind.lanes}{made.kind.element}.p0"
            body.declared[f"declare void @{name}({made.kind.text}, ptr, i32, <{made.kind.lanes} x i1>)"] = None
            body.do(f"call void @{name}({made!r}, ptr {self.place(k, i)}, i32 1, {self.first(take)!r})")
            return
        body.stored(made, self.spare[k])
        self._copy(k, i, take, out=True)

    def _copy(self, k: int, i: str, take: str, *, out: bool) -> None:
        """Copy some elements of a row to or from spare memory, one by one."""
        body, kind = self.body, self.kinds[k]

        def one(lane: str, _: list[Value]) -> list[Value]:
            there = self.place(k, body.op(f"add i64 {i}, {lane}"))
            spare = body.at(self.spare[k], body.op(f"mul i64 {lane}, {kind.bits // 8}"))
            source, target = (spare, there) if out else (there, spare)
            body.stored(body.loaded(Kind(kind.element), source), target)
            return []

        body.loop("0", take, 1, [], one)
