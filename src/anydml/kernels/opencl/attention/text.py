"""The program of attention: the functions of the processor's kernel for single elements, and kernels that call them for a row.

Kernels follow one another: rows as float64, tiles of scores, weights, tiles of sums of weighted values, elements, and a second
stage for the queries of undecided elements. Their pieces are some batches with some of their queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from anydml.kernels.attention import finer, finer_elements, finer_sums, kept, results, rows, weights
from anydml.kernels.attention.emit import joined
from anydml.kernels.attention.function import DOUBLE, Function
from anydml.kernels.attention.key import ABOUT, LARGEST_KEY, LOST, MEMORY, AttentionKey, KeptKey
from anydml.kernels.code import opencl
from anydml.kernels.code.opencl import Argument
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.undecided.lists import each_bit

THREADS, SIDE, DEPTH = 256, 64, 16  # work items of a tile, its rows and columns, and the terms that are read at once
STATE = 64  # bytes
ENTRY = 24
# numbers beside those of the processor's kernel: where memories are in the scratch, and the states of keys and queries
PLACES = (*(f"{name}_place" for name in MEMORY), "key_states_place", "query_states_place")
OF_QUERY = ("query_rows", "query_norms", "scores", "added", "rests", "sums", "about", "line")
OF_WORKER = ("heads", "tails", "losses", "row", "list")  # of a work item of the second stage
RANGES = ("first", "batches", "row0", "rows")  # of a piece: its batches, and queries of each, numbered through the groups
GIVEN = [Argument("ptr", "numbers"), Argument("ptr", "scratch"), Argument("ptr", "bits"), Argument("ptr", "counts")]
KERNELS = ("biases", "keys", "columns", "queries", "ends", "weigh", "finish")
U64, INT = Kind("i64"), Kind("i32")


def arguments(key: AttentionKey) -> list[Argument]:
    """The arguments of all kernels but that of tiles."""
    return [*GIVEN, *(Argument("ptr", f"t_{name}") for name in key.tensors), *(Argument("i64", x) for x in ("slot", *RANGES))]


def numbers(key: AttentionKey) -> list[str]:
    """The names of the array of numbers: those of the processor's kernel, tensors' offsets at the place of their addresses."""
    return [*key.signature.names, *PLACES]


def tiles_text(*, processor: bool) -> str:
    """The program with the kernel "tiles". processor: whether the device is one."""
    sizes = dict(THREADS=THREADS, SIDE=SIDE, DEPTH=DEPTH, BLOCK=weights.DEPTH, PROCESSOR=int(processor))
    macros = [f"#define {name} {value}" for name, value in sizes.items()]
    return opencl.program([*macros, "", Path(__file__).with_name("tiles.cl").read_text()])


def text(target: Target, key: AttentionKey) -> str:
    """The program with the kernels of KERNELS."""
    functions = [
        rows.cleared(target, key),
        rows.filled(target, key, biased=False),
        *([rows.filled(target, key, biased=True)] if key.biased else []),
        rows.normed(target, key),
        rows.largest(target, key),
        *([weights.added(target, key)] if key.adds else []),
        weights.weighed(target, key),
        results.results(target, key),
    ]
    kernels = [_kernel(target, key, name) for name in KERNELS if key.biased or name != "biases"]
    return _program(key, functions, kernels)


def finer_text(target: Target, key: AttentionKey) -> str:
    """The program with the kernel "refine", the second stage."""
    functions = [finer_sums.sums_of_products(target, key), finer.weights(target, key), finer_elements.elements(target, key)]
    return _program(key, functions, [_kernel(target, key, "refine")])


def _program(key: AttentionKey, functions: Sequence[Function], kernels: Sequence[Function]) -> str:
    pointers = [x for x in key.signature.names if x in key.signature.pointers]
    given = [Argument("ptr", "numbers"), *(Argument("ptr", f"m_{x}") for x in pointers)]
    return opencl.program([
        *opencl.helpers(*functions, *kernels),
        *(opencl.function(f.title, [*given, *map(_argument, f.parameters)], f) for f in functions),
        *(opencl.function(f.title, arguments(key), f, result="kernel void") for f in kernels),
    ])  # fmt: skip


def _argument(parameter: str) -> Argument:
    kind, name = parameter.split()
    return Argument(kind, name[1:])


def _kernel(target: Target, key: AttentionKey, name: str) -> Function:
    return _Items(target, key, name).made()


class _Items:
    """A kernel whose work items are numbered: keys, columns or queries of batches."""

    def __init__(self, target: Target, key: AttentionKey, name: str) -> None:
        self.f, self.key = Function(target, key, name), key

    def made(self) -> Function:
        f = self.f
        item = f.call("global_id", U64).name
        work: dict[str, tuple[str, Callable[[str], None]]] = {
            "biases": ("groups", self._biases),
            "keys": ("keys", self._keys),
            "columns": ("columns", self._columns),
            "queries": ("", self._queries),
            "ends": ("1", self._ends),
            "weigh": ("", self._weigh),
            "finish": ("", self._finish),
        }
        if f.title == "refine":
            self._refine(item)
            return f
        each, body = work[f.title]
        count = "%rows" if not each else each if each == "1" else f.argument(each)

        def one() -> None:
            self._begin(f.over(item, count))
            body(f.op(f"urem i64 {item}, {count}"))

        f.when(f.op(f"icmp ult i64 {item}, {f.times('%batches', count)}"), one)
        return f

    # --- addresses ---

    def _number(self, name: str) -> str:
        return self.f.load("i64", "%numbers", 8 * numbers(self.key).index(name))

    def _named(self, name: str, value: str) -> None:
        """Give a value a name of its own."""
        self.f.do(f"%{name} = add i64 {value}, 0")

    def _memory(self, name: str, number: str, size: str | int, place: str = "") -> str:
        """The address of one of several memories of a size."""
        f = self.f
        return f.at(f.at("%scratch", self._number(place or f"{name}_place")), f.times(number, size))

    def _address(self, name: str, address: str) -> None:
        self.f.do(f"%m_{name} = getelementptr i8, ptr {address}, i64 0")

    def _begin(self, batch: str) -> None:
        """The addresses of tensors and of a batch's memory; batch: its number in the piece."""
        f, key = self.f, self.key
        for name in key.tensors:
            self._address(name, f.at(f"%t_{name}", f.argument_offset(name)))
        self._named("batch", batch)
        number = f.plus("%first", "%batch")
        inner = f.argument("inner")
        self._named("o", f.over(number, inner))
        self._named("p", f.op(f"urem i64 {number}, {inner}"))
        head, column, keys = f.argument("head_row"), f.argument("column_row"), f.argument("keys")
        sizes: dict[str, str | int] = dict(
            state=STATE, own_key_bias=head, own_value_bias=column, panels=f.times(keys, head), key_norms=f.argument("key_row"),
            value_rows=f.times(keys, column), largest=column, norms=column,
        )  # fmt: skip
        for name, size in sizes.items():
            if f.title in ("keys", "queries") and name == "state":
                continue
            self._address(name, self._memory(name, "%batch", size))
        used = {*sizes}
        for title, names in (
            ("biases queries", ("own_query_bias",)),
            ("weigh finish refine", OF_QUERY),
            ("finish refine", ("open",)),
            ("refine", OF_WORKER),
        ):
            used |= {*names} if f.title in title.split() else set()
        for name in MEMORY:
            if name not in used:  # no function of this kernel uses it
                self._address(name, "%scratch")

    def _row(self, row: str) -> str:
        """The addresses of a query's memory; row: its number in its batch of the piece. Returns that in the piece."""
        f = self.f
        own = f.plus(f.times("%batch", "%rows"), row)
        number, queries = f.plus("%row0", row), f.argument("queries")
        self._named("r", f.over(number, queries))
        self._named("s", f.op(f"urem i64 {number}, {queries}"))
        if f.title != "queries":
            head, column, keys = f.argument("head_row"), f.argument("column_row"), f.argument("key_row")
            sizes: dict[str, str | int] = dict(
                query_rows=head, query_norms=8, scores=keys, added=keys, rests=keys, sums=column, about=8 * ABOUT, line=column
            )
            for name, size in sizes.items():
                self._address(name, self._memory(name, own, size))
        if f.title in ("finish", "refine"):
            whole = f.plus(f.times(f.plus("%first", "%batch"), f.times(f.argument("groups"), queries)), number)
            self._address("open", f.at("%bits", f.times(whole, f.argument("open_row"))))
        return own

    def _query_bias(self, group: str) -> str:
        f = self.f
        number = f.plus(f.times("%batch", f.argument("groups")), group)
        return self._memory("own_query_bias", number, f.argument("head_row"))

    # --- kernels ---

    def _biases(self, group: str) -> None:
        """The biases of a group of queries as float64, and those of keys and values."""
        f = self.f
        self._address("own_query_bias", self._query_bias(group))
        if self.key.has("query_bias"):
            f.fill("query_bias", "own_query_bias", "head", o="%o", p="%p", r=group)

        def others() -> None:
            for name, width in (("key", "head"), ("value", "columns")):
                if self.key.has(f"{name}_bias"):
                    f.fill(f"{name}_bias", f"own_{name}_bias", width, o="%o", p="%p")

        f.when(f.op(f"icmp eq i64 {group}, 0"), others)

    def _state(self, states: str, number: str) -> None:
        """The address of a row's own state, for the rounding errors of its bias."""
        f = self.f
        self._address("state", self._memory("", number, STATE, f"{states}_place"))
        f.store("double", "0.0", "%m_state", LOST)

    def _keys(self, t: str) -> None:
        """A key and its value, as float64, and the key's norm."""
        f = self.f
        keys, head, column = f.argument("keys"), f.argument("head_row"), f.argument("column_row")
        self._state("key_states", f.plus(f.times("%batch", keys), t))
        past, key = f.plus(t, 1), f.at("%m_panels", f.times(t, head))
        joined(f, "key", "own_key_bias", key, head, t, past)
        into = f.at("%m_key_norms", f.times(t, 8))
        f.call_of("normed", f"ptr {key}", "i64 1", f"i64 {f.argument('head')}", f"i64 {head}", f"ptr {into}")
        joined(f, "value", "own_value_bias", f.at("%m_value_rows", f.times(t, column)), column, t, past)

    def _columns(self, column: str) -> None:
        """The largest value of a column, and its norm."""
        f, eight = self.f, self.f.times(column, 8)
        to = (f"ptr {f.at(f'%m_{name}', eight)}" for name in ("largest", "norms"))
        sizes = f"i64 {f.argument('keys')}", f"i64 {f.argument('column_row')}", "i64 8"
        f.call_of("largest", f"ptr {f.at('%m_value_rows', eight)}", *sizes, *to)

    def _queries(self, row: str) -> None:
        """A query as float64, and its norm."""
        f = self.f
        number = self._row(row)
        self._state("query_states", number)
        self._address("own_query_bias", self._query_bias("%r"))
        head, pitch = f.argument("head"), f.argument("head_row")
        into, steps = self._memory("query_rows", number, pitch), (f.argument("query_s"), f.argument("query_h"))
        own = "%m_own_query_bias" if self.key.has("query_bias") else ""
        f.fill_rows(into, f.place("query", o="%o", p="%p", r="%r", s="%s"), "1", *steps, head, pitch, own)
        norm = self._memory("query_norms", number, 8)
        f.call_of("normed", f"ptr {into}", "i64 1", f"i64 {head}", f"i64 {pitch}", f"ptr {norm}")

    def _ends(self, _: str) -> None:
        """The largest norm of a key, and the largest rounding error of a bias."""
        f = self.f
        zero, keys = f.constant(DOUBLE, 0.0), f.argument("keys")

        def largest(base: str, count: str, step: int, so_far: Value) -> Value:
            def one(i: str, values: list[Value]) -> list[Value]:
                x = f.loaded_real(base, f.times(i, step))
                return [f.chosen(x.compared("ogt", values[0]), x, values[0])]

            return f.loop("0", count, 1, [so_far], one)[1][0]

        f.stored(largest("%m_key_norms", keys, 8, zero), "%m_state", LARGEST_KEY)
        lost = zero
        if self.key.biased:
            for name, count in (("key_states", keys), ("query_states", "%rows")):
                states = self._memory("", f.times("%batch", count), STATE, f"{name}_place")
                lost = largest(f.at(states, LOST), count, STATE, lost)
        f.stored(lost, "%m_state", LOST)

    def _weigh(self, row: str) -> None:
        """A query's weights."""
        f = self.f
        self._row(row)
        end = f.seen("%s")
        if self.key.adds:
            f.call_of("added", "ptr %m_added", f"i64 {end}", *(f"i64 %{x}" for x in "oprs"))
        f.call_of("weighed", "ptr %m_scores", "ptr %m_added", f"i64 {end}", "ptr %m_query_norms", "ptr %m_about")

    def _finish(self, row: str) -> None:
        """A query's elements; the bits of those that are undecided."""
        f = self.f
        self._row(row)
        f.call_of("cleared", "ptr %m_open", f"i64 {f.argument('open_row')}")
        out = f.place("output", o="%o", p="%p", r="%r", s="%s")
        f.call_of("results", "ptr %m_sums", "ptr %m_scores", "ptr %m_about", f"ptr {out}", "i64 0")
        f.when(self._undecided(), self._count)

    def _undecided(self) -> str:
        """Whether a bit of the query is set."""
        f = self.f

        def some(w: str, values: list[Value]) -> list[Value]:
            return [values[0] | f.loaded(U64, "%m_open", f.times(w, 8))]

        (found,) = f.loop("0", f.over(f.argument("open_row"), 8), 1, [f.word("0")], some)[1]
        return found.compared("ne", 0).name

    def _count(self) -> None:
        self.f.call("atomic_inc", INT, f"ptr {self.f.at('%counts', self.f.times('%slot', 4))}")

    def _refine(self, item: str) -> None:
        """The second stage of queries that have undecided elements. Work items take turns."""
        f = self.f
        count, step = f.times("%batches", "%rows"), f.call("global_size", U64).name
        left = f.op(f"select i1 {f.op(f'icmp ult i64 {item}, {count}')}, i64 {f.minus(count, item)}, i64 0")

        def turn(n: str) -> None:
            number = f.plus(item, f.times(n, step))
            row = f.op(f"urem i64 {number}, %rows")
            self._begin(f.over(number, "%rows"))
            for name in ("heads", "tails", "losses"):
                self._address(name, self._memory(name, item, f.argument("key_row")))
            for name, size in (("row", 64), ("list", ENTRY)):
                self._address(name, self._memory(name, item, size))
            self._row(row)
            f.when(self._undecided(), self._refined)

        f.each("0", f.over(f.plus(left, f.minus(step, "1")), step), turn)

    def _refined(self) -> None:
        f = self.f
        f.call_of("precise_sums", "ptr %m_query_rows", "ptr %m_query_norms")
        f.call_of("precise_weights", f"i64 {f.seen('%s')}", "ptr %m_query_norms")
        out = f.place("output", o="%o", p="%p", r="%r", s="%s")

        def word(w: str) -> None:
            at = f.at("%m_open", f.times(w, 8))

            def element(bit: str) -> None:
                f.store("i64", "1", "%m_list", 16)
                column = f.plus(f.times(w, 64), bit)
                f.call_of("precise_elements", f"i64 {f.times(column, 8)}", "ptr %m_list", f"ptr {out}")
                decided = f.loaded(U64, "%m_list", 16) ^ 1
                f.stored(f.loaded(U64, at) & ~(decided << f.word(bit)), at)

            each_bit(f, f.loaded(U64, at).name, element)

        f.each("0", f.over(f.argument("open_row"), 8), word)


def kept_text(target: Target, key: KeptKey) -> str:
    """The program with the kernel "present" of an output of joined rows, a row in each work item."""
    f = Function(target, key, "present")
    item, keys, inner = f.call("global_id", U64).name, f.argument("keys"), f.argument("inner")

    def row() -> None:
        number, t = f.over(item, keys), f.op(f"urem i64 {item}, {keys}")
        for name in key.tensors:
            f.do(f"%m_{name} = getelementptr i8, ptr %t_{name}, i64 {f.argument_offset(name)}")
        kept.rows(f, key, f.over(number, inner), f.op(f"urem i64 {number}, {inner}"), t)

    f.when(f.op(f"icmp ult i64 {item}, %count"), row)
    return opencl.program([*opencl.helpers(f), opencl.function(f.title, kept_arguments(key), f, result="kernel void")])


def kept_arguments(key: KeptKey) -> list[Argument]:
    """The arguments of the kernel of `kept_text`."""
    return [Argument("ptr", "numbers"), *(Argument("ptr", f"t_{name}") for name in key.tensors), Argument("i64", "count")]
