"""The faults that are written down one by one: lists, phases, tails, roundings, and what no operator generates."""

from __future__ import annotations

from mutants.mutant import SOURCE, Mutant, Source

LIST, PHASE, TAIL, ROUNDED, TIE = "list loses its last", "phase skipped", "tail", "rounding removed", "half away"
STEP = "step left out"

# path below src/anydml, kind, text, which the file has once, and what takes its place
CHOSEN = (
    # --- lists of undecided elements ---
    ("kernels/undecided/state.py", LIST, "count * self.width]", "(count - 1) * self.width]"),
    ("kernels/undecided/places.py", LIST, "np.flatnonzero(bits)", "np.flatnonzero(bits)[:-1]"),
    ("kernels/undecided/places.py", LIST, "self.places.at(numbers))", "self.places.at(numbers[:-1]))"),
    ("kernels/elementwise/undecided.py", LIST, "_store(left[:, 0]", "_store(left[:-1, 0]"),
    ("kernels/elementwise/undecided.py", LIST, '"count": count})], np.int64)', '"count": count - 1})], np.int64)'),
    ("kernels/reduce/undecided.py", LIST, "elements.decide(_numbers(r, entries)", "elements.decide(_numbers(r, entries[:-1])"),
    ("kernels/nests/undecided.py", LIST, "places.at(entries[:, 0])", "places.at(entries[:-1, 0])"),
    ("kernels/recurrence/undecided.py", LIST, "entries[: int(state[COUNT]), 0]", "entries[: int(state[COUNT]) - 1, 0]"),
    ("kernels/scan/family.py", LIST, "for i in range(count):\n        if mask", "for i in range(count - 1):\n        if mask"),
    ("kernels/undecided/decision.py", LIST, "for k in left.tolist():", "for k in left[:-1].tolist():"),
    ("kernels/undecided/decision.py", LIST, "left = left[~decided]", "left = left[~decided][:-1]"),
    # --- calls that go on where they stopped ---
    ("kernels/undecided/state.py", PHASE, "phases[: stopped + 1]", "phases[:stopped]"),
    ("kernels/undecided/state.py", PHASE, "scratch[start + ROW] = ENDED", "scratch[start + ROW] = 0"),
    ("kernels/undecided/state.py", PHASE, "scratch[start + COUNT] = 0", "scratch[start : start + OWN] = 0"),
    ("kernels/undecided/state.py", PHASE, "row == place == 0 and not self.turns", "row == place == 0"),
    ("kernels/undecided/state.py", PHASE, "    for one in lists:", "    for one in lists[1:]:"),
    ("kernels/call/steps.py", PHASE, "threads=threads) for phase in phases]", "threads=threads) for phase in phases[:-1]]"),
    # --- ends of rows ---
    ("kernels/call/rounds.py", TAIL, "times, rest = divmod(count, most)", "times, rest = divmod(count - 1, most)"),
    ("kernels/call/rounds.py", TAIL, "for k in range(count + 1)", "for k in range(count)"),
    ("kernels/scan/group.py", TAIL, '"%n", 1, starts, step)', 'body.op("add i64 %n, 1"), 1, starts, step)'),
    ("kernels/reduce/undecided_rows.py", TAIL, "{lanes}')}, i64 {left}, i64 {lanes}", "{lanes}')}, i64 {lanes}, i64 {lanes}"),
    # --- roundings ---
    ("exact/formats.py", TIE, "(2 * rest == d and m & 1)", "2 * rest == d"),
    ("exact/formats.py", TIE, "(2 * rest == denominator and quotient & 1)", "2 * rest == denominator"),
    ("exact/requantization.py", TIE, "((above == 0) & (floor & 1 == 1))", "(above == 0)"),
    ("kernels/numbers/floats/rounding.py", TIE, '"half_to_even": "roundeven"', '"half_to_even": "round"'),
    ("kernels/third/translation.py", TIE, '"half_to_even": operations.HALF_TO_EVEN', '"half_to_even": operations.HALF_AWAY'),
    ("kernels/windows/results.py", TIE, 'rounded_to_whole("half_to_even", v)', 'rounded_to_whole("half_away", v)'),
    ("kernels/contract/epilogue/rounding.py", TIE, "return 0.5 - (2.0**-14", "return 0.5 + (2.0**-14"),
    ("graphs/fusion.py", ROUNDED, "body if nest.moves else held(body, producer.data_type)", "body"),
    ("kernels/elementwise/formula.py", ROUNDED, "return rounding.as_rounded(x[0], data)", "return x[0]"),
    ("kernels/nests/walk.py", ROUNDED, "functions.rounded(arithmetic.plain(x[0]), data)", "arithmetic.plain(x[0])"),
    ("kernels/evaluate/source.py", ROUNDED, "lambda a, form: decoded(encoded(a, form), form)", "lambda a, form: a"),
    ("kernels/numbers/floats/rounding.py", ROUNDED, "return of_single(single, guard=either(x.guard, undecided))", "return x"),
    # --- moves, orders and random bits, which have no bounds ---
    ("kernels/copy/copies.py", TAIL, "[*starts[1:], whole]", "[*starts[1:], whole - 1]"),
    ("kernels/copy/interleaved.py", TAIL, 'block(text.op(f"sub i64 %n, {lanes}"))', "pass"),
    ("kernels/copy/strided.py", TAIL, "sizes=(*move.sizes[:d], end - first,", "sizes=(*move.sizes[:d], end - first - 1,"),
    ("kernels/copy/strided.py", STEP, "{value: CONSTANT * i for i, value in", "{value: 0 for i, value in"),
    ("kernels/copy/tiles.py", TAIL, 'across, wide), _clamped(text, j, "%n", tall)', "across, wide), j"),
    ("kernels/irregular/emit.py", TAIL, 'f"icmp uge {kind} {value}, {limit if', 'f"icmp ugt {kind} {value}, {limit if'),
    ("kernels/irregular/emit.py", TAIL, "fold(text, done, count, 1, [], single)", "fold(text, done, done, 1, [], single)"),
    ("kernels/irregular/family.py", STEP, "if found.before:", "if found.before and threads > 1:"),
    ("kernels/irregular/loops.py", TAIL, "size = loop.turns - step * (count - 1)", "size = step"),
    ("kernels/irregular/reversing.py", TAIL, 'text.op(f"sub i64 {length}, 1")', 'text.op(f"sub i64 {length}, 2")'),
    ("kernels/order/emit.py", STEP, 'body.loop(done, "%n", 1, [group], lambda i, g: dealt(1, i, *g))', "pass"),
    ("kernels/order/emit.py", TAIL, "bound, bound.lift(1)) - 1", "bound, bound.lift(2)) - 2"),
    ("kernels/order/keys.py", STEP, 'body.chosen(size.compared("eq", 0), sign, found)', "found"),
    ("kernels/order/keys.py", STEP, 'body.chosen(size.compared("ugt", FORMATS[data_type].infinity), -1, found)', "found"),
    ("kernels/order/listing.py", TAIL, 'start = body.op(f"mul i64 {first}, ', 'start = body.op(f"add i64 {first}, '),
    ("kernels/order/sort.py", TAIL, 'fold(body, "1", "%n", 1, [], one)', 'fold(body, "2", "%n", 1, [], one)'),
    ("kernels/random/emit.py", STEP, "body.splat(high, lanes) - lows.compared", "body.splat(high, lanes) + 0 * lows.compared"),
    ("kernels/random/emit.py", STEP, "body.op(f\"lshr i128 {key}, 32\"))", "key)"),
    ("kernels/random/emit.py", STEP, "ROUNDS = 10", "ROUNDS = 9"),
    ("kernels/random/emit.py", TAIL, "add i64 %all, {WORDS - 1}", "add i64 %all, 0"),
    ("kernels/random/family.py", TAIL, "count - WORDS * first)", "count - WORDS * first - 1)"),
    ("kernels/random/family.py", STEP, "first=first, count=words", "first=0, count=words"),
)  # fmt: skip


def mutants() -> list[Mutant]:
    """All of them, in the order of the table."""
    sources: dict[str, Source] = {}
    found = []
    for path, kind, before, after in CHOSEN:
        source = sources.setdefault(path, Source(path))
        if source.raw.count(before.encode()) != 1:
            raise ValueError(f"{SOURCE / path} has {before!r} {source.raw.count(before.encode())} times, not once")
        start = source.raw.index(before.encode())
        found.append(source.mutant(kind, start, start + len(before.encode()), after))
    return found
