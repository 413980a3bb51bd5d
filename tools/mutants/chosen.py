"""The faults that are written down one by one: lists, phases, tails, roundings, and what no operator generates."""

from __future__ import annotations

from mutants.mutant import SOURCE, Mutant, Source

LIST, PHASE, TAIL, ROUNDED, TIE = "list loses its last", "phase skipped", "tail", "rounding removed", "half away"

# path below src/anydml, kind, text, which the file has once, and what takes its place
CHOSEN = (
    # --- lists of undecided elements ---
    ("kernels/elementwise/undecided.py", LIST, "_store(entries[:, 0]", "_store(entries[:-1, 0]"),
    ("kernels/elementwise/undecided.py", LIST, "[[address_of(entries), count]]", "[[address_of(entries), count - 1]]"),
    ("kernels/reduce/undecided.py", LIST, "entries.tolist()))", "entries[:-1].tolist()))"),
    ("kernels/nests/undecided.py", LIST, "_store(piece, entries, decisions", "_store(piece, entries[:-1], decisions"),
    ("kernels/nests/emit.py", LIST, "  for k in range(self.lanes):\n\n", "  for k in range(self.lanes - 1):\n\n"),
    ("kernels/windows/undecided.py", LIST, "along in listed]", "along in [*listed][:-1]]"),
    ("kernels/attention/undecided.py", LIST, "np.flatnonzero(bits)", "np.flatnonzero(bits)[:-1]"),
    ("kernels/contract/floats/undecided.py", LIST, "np.flatnonzero(bits)", "np.flatnonzero(bits)[:-1]"),
    ("kernels/recurrence/undecided.py", LIST, "if len(entries):", "if len(entries := entries[:-1]):"),
    ("kernels/scan/family.py", LIST, "for i in range(count):\n        if mask", "for i in range(count - 1):\n        if mask"),
    ("kernels/undecided/decision.py", LIST, "for k in left.tolist():", "for k in left[:-1].tolist():"),
    ("kernels/undecided/decision.py", LIST, "left = np.flatnonzero(~decided)", "left = np.flatnonzero(~decided)[:-1]"),
    # --- calls that go on where they stopped ---
    ("kernels/nests/undecided.py", PHASE, "phases[: begun + 1]", "phases[:begun]"),
    ("kernels/nests/undecided.py", PHASE, "scratch[piece.start] = DONE", "scratch[piece.start] = 0"),
    ("kernels/nests/undecided.py", PHASE, "scratch[piece.start + 2] = 0", "scratch[piece.start : piece.start + 3] = 0"),
    ("kernels/nests/emit.py", PHASE, 'body.do("%first = add i64 %begin, %row0")', 'body.do("%first = add i64 %begin, 0")'),
    ("kernels/windows/undecided.py", PHASE, "piece[0] = done", "piece[0] = 0"),
    ("kernels/windows/undecided.py", PHASE, "piece[2] = 0", "piece[:3] = 0"),
    ("kernels/reduce/undecided.py", PHASE, "piece[0] = done", "piece[0] = 0"),
    ("kernels/reduce/undecided.py", PHASE, "piece[2] = 0", "piece[:3] = 0"),
    ("kernels/elementwise/undecided.py", PHASE, "piece[0] = np.iinfo(np.int64).max", "piece[0] = 0"),
    ("kernels/elementwise/undecided.py", PHASE, "piece[2] = 0", "piece[:3] = 0"),
    ("kernels/recurrence/undecided.py", PHASE, "state[POSITION] = DONE", "state[POSITION] = 0"),
    ("kernels/recurrence/undecided.py", PHASE, "state[COUNT] = 0", "state[POSITION] += 1"),
    ("kernels/scan/family.py", PHASE, "state[emit.NEXT] = emit.DONE", "state[emit.NEXT] = 0"),
    ("kernels/scan/family.py", PHASE, "state[emit.OPEN] = 0", "state[emit.NEXT] += 1; state[emit.OPEN] = 0"),
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
