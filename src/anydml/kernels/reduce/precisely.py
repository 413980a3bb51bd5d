"""A row in twice float64's precision, for the few elements that bounds leave open: sums are made again, then these elements.

It is a function of its own, so that nothing of it takes registers of the kernel's. What it leaves open stays on the list:
zeros, for one.
"""

from __future__ import annotations

from collections.abc import Iterable

from anydml.kernels.code.emit import arguments, when
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value, part
from anydml.kernels.elementwise import precise
from anydml.kernels.elementwise.precise_arithmetic import Condition, Precise
from anydml.kernels.reduce.joint import JOINT, OTHER_MEAN, TOTAL
from anydml.kernels.reduce.lines import Row
from anydml.kernels.reduce.moments import MOMENTS, VARIANCE
from anydml.kernels.reduce.precise_sums import Differences, Plain, Sums
from anydml.kernels.reduce.shape import ALL, ReductionKey, names, pointers, same_along
from anydml.kernels.reduce.stages import inner, stages

NAME = "finer"


def finer_stage(target: Target, shape: ReductionKey) -> tuple[str, list[str]]:
    """`i64 @finer(ptr arguments, i64 r, i64 staged, i64 noted, i64 count)`: decide the row's entries on the list.

    r: the row, counted from the kernel's first; staged: the first of those in memory of the kernel's own; noted, count: where
    its entries begin and end. It returns where those end that are left.
    """
    return _Finer(target, shape).text()


