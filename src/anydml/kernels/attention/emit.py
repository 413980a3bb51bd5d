"""The kernel of attention: for each batch its keys and values, then the queries that see them, a block of queries at a time.

Its text depends on the data type, on which tensors are present, on the kind of mask and on the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from anydml.kernels.attention import finer, finer_elements, finer_sums, products, results, rows, weights
from anydml.kernels.attention.function import DOUBLE, Function
from anydml.kernels.attention.key import ABOUT, LARGEST_KEY, LOST, AttentionKey
from anydml.kernels.code.emit import module
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Value
from anydml.kernels.contract.floats.packed import tile

FEW = 3  # up to 1 / FEW of a tile's rows are multiplied one by one
BLOCK = weights.DEPTH  # keys in a block of the sum: their values are summed before they are added to the total


Emit = Callable[[Target, AttentionKey], Function]


def emitted(target: Target, key: AttentionKey) -> str:
    """The kernel; arguments: `AttentionKey.signature`. How many elements it has left undecided is in its state."""
    functions: list[Emit] = [
        partial(rows.filled, biased=False),
        partial(rows.filled, biased=True),
        rows.cleared,
        rows.normed,
        rows.panel,
        rows.largest,
        weights.weighed,
        results.results,
        results.mark_undecided,
        finer_sums.sums_of_products,
        finer.weights,
        finer_elements.elements,
        finer.refined,
        _keys,
        _values,
        _queries,
    ]
    across = range(1, tile.vectors(target) + 1)
    functions += [partial(products.products, height=height, across=n) for height in (tile.height(target), 1) for n in across]
    if key.adds:
        functions.append(weights.added)
    made = [emit(target, key) for emit in functions]
    main = _main(target, key)
    declared = {name: None for f in (*made, main) for name in f.declared}
    return module([*declared, *(f.text() for f in made), main.entry()])


def _main(target: Target, key: AttentionKey) -> Function:
    f = Function(target, key, "kernel")
    state, inner, parts, part, queries, groups, together = (
        f.argument(x) for x in ("state", "inner", "parts", "part", "queries", "groups", "together")
    )
    first = f.argument("first")
    f.undecided().counted("0")

    def item(i: str) -> None:
        number, which = f.over(i, parts), f.op(f"urem i64 {i}, {parts}")
        o, p = f.over(number, inner), f.op(f"urem i64 {number}, {inner}")

        def begin() -> None:
            f.store("double", "0.0", state, LOST)
            f.call_of("keys", f"i64 {o}", f"i64 {p}")
            f.call_of("values", f"i64 {o}", f"i64 {p}")

        new = f.op(f"or i1 {f.op(f'icmp eq i64 {i}, {first}')}, {f.op(f'icmp eq i64 {which}, 0')}")
        f.when(new, begin)
        start = f.times(which, part)
        end = f.least(f.plus(start, part), queries)
        blocks = f.over(f.plus(f.minus(end, start), f.minus(together, 1)), together)

        def group(r: str) -> None:
            if key.has("query_bias"):
                f.fill("query_bias", "own_query_bias", "head", o=o, p=p, r=r)
            before = f.times(f.plus(f.times(number, groups), r), queries)

            def block(b: str) -> None:
                s = f.plus(start, f.times(b, together))
                count = f.least(together, f.minus(end, s))
                undecided = f.at(f.argument("open"), f.times(f.plus(before, s), f.argument("open_row")))
                f.call_of("queries", *(f"i64 {x}" for x in (o, p, r, s, count)), f"ptr {undecided}")

            f.each("0", blocks, block)

        f.each("0", groups, group)

    f.each(first, f.argument("end"), item)
    return f


def _keys(target: Target, key: AttentionKey) -> Function:
    """The keys of a batch, in panels, and their norms."""
    f = Function(target, key, "keys", ["i64 o", "i64 p"])
    across = tile.vectors(target)
    width = across * f.lanes
    keys, pitch, rows_, norms, panels = (f.argument(x) for x in ("keys", "head_row", "rows", "key_norms", "panels"))
    if key.has("key_bias"):
        f.fill("key_bias", "own_key_bias", "head", o="%o", p="%p")

    def panel(first: str) -> None:
        count = f.least(f.minus(keys, first), str(width))
        joined(f, "key", "own_key_bias", rows_, pitch, first, f.plus(first, count))
        vectors = f.over(f.plus(count, f.lanes - 1), f.lanes)
        padded = f.times(vectors, f.lanes)
        more = f.minus(padded, count)
        f.call_of("cleared", f"ptr {f.at(rows_, f.times(count, pitch))}", f"i64 {f.times(more, pitch)}")
        to = f.at(norms, f.times(first, 8))
        f.call_of("normed", f"ptr {rows_}", f"i64 {padded}", f"i64 {f.argument('head')}", f"i64 {pitch}", f"ptr {to}")
        place = f.at(panels, f.times(first, pitch))
        f.call_of("panel", f"ptr {rows_}", f"i64 {pitch}", f"ptr {place}", f"i64 {vectors}")

    f.each("0", f.over(f.plus(keys, width - 1), width), lambda n: panel(f.times(n, width)))

    def norm(t: str, values: list[Value]) -> list[Value]:
        x = f.loaded_real(norms, f.times(t, 8))
        return [f.chosen(x.compared("ogt", values[0]), x, values[0])]

    _, (found,) = f.loop("0", keys, 1, [f.constant(DOUBLE, 0.0)], norm)
    f.stored(found, f.argument("state"), LARGEST_KEY)
    return f


def _values(target: Target, key: AttentionKey) -> Function:
    """The values of a batch, row by row, and the largest of each column."""
    f = Function(target, key, "values", ["i64 o", "i64 p"])
    keys, pitch, into = (f.argument(x) for x in ("keys", "column_row", "value_rows"))
    if key.has("value_bias"):
        f.fill("value_bias", "own_value_bias", "columns", o="%o", p="%p")
    joined(f, "value", "own_value_bias", into, pitch, "0", keys)
    to = f"ptr {f.argument('largest')}", f"ptr {f.argument('norms')}"
    f.call_of("largest", f"ptr {into}", f"i64 {keys}", f"i64 {pitch}", f"i64 {pitch}", *to)
    return f


def joined(f: Function, name: str, bias: str, into: str, pitch: str, first: str, end: str) -> None:
    """Rows of joined elements as float64, from .. to before .."""
    length = f.length("%o", "%p")
    later = f.least(f.plus(length, f.argument("later")), f.argument("keys"))
    axis, width = ("h", f.argument("head")) if name == "key" else ("c", f.argument("columns"))
    for which, start, stop in (("before", "0", length), ("after", length, later), ("", later, end)):
        low = f.most(first, start)
        count = f.most(f.minus(f.least(end, stop), low), "0")
        to = f.at(into, f.times(f.minus(low, first), pitch))
        if not which:
            f.call_of("cleared", f"ptr {to}", f"i64 {f.times(count, pitch)}")
        elif f.key.has(f"{name}_{which}"):
            tensor = f"{name}_{which}"
            source = f.place(tensor, o="%o", p="%p", t=f.minus(low, start))
            steps = f.argument(f"{tensor}_t"), f.argument(f"{tensor}_{axis}")
            own = f.argument(bias) if which == "after" and f.key.has(f"{name}_bias") else ""
            f.fill_rows(to, source, count, *steps, width, pitch, own)


def _queries(target: Target, key: AttentionKey) -> Function:
    """A block of queries: their rows, scores, weights, sums and elements."""
    f = Function(target, key, "queries", [*(f"i64 {x}" for x in "oprs"), "i64 count", "ptr open"])
    height = tile.height(target)
    at = {axis: f"%{axis}" for axis in "opr"}
    head, head_row, key_row, column_row = (f.argument(x) for x in ("head", "head_row", "key_row", "column_row"))
    score_row = f.argument("score_row")
    rows_, norms, scores, sums, about = (f.argument(x) for x in ("query_rows", "query_norms", "scores", "sums", "about"))
    tiles = f.over(f.plus("%count", height - 1), height)
    # the last query sees the most keys; sums of products go on to the end of a panel of keys
    panel_row = 8 * tile.vectors(target) * f.lanes
    seen = f.least(f.most(f.seen(f.plus("%s", f.minus("%count", 1))), "1"), f.argument("keys"))
    seen_row = f.least(f.times(f.over(f.plus(f.times(seen, 8), panel_row - 1), panel_row), panel_row), key_row)
    few = f.op(f"icmp ule i64 %count, {height // FEW}")  # for which a tile's other rows would cost more than it saves

    def multiply(vectors: int, before: tuple[str, str], after: Sequence[str]) -> None:
        """Call a function of products for tiles of rows, or for single rows."""
        for of_rows, condition, count in ((height, f.op(f"xor i1 {few}, true"), tiles), (1, few, "%count")):
            title = products.title(vectors, of_rows)
            f.when(condition, partial(f.call_of, title, *before, f"i64 {count}", *after))

    own = f.argument("own_query_bias") if key.has("query_bias") else ""
    steps = f.argument("query_s"), f.argument("query_h")
    f.fill_rows(rows_, f.place("query", **at, s="%s"), "%count", *steps, head, head_row, own)
    more = f.minus(f.times(tiles, height), "%count")
    f.call_of("cleared", f"ptr {f.at(rows_, f.times('%count', head_row))}", f"i64 {f.times(more, head_row)}")
    f.call_of("normed", f"ptr {rows_}", "i64 %count", f"i64 {head}", f"i64 {head_row}", f"ptr {norms}")
    a = (f"ptr {rows_}", f"i64 {head_row}")

    def score(place: str, vectors: int) -> None:  # bytes of a row of scores before the panel
        panel = f.at(f.argument("panels"), f.times(f.over(place, 8), head_row))
        b = (f"ptr {panel}", f"i64 {8 * f.lanes * vectors}", f"i64 {head}")
        multiply(vectors, a, (*b, f"ptr {f.at(scores, place)}", f"i64 {score_row}", "i64 0"))

    _panels(f, seen_row, tile.vectors(target), score)

    def weigh(j: str) -> None:
        s = f.plus("%s", j)
        end = f.seen(s)
        added = f.argument("added")
        if key.adds:
            f.call_of("added", f"ptr {added}", f"i64 {end}", *(f"i64 {x}" for x in (*at.values(), s)))
        row, norm = f.at(scores, f.times(j, score_row)), f.at(norms, f.times(j, 8))
        f.call_of(
            "weighed", f"ptr {row}", f"ptr {added}", f"i64 {end}", f"ptr {norm}", f"ptr {f.at(about, f.times(j, 8 * ABOUT))}"
        )

    f.each("0", "%count", weigh)

    def block(n: str) -> None:
        t = f.times(n, BLOCK)
        terms = f.least(f.minus(seen, t), str(BLOCK))
        weights_ = (f"ptr {f.at(scores, f.times(t, 8))}", f"i64 {score_row}")

        def add(place: str, vectors: int) -> None:
            b = f.at(f.at(f.argument("value_rows"), f.times(t, column_row)), place)
            into = (f"ptr {f.at(sums, place)}", f"i64 {column_row}", f"i64 {t}")
            multiply(vectors, weights_, (f"ptr {b}", f"i64 {column_row}", f"i64 {terms}", *into))

        _panels(f, column_row, tile.vectors(target), add)

    f.each("0", f.over(f.plus(seen, BLOCK - 1), BLOCK), block)
    f.call_of("cleared", "ptr %open", f"i64 {f.times('%count', f.argument('open_row'))}")

    def finish(j: str) -> None:
        row, weights_ = f.at(sums, f.times(j, column_row)), f.at(scores, f.times(j, score_row))
        out, about_ = f.place("output", **at, s=f.plus("%s", j)), f.at(about, f.times(j, 8 * ABOUT))
        f.call_of("results", f"ptr {row}", f"ptr {weights_}", f"ptr {about_}", f"ptr {out}", f"i64 {j}")

    f.each("0", "%count", finish)
    some = f.op(f"icmp ne i64 {f.undecided().count()}, 0")

    def again() -> None:
        if not target.exact:
            f.call_of("refined", *(f"i64 %{x}" for x in "oprs"))
        f.call_of("left_open", "ptr %open")

    f.when(some, again)
    return f


def _panels(f: Function, row: str, across: int, panel: Callable[[str, int], None]) -> None:
    """Call `panel(place, vectors)` for each panel of a row. row: its bytes; the last panel may be smaller."""
    size = 8 * f.lanes
    end = f.each("0", row, lambda i: panel(i, across), size * across)
    left = f.minus(row, end)
    for n in range(1, across):
        f.when(f.op(f"icmp eq i64 {left}, {size * n}"), partial(panel, end, n))
