"""The programs of a direction: kernels for its beginning, its sums over inputs, each stage of a step, and its results.

Work items are numbered by sequence and unit. An element that a stage leaves undecided goes to the list of its step and stage.
If nothing on the device decides it, the direction has stopped: the kernels that are enqueued behind do nothing, until the
processor has decided it.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from anydml.kernels.code import opencl
from anydml.kernels.contract.floats.packed.rows import NORM_SLACK
from anydml.kernels.numbers.floats.numbers import SLACK
from anydml.kernels.opencl.recurrence.elements import StageFunctions, widening
from anydml.kernels.opencl.recurrence.plan import DEPTH, NUMBER, PAIR, ROWS, DirectionKey
from anydml.kernels.recurrence.key import INPUT, NEW, NUMBERS, OLD, STATE, SUM, Leaf, needed, read_by

_OWN = ("int t", "int many", "int stops", "long first", "long past")  # of a launch
_TYPES = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}


def names(key: DirectionKey) -> list[str]:
    """The numbers that kernels read, in order."""
    found = ["steps", "sequences", "units", "chunk", "slot", "listed", "list", "kept", "wanted"]
    for n, start in enumerate(key.starts):
        found.append(f"history{n}")
        if start is not None:
            found += [f"start{n}", f"start{n}_sequence", f"start{n}_unit"]
    if key.lengths is not None:
        found += ["lengths", "lengths_sequence"]
    for n, _ in enumerate(key.parameters):
        found += [f"parameter{n}", f"parameter{n}_unit"]
    for n, source in enumerate(key.sources):
        found += [f"{x}{n}" for x in ("terms", "factor", "weights", "columns")]
        found += [f"from{n}_{k}{x}" for k, _ in enumerate(source.blocks) for x in ("", "_unit", "_term")]
        if source.kind == INPUT:
            found += [f"input{n}", f"input{n}_step", f"input{n}_sequence", f"input{n}_term", f"sums{n}", f"norms{n}"]
        elif source.kind == NUMBERS:
            found += [f"numbers{n}", f"pairs{n}"]
    for n, _ in enumerate(key.results):
        found += [f"result{n}", f"result{n}_step", f"result{n}_sequence", f"result{n}_unit"]
    return found


@lru_cache(maxsize=64)
def first(key: DirectionKey, stage: str) -> str:
    """The program with the kernels "begin", "pack{source}", "input{source}", "stage{number}" and "result{number}"."""
    functions = [StageFunctions(opencl.target(stage), key, n) for n in range(len(key.stages))]
    made = [f.first() for f in functions]
    text = _Text(key)
    kernels = [text.begin(), *(text.pack(n) for n in range(len(key.sources)))]
    kernels += [text.input(n) for n, s in enumerate(key.sources) if s.kind == INPUT]
    kernels += [text.stage(n) for n in range(len(key.stages))]
    kernels += [text.result(n) for n in range(len(key.results))]
    return _program(stage, key, functions, made, kernels)


@lru_cache(maxsize=64)
def second(key: DirectionKey, stage: str, number: int) -> str:
    """The program with the kernels "second{number}", and "factors{stage}" for the factors of sums that it reads.

    Uncompilable if a function does not exist in twice float64's precision.
    """
    target, text = opencl.target(stage), _Text(key)
    functions, made, kernels = [StageFunctions(target, key, number)], list[str](), list[str]()
    made += [functions[0].first(), functions[0].settled(), functions[0].finer()]
    for n in needed(key.stages, key.sources, number):
        if key.sources[n].kind == NUMBERS:
            functions.append(factors := StageFunctions(target, key, key.sources[n].number))
            made.append(factors.finer())
            kernels.append(text.factors(n))
    return _program(stage, key, functions, made, [*kernels, text.second(number)])


def _program(stage: str, key: DirectionKey, functions: list[StageFunctions], made: list[str], kernels: list[str]) -> str:
    own = Path(__file__).with_name("steps.cl").read_text().replace("SLACK", repr(SLACK))
    numbers = f"enum {{ {', '.join(map(_number, names(key)))} }};"
    helpers = dict.fromkeys(text for f in functions for text in f.helpers)
    return opencl.program([own, numbers, widening(opencl.target(stage), key.data_type), *helpers, *made, *kernels])


def blocks_of(key: DirectionKey, number: int) -> dict[int, list[int]]:
    """The sums that a stage reads: blocks of weights by sources."""
    found: dict[int, list[int]] = {}
    for leaf in key.stages[number].leaves:
        if leaf.kind == SUM and leaf.block not in found.setdefault(leaf.number, []):
            found[leaf.number].append(leaf.block)
    return found


def _number(name: str) -> str:
    return f"N_{name.upper()}"


def _n(name: str) -> str:
    return f"n[{_number(name)}]"


class _Text:
    """The kernels of a direction, as OpenCL C."""

    def __init__(self, key: DirectionKey) -> None:
        self.key = key
        self.size = key.data_type.dtype.itemsize
        self.word = _TYPES[self.size]

    def _kernel(self, name: str, lines: list[str]) -> str:
        given = [*(f"global uchar *t{k}" for k in range(self.key.tensors)), "global uchar *work", "global int *counts"]
        given += ["constant long *n", *_OWN]
        begin = ["long i = first + (long)get_global_id(0);", "if (i >= past) return;"]
        return "\n".join([f"kernel void {name}({', '.join(given)}) {{", *(f"  {x}" for x in [*begin, *lines]), "}\n"])

    def _split(self) -> list[str]:
        return [f"long units = {_n('units')}, b = i / units, j = i - b * units;"]

    def _unless_stopped(self, stage: int | None = None) -> list[str]:
        """The end of a kernel if the direction has stopped. stage: elements of the same stage may have stopped it."""
        stop = f"counts[{_n('slot')} + 1]"
        if stage is None:
            return [f"if ({stop}) return;"]
        return [f"int now = t * {len(self.key.stages)} + {stage} + 1;", f"if ({stop} && {stop} != now) return;"]

    def _length(self, b: str = "b") -> str:
        if self.key.lengths is None:
            return _n("steps")
        at = f"t{self.key.lengths} + {_n('lengths')} + {b} * {_n('lengths_sequence')}"
        return f"min((long)*(global uint *)({at}), {_n('steps')})"

    def _history(self, state: int, slot: str, j: str = "j") -> str:
        at = f"(({slot}) * {_n('sequences')} + b) * units + {j}"
        return f"work + {_n(f'history{state}')} + ({at}) * {self.size}"

    def _counter(self, which: int, stage: int) -> str:
        """The number of elements that a step's stage has listed (0), or that stay undecided after the second stage (1)."""
        at = f"2 * (t * {len(self.key.stages)} + {stage}) + {which}"
        return f"((volatile global int *)(work + {_n('listed')}) + {at})"

    # --- before and after the steps ---

    def begin(self) -> str:
        """All counters are 0, and the states have their initial values."""
        lines = [f"if (i < 2 * {_n('steps')} * {len(self.key.stages)}) ((global int *)(work + {_n('listed')}))[i] = 0;"]
        lines += [f"if (i < {_n('sequences')}) ((global int *)(work + {_n('wanted')}))[i] = 0;"]
        lines += [*self._split(), f"if (b >= {_n('sequences')}) return;"]
        for n, start in enumerate(self.key.starts):
            at = f"t{start} + {_n(f'start{n}')} + b * {_n(f'start{n}_sequence')} + j * {_n(f'start{n}_unit')}"
            value = "0" if start is None else f"*(global {self.word} *)({at})"
            lines.append(f"*(global {self.word} *)({self._history(n, '0')}) = {value};")
        return self._kernel("begin", lines)

    def pack(self, n: int) -> str:
        """The weights of a source, so that those of adjacent units are adjacent; and the norms of each unit's weights."""
        lines = [*self._split(), f"global uchar *from = 0; long unit = 0, term = 0, terms = {_n(f'terms{n}')};"]
        for k, tensor in enumerate(self.key.sources[n].blocks):
            at = f"from = t{tensor} + {_n(f'from{n}_{k}')}, unit = {_n(f'from{n}_{k}_unit')}, term = {_n(f'from{n}_{k}_term')};"
            lines.append(f"if (b == {k}) {at}")
        lines += [
            "double norm = 0.0;",
            "for (long k = 0; k < terms; ++k) {",
            "  global uchar *at = from + j * unit + k * term;",
            f"  *(global {self.word} *)({self._weight(n, 'b')}) = *(global {self.word} *)at;",
            "  double w = wide(at);",
            "  norm = fma(w, w, norm);",
            "}",
            f"*(global double *)({self._column(n, 'b')}) = sqrt(norm) * {NORM_SLACK!r};",
        ]
        return self._kernel(f"pack{n}", lines)

    def result(self, n: int) -> str:
        """An output: a state after each step, or after the last one; zeros beyond the end of a sequence."""
        found, tensor = self.key.results[n]
        lines = [*self._unless_stopped(), f"long units = {_n('units')}, j = i % units, b = i / units % {_n('sequences')};"]
        lines += [f"long t_ = i / units / {_n('sequences')}, length = {self._length()};"]
        slot = "length" if found.last else "length - t_" if found.backward else "t_ + 1"
        there = "length != 0" if found.last else "t_ < length"
        at = f"t{tensor} + {_n(f'result{n}')} + t_ * {_n(f'result{n}_step')} + b * {_n(f'result{n}_sequence')}"
        value = f"{there} ? *(global {self.word} *)({self._history(found.state, slot)}) : 0"
        lines.append(f"*(global {self.word} *)({at} + j * {_n(f'result{n}_unit')}) = {value};")
        return self._kernel(f"result{n}", lines)

    # --- sums ---

    def _weight(self, n: int, block: str) -> str:
        return f"work + {_n(f'weights{n}')} + (({block} * terms + k) * units + j) * {self.size}"

    def _column(self, n: int, block: str) -> str:
        return f"work + {_n(f'columns{n}')} + ({block} * units + j) * 8"

    def _factor(self, n: int) -> str:
        return f"as_double({_n(f'factor{n}')})"

    def _input(self, n: int, t: str, b: str) -> str:
        """The address of an input's first term at a step of a sequence; that of another step beyond its end."""
        source = self.key.sources[n]
        at = f"max({self._length(b)} - 1 - ({t}), 0L)" if source.backward else f"({t})"
        return f"t{source.tensor} + {_n(f'input{n}')} + {at} * {_n(f'input{n}_step')} + {b} * {_n(f'input{n}_sequence')}"

    def input(self, n: int) -> str:
        """The sums over an input of `many` steps from `t` on, and the norms of its rows."""
        blocks = range(len(self.key.sources[n].blocks))
        rows = range(ROWS)
        lines = self._unless_stopped()
        lines += [f"long units = {_n('units')}, row = i / units * {ROWS}, j = i % units, terms = {_n(f'terms{n}')};"]
        lines += [f"long rows = many * {_n('sequences')};"]
        for r in rows:
            lines += [f"long row{r} = min(row + {r}, rows - 1), b{r} = row{r} % {_n('sequences')};"]
            lines += [
                f"long t{r}_ = t + row{r} / {_n('sequences')};",
                f"global uchar *x{r} = {self._input(n, f't{r}_', f'b{r}')};",
            ]
            lines += [f"double norm{r} = 0.0, {', '.join(f'total{r}_{q} = -0.0' for q in blocks)};"]
        lines += [f"for (long k0 = 0; k0 < terms; k0 += {DEPTH}) {{", f"  long end = min(k0 + {DEPTH}, terms);"]
        lines += [f"  double {', '.join(f'part{r}_{q} = -0.0' for q in blocks)};" for r in rows]
        lines += ["  for (long k = k0; k < end; ++k) {"]
        lines += [f"    double w{q} = wide({self._weight(n, str(q))});" for q in blocks]
        for r in rows:
            lines += [f"    double v{r} = wide(x{r} + k * {_n(f'input{n}_term')});", f"    norm{r} = fma(v{r}, v{r}, norm{r});"]
            lines += [f"    part{r}_{q} = fma(v{r}, w{q}, part{r}_{q});" for q in blocks]
        lines += ["  }", *(f"  total{r}_{q} += part{r}_{q};" for r in rows for q in blocks), "}"]
        count = len(blocks)
        for r in rows:
            at = f"(global double *)(work + {_n(f'sums{n}')}) + (row + {r}) * {count} * units + j"
            stores = " ".join(f"({at})[{q} * units] = total{r}_{q};" for q in blocks)
            norm = f"if (!j) ((global double *)(work + {_n(f'norms{n}')}))[row + {r}] = sqrt(norm{r}) * {NORM_SLACK!r};"
            lines.append(f"if (row + {r} < rows) {{ {stores} {norm} }}")
        return self._kernel(f"input{n}", lines)

    def _totals(self, number: int) -> list[str]:
        """The sums of a stage in float64: `total{source}_{block}`; bounds, `error{source}_{block}`; and `open{source}`."""
        lines = []
        for n, blocks in blocks_of(self.key, number).items():
            source = self.key.sources[n]
            if source.kind == INPUT:
                lines.append(f"long row{n} = t % {_n('chunk')} * {_n('sequences')} + b;")
                lines.append(f"double norm{n} = ((global double *)(work + {_n(f'norms{n}')}))[row{n}];")
                for q in blocks:
                    at = f"(row{n} * {len(source.blocks)} + {q}) * units + j"
                    lines.append(f"double total{n}_{q} = ((global double *)(work + {_n(f'sums{n}')}))[{at}];")
            else:
                lines += self._added(n, blocks)
            bound = f"norm{n} * {self._factor(n)}" + (f" + lost{n}" if source.kind == NUMBERS else "")
            for q in blocks:
                column = f"*(global double *)({self._column(n, str(q))})"
                lines.append(f"double error{n}_{q} = ({bound}) * {column};")
        return lines

    def _added(self, n: int, blocks: list[int]) -> list[str]:
        """The sums over a state, or over the results of a stage."""
        source = self.key.sources[n]
        scaled = source.kind == NUMBERS
        lines = [f"double norm{n} = 0.0, {', '.join(f'total{n}_{q} = -0.0' for q in blocks)};"]
        if scaled:
            lines += [f"double lost{n} = 0.0; bool open{n} = false;"]
            lines += [f"global double *x{n} = (global double *)(work + {_n(f'numbers{n}')}) + b * units * {NUMBER // 8};"]
        else:
            lines += [f"global uchar *x{n} = {self._history(source.number, 't', '0')};"]
        lines += [f"for (long terms = {_n(f'terms{n}')}, k0 = 0; k0 < terms; k0 += {DEPTH}) {{"]
        lines += [f"  long end = min(k0 + {DEPTH}, terms);", f"  double {', '.join(f'part{q} = -0.0' for q in blocks)};"]
        lines += ["  for (long k = k0; k < end; ++k) {"]
        lines += [f"    double x = {f'x{n}[k * {NUMBER // 8}]' if scaled else f'wide(x{n} + k * {self.size})'};"]
        if scaled:
            lines += [f"    double lost = x{n}[k * {NUMBER // 8} + 1];", f"    lost{n} = fma(lost, lost, lost{n});"]
            lines += [f"    open{n} |= x{n}[k * {NUMBER // 8} + 2] != 0.0;"]
        lines += [f"    norm{n} = fma(x, x, norm{n});"]
        lines += [f"    part{q} = fma(x, wide({self._weight(n, str(q))}), part{q});" for q in blocks]
        lines += ["  }", *(f"  total{n}_{q} += part{q};" for q in blocks), "}", f"norm{n} = sqrt(norm{n}) * {NORM_SLACK!r};"]
        return lines + ([f"lost{n} = sqrt(lost{n}) * {NORM_SLACK!r};"] if scaled else [])

    def _parts(self, number: int) -> list[str]:
        """The sums of a stage in three parts: `fine{source}_{block}`, and flags of their factors, `flags{source}`."""
        lines = []
        for n, blocks in blocks_of(self.key, number).items():
            source = self.key.sources[n]
            scaled = source.kind == NUMBERS
            lines += [f"double {', '.join(f'fine{n}_{q}[3] = {{-0.0, 0.0, 0.0}}' for q in blocks)};"]
            if scaled:
                lines += [f"ulong flags{n} = 0;", f"global uchar *y{n} = work + {_n(f'pairs{n}')} + b * units * {PAIR};"]
            elif source.kind == STATE:
                lines += [f"global uchar *y{n} = {self._history(source.number, 't', '0')};"]
            else:
                lines += [f"global uchar *y{n} = {self._input(n, 't', 'b')};"]
            lines += [f"for (long terms = {_n(f'terms{n}')}, k = 0; k < terms; ++k) {{"]
            step = str(self.size) if source.kind == STATE else _n(f"input{n}_term")
            if scaled:
                lines += [f"  global double *x = (global double *)(y{n} + k * {PAIR});", f"  flags{n} |= as_ulong(x[3]);"]
            else:
                lines += [f"  double x = wide(y{n} + k * {step});"]
            for q in blocks:
                w = f"wide({self._weight(n, str(q))})"
                lines.append(
                    f"  add_scaled(fine{n}_{q}, x[0], x[1], x[2], {w});" if scaled else f"  add(fine{n}_{q}, x * {w});"
                )
            lines += ["}", *(f"finish(fine{n}_{q});" for q in blocks)]
        return lines

    # --- stages ---

    def _call(self, function: str, number: int, out: str, *, finer: bool = False) -> str:
        given: list[str] = []
        for leaf in self.key.stages[number].leaves:
            if leaf.kind != SUM:
                continue
            place = f"{leaf.number}_{leaf.block}"
            scaled = self.key.sources[leaf.number].kind == NUMBERS
            if finer:
                given += [f"fine{place}[{k}]" for k in range(3)] + [f"flags{leaf.number}"] * scaled
            else:
                given += [f"total{place}", f"error{place}"] + [f"open{leaf.number}"] * scaled
        given += [self._operand(leaf) for leaf in self.key.stages[number].leaves if leaf.kind != SUM]
        return f"{function}{number}({', '.join([*given, out])})"

    def _operand(self, leaf: Leaf) -> str:
        if leaf.kind in (OLD, NEW):
            return self._history(leaf.number, "t" if leaf.kind == OLD else "t + 1")
        at = f"t{self.key.parameters[leaf.number]} + {_n(f'parameter{leaf.number}')}"
        return f"{at} + j * {_n(f'parameter{leaf.number}_unit')}"

    def _scaled(self, number: int) -> int:
        """The source whose factors a stage computes."""
        return next(n for n, s in enumerate(self.key.sources) if s.kind == NUMBERS and s.number == number)

    def stage(self, number: int) -> str:
        """The first stage of a step's elements: those of a state, or factors of sums."""
        lines = [*self._unless_stopped(number), *self._split(), f"if (t >= {self._length()}) return;", *self._totals(number)]
        state = self.key.stages[number].state
        if state is None:
            at = f"work + {_n(f'numbers{self._scaled(number)}')} + i * {NUMBER}"
            call = self._call("first", number, "at")
            lines += [f"global uchar *at = {at};", f"((global double *)at)[2] = {call} ? 1.0 : 0.0;"]
            return self._kernel(f"stage{number}", lines)
        lines += [
            f"if ({self._call('first', number, self._history(state, 't + 1'))}) {{",
            f"  ((global int *)(work + {_n('list')}))[atomic_inc({self._counter(0, number)})] = (int)i;",
            f"  atomic_inc((volatile global int *)counts + {_n('slot')});",
        ]
        if any(self.key.sources[n].kind == NUMBERS for n in read_by(self.key.stages[number])):
            lines.append(f"  ((global int *)(work + {_n('wanted')}))[b] = t + 1;")
        lines += [f"  if (stops) counts[{_n('slot')} + 1] = now;", "}"]
        return self._kernel(f"stage{number}", lines)

    def factors(self, n: int) -> str:
        """The factors of sums in three parts, of sequences with undecided elements."""
        number = self.key.sources[n].number
        lines = [*self._unless_stopped(), *self._split()]
        lines += [f"if (((global int *)(work + {_n('wanted')}))[b] != t + 1) return;", *self._parts(number)]
        return self._kernel(
            f"factors{n}", [*lines, self._call("finer", number, f"work + {_n(f'pairs{n}')} + i * {PAIR}", finer=True) + ";"]
        )

    def second(self, number: int) -> str:
        """The listed elements: by signs and magnitudes, then by more precise sums."""
        state = self.key.stages[number].state
        assert state is not None
        out = self._history(state, "t + 1")
        body = [
            f"i = ((global int *)(work + {_n('list')}))[e];",
            *self._split(),
            *self._totals(number),
            f"if (!{self._call('settled', number, out)}) continue;",
            *self._parts(number),
            f"if (!{self._call('finer', number, out, finer=True)}) continue;",
            f"((global int *)(work + {_n('kept')}))[atomic_inc({self._counter(1, number)})] = (int)i;",
            f"counts[{_n('slot')} + 1] = now;",
        ]
        lines = [*self._unless_stopped(number), f"int many_ = *{self._counter(0, number)};"]
        lines += ["for (long e = i; e < many_; e += get_global_size(0)) {", *(f"  {x}" for x in body), "}"]
        return self._kernel(f"second{number}", lines)