class _Finer:
    def __init__(self, target: Target, shape: ReductionKey) -> None:
        self.body = Body(target)
        self.lanes = target.vector_bytes // 8
        self.shape = shape._replace(lanes=self.lanes, formula=shape.plain)
        self.row = Row(self.body, self.shape)
        self.streams = self.row.streams
        self.formula = shape.plain
        self.stages = stages(self.formula, same_along(shape), mapped=shape.mapped)
        self.items: dict[int, Precise | Condition] = {}
        self.beside: dict[tuple[int, str], Precise] = {}  # what else is known of a pass's result, by its place and the node
        self.additions = 2 * shape.additions * shape.lines * max(shape.lanes // self.lanes, 1) + 2 * self.lanes
        self.read: list[Value] = [self.body.undefined(kind) for kind in self.row.kinds[:-1]]

    def text(self) -> tuple[str, list[str]]:
        body, shape, streams = self.body, self.shape, self.streams
        arguments(body, names(shape), pointers(shape))
        streams.begin()
        self.row.number = body.op("add i64 %r, %first")
        streams.bases = self.row.starts("%r")
        for k in shape.staged:
            number = body.op("sub i64 %r, %staged")
            streams.bases[k] = body.at(f"%t{k}", body.op(f"mul i64 {number}, %w{k}"))
        for k, value in streams.constants(sorted(same_along(shape))).items():
            self.read[k] = value
        for s in range(len(self.stages.passes)):
            self._fill_row(s)
            self._pass(s)
        self._fill_row(len(self.stages.passes))
        body.do(f"ret i64 {self._decided()}")
        head = f"define internal i64 @{NAME}(ptr %arguments, i64 %r, i64 %staged, i64 %noted, i64 %count) noinline {{"
        return "\n".join([head, "entry:", *body.lines, "}"]), [*body.declared]

    def _fill(self, places: Iterable[int]) -> None:
        for p in sorted(places):
            if p not in self.items:
                op, args, data = self.formula[p]
                if op in (VARIANCE, OTHER_MEAN, TOTAL):
                    self.items[p] = self.beside[args[0], op]
                    continue
                self.items[p] = precise.item(self.body, op, [self.items[a] for a in args], data, self.read, self.lanes)

    def _fill_row(self, s: int) -> None:
        """Compute what is the same for the whole row, and known after so many passes."""
        within, after = self.stages.within, self.stages.after
        self._fill(
            p for p, node in enumerate(self.formula)
            if not within[p] and after[p] <= s and p not in self.items and not node.op.startswith("row_")
        )  # fmt: skip

    def _fill_within(self, targets: list[int]) -> None:
        self._fill(inner(self.formula, self.stages.within, targets, set(self.items)))

    def _put(self, i: str, loaded: dict[int, Value]) -> None:
        for k, value in {**self.streams.positions(i), **loaded}.items():
            self.read[k] = value

    def _forget(self) -> None:
        for p in [p for p in self.items if self.stages.within[p]]:
            del self.items[p]

    # --- sums ---

    def _pass(self, s: int) -> None:
        """A pass along the row, and its sums."""
        body, lanes = self.body, self.lanes
        places = self.stages.passes[s]
        sums = [self._sums(p) for p in places]
        terms = [a for own in sums for a in own.args]
        up = body.op(f"and i64 {body.op(f'add i64 %n, {lanes - 1}')}, {-lanes}")

        def group(i: str, values: list[Value]) -> list[Value]:
            left = body.op(f"sub i64 %n, {i}")
            take = body.op(f"select i1 {body.op(f'icmp ult i64 {left}, {lanes}')}, i64 {left}, i64 {lanes}")
            self._put(i, self.streams.partial(i, take))
            self._fill_within(terms)
            active = self.streams.first(take)
            made: list[Value] = []
            for own in sums:
                made += own.step(values[len(made) : len(made) + len(own.starts)], self.items, active)
            self._forget()
            return made

        starts = [v for own in sums for v in own.starts]
        values = self.row.lines(starts, lambda v: body.loop("0", up, lanes, v, group)[1])
        first = 0
        for own, p in zip(sums, places, strict=True):
            made = values[first : first + len(own.starts)]
            first += len(own.starts)
            width = lanes
            while width > 1:
                width //= 2
                made = own.merged(*([part(v, at, width) for v in made] for at in (0, width)))
            for name, x in own.results([part(v, 0, 1, lanes) for v in made]).items():
                self.beside[p, name] = x
            self.items[p] = self.beside[p, ""]

    def _sums(self, p: int) -> Sums:
        """The sums of a reduction."""
        op, args, data = self.formula[p]
        if op == "row_sum" and len(args) == 1:
            return Plain(self.body, self.lanes, args)
        if op not in (MOMENTS, JOINT):
            raise Uncompilable(f"{op} in twice float64's precision")
        self._put("0", self.streams.alone("0"))
        self._fill_within([args[0]])
        near = self.items[args[0]]
        assert isinstance(near, Precise)
        self._forget()
        return Differences(self.body, self.lanes, args, near.pair.head, data, self.additions)

    # --- elements ---

    def _decided(self) -> str:
        body, streams, shape = self.body, self.streams, self.shape
        row = streams.bases
        length = "1"
        if shape.mapped:
            length = body.op("mul i64 %n, %lines") if shape.inner else "%n"

        def entry(e: str, kept: list[Value]) -> list[Value]:
            slot = body.at("%list", body.op(f"mul i64 {e}, 16"))
            place = body.load("i64", slot, 8)
            all_ = body.op(f"icmp eq i64 {place}, {ALL}")
            first = body.op(f"select i1 {all_}, i64 0, i64 {place}")
            behind = body.op(f"select i1 {all_}, i64 {length}, i64 {body.op(f'add i64 {first}, 1')}")
            _, (open_,) = body.loop(first, behind, 1, [Value(body, "0", Kind("i64"))], element)
            to = body.at("%list", body.op(f"mul i64 {kept[0].name}, 16"))
            body.store("i64", self.row.number, to)
            body.store("i64", place, to, 8)
            stays = body.op(f"icmp ne i64 {open_.name}, 0")
            return [kept[0] + Value(body, body.op(f"zext i1 {stays} to i64"), Kind("i64"))]

        def element(at: str, open_: list[Value]) -> list[Value]:
            if shape.inner:
                streams.bases = self.row.line_starts(row, body.op(f"udiv i64 {at}, %n"))
                at = body.op(f"urem i64 {at}, %n")
            self._put(at, streams.alone(at))
            last = len(self.formula) - 1
            self._fill_within([last])
            made, undecided = precise.finished(self.items[last], shape.types[-1], integral=shape.integral)
            self._forget()
            stays = "false" if undecided is None else undecided.lane(0).name
            target = streams.place(streams.last, at) if shape.mapped else row[-1]
            when(body, body.op(f"xor i1 {stays}, true"), lambda: body.stored(made.lane(0), target))
            return [open_[0] + Value(body, body.op(f"zext i1 {stays} to i64"), Kind("i64"))]

        _, (left,) = body.loop("%noted", "%count", 1, [Value(body, "%noted", Kind("i64"))], entry)
        return left.name
