"""The kernel of steps: one operation after the other, up to the last step or until elements are undecided.

It stores in the state where it stopped, and continues there when it is called again. Its text depends on the formulas, on the
types and on the tiles of sums, never on sizes or strides.
"""

from __future__ import annotations

from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.packed.rows import AT_ONCE
from anydml.kernels.recurrence import digits, registers, rows, stages
from anydml.kernels.recurrence.key import (
    INPUT,
    LONGEST,
    NUMBERS,
    STATE,
    RecurrenceKey,
    signature,
)
from anydml.kernels.recurrence.rows import defined
from anydml.kernels.recurrence.stages import length
from anydml.kernels.undecided.lists import UndecidedList
from anydml.kernels.undecided.state import ENDED, ROW
from anydml.tensor import DataType


def emitted(target: Target, key: RecurrenceKey) -> str:
    """The kernel; arguments: `key.signature`. It returns 1 if it has stopped."""
    functions = [
        rows.packed(target, key.data_type, "packed"),
        rows.tiled(target, key.data_type, "tiled"),
        rows.copied(target, key.data_type),
        _begin(target, key),
        _finish(target, key),
        *(rows.sums(target, *tile) for tile in sorted({(s.rows, s.across, s.widened) for s in key.sources if not s.blocks})),
        *(_sums(target, key, n) for n in range(len(key.sources))),
        *(stages.function(target, key, n) for n in range(len(key.stages))),
    ]
    if any(s.kind == NUMBERS for s in key.sources):
        functions.append(rows.packed(target, DataType.FLOAT64, "packed_numbers"))
        functions.append(rows.tiled(target, DataType.FLOAT64, "tiled_numbers"))
    for count in sorted({s.digits for s in key.sources if s.digits}):
        functions += [digits.of_rows(target, count), registers.products(target, count)]
    if any(s.blocks for s in key.sources):
        functions.append(rows.dots(target, key.data_type))
    body = _main(target, key)
    declared = dict.fromkeys([*body.declared, *(line for _, lines in functions for line in lines)])
    return kernel(body, [*declared, *(text for text, _ in functions)])


def _with_arguments(target: Target, key: RecurrenceKey) -> Body:
    body = Body(target)
    signature(key).load(body)
    return body


def _main(target: Target, key: RecurrenceKey) -> Body:
    body = _with_arguments(target, key)
    operations = key.operations
    list_ = UndecidedList(body, 1)
    begun = list_.begun()

    def begin() -> None:
        body.do("call void @begin(ptr %arguments)")

    when(body, body.op(f"icmp eq i64 {begun}, 0"), begin)
    longest = body.load("i64", "%state", 8 * LONGEST)
    end = body.op(f"mul i64 {longest}, {len(operations)}")
    last = body.op(f"add i64 {begun}, %most")
    before, head, over = (body.name(x) for x in ("before", "head", "over"))
    labels = [body.name("operation") for _ in operations]
    after = body.name("after")
    body.jump(before)
    body.label(before)
    body.branch(body.op(f"icmp eq i64 {begun}, {ENDED}"), over, head)
    body.label(over)
    body.do("ret i64 0")
    body.label(head)
    q, next_ = f"%{body.name('q')}", f"%{body.name('r')}"
    body.do(f"{q} = phi i64 [ {begun}, %{before} ], [ {next_}, %{after} ]")
    finish, inside, one = body.name("finish"), body.name("inside"), body.name("one")
    body.branch(body.op(f"icmp uge i64 {q}, {end}"), finish, inside)
    body.label(finish)
    body.do("call void @finish(ptr %arguments)")
    list_.end(begun)
    body.label(inside)
    when(body, body.op(f"icmp uge i64 {q}, {last}"), lambda: list_.stop(q))
    t, which = body.op(f"udiv i64 {q}, {len(operations)}"), body.op(f"urem i64 {q}, {len(operations)}")
    cases = " ".join(f"i64 {n}, label %{label}" for n, label in enumerate(labels[1:], 1))
    body.do(f"switch i64 {which}, label %{labels[0]} [ {cases} ]")
    statuses = []
    for (kind, number), label in zip(operations, labels, strict=True):
        body.label(label)
        statuses.append(body.op(f"call i64 @{kind if kind == 'stage' else 'summed'}{number}(ptr %arguments, i64 {t})"))
        body.jump(one)
    body.label(one)
    status = body.op("phi i64 " + ", ".join(f"[ {s}, %{label} ]" for s, label in zip(statuses, labels, strict=True)))
    numbers = [number for _, number in operations]
    stage = body.op("phi i64 " + ", ".join(f"[ {n}, %{label} ]" for n, label in zip(numbers, labels, strict=True)))
    body.do(f"{next_} = add i64 {q}, 1")
    left, known, undecided = (body.name(x) for x in ("left", "known", "open"))
    body.branch(body.op(f"icmp eq i64 {status}, 0"), after, left)
    body.label(left)
    body.store("i64", next_, "%state", 8 * ROW)
    finer = body.load("ptr", "%codes", body.op(f"mul i64 {stage}, 8"))
    body.branch(body.op(f"icmp eq ptr {finer}, null"), undecided, known)
    body.label(known)
    body.branch(body.op(f"icmp eq i64 {body.op(f'call i64 {finer}(ptr %arguments)')}, 0"), after, undecided)
    body.label(undecided)
    body.do("ret i64 1")
    body.label(after)
    body.jump(head)
    return body


def _begin(target: Target, key: RecurrenceKey) -> tuple[str, list[str]]:
    """`void @begin(arguments)`: the states before the first step, and the number of steps."""
    body, size = _with_arguments(target, key), key.data_type.dtype.itemsize

    def one(b: str, carried: list[Value]) -> list[Value]:
        for n, given in enumerate(key.starts):
            into = body.at(f"%history{n}", body.op(f"mul i64 {b}, %row"))
            from_, step = "null", "0"
            if given:
                from_, step = body.at(f"%start{n}", body.op(f"mul i64 {b}, %start{n}_sequence")), f"%start{n}_unit"
            body.do(f"call void @copied(ptr {from_}, i64 {step}, i64 %units, ptr {into}, i64 {size})")
        longest = body.call("llvm.umax.i64", Kind("i64"), f"i64 {length(body, key, b)}", f"i64 {carried[0].name}")
        return [longest]

    _, (longest,) = body.loop("0", "%sequences", 1, [body.constant(Kind("i64"), 0)], one)
    body.stored(longest, "%state", 8 * LONGEST)
    for n in range(key.parameters):
        body.do(f"call void @copied(ptr %parameter{n}, i64 %parameter{n}_unit, i64 %units, ptr %kept{n}, i64 {size})")
    body.do("ret void")
    return defined(body, "void @begin(ptr %arguments)"), [*body.declared]


def _finish(target: Target, key: RecurrenceKey) -> tuple[str, list[str]]:
    """`void @finish(arguments)`: the outputs, from the states of all steps."""
    body, size = _with_arguments(target, key), key.data_type.dtype.itemsize

    def copy(n: int, b: str, slot: str, there: str, into: str) -> None:
        """The state after a number of steps; zeros if there is none."""
        result = key.results[n]
        from_ = body.at(f"%history{result.state}", body.op(f"mul i64 {slot}, %slot"))
        from_ = body.at(from_, body.op(f"mul i64 {b}, %row"))
        from_ = body.op(f"select i1 {there}, ptr {from_}, ptr null")
        body.do(f"call void @copied(ptr {from_}, i64 {size}, i64 %units, ptr {into}, i64 %result{n}_unit)")

    def sequence(b: str, _: list[Value]) -> list[Value]:
        steps = length(body, key, b)
        for n, result in enumerate(key.results):
            into = body.at(f"%result{n}", body.op(f"mul i64 {b}, %result{n}_sequence"))
            if result.last:
                copy(n, b, steps, body.op(f"icmp ne i64 {steps}, 0"), into)
                continue

            def step(t: str, _: list[Value], n: int = n, into: str = into, backward: bool = result.backward) -> list[Value]:
                slot = body.op(f"sub i64 {steps}, {t}") if backward else body.op(f"add i64 {t}, 1")
                there = body.op(f"icmp ult i64 {t}, {steps}")
                copy(n, b, slot, there, body.at(into, body.op(f"mul i64 {t}, %result{n}_step")))
                return []

            body.loop("0", "%steps", 1, [], step)
        return []

    body.loop("0", "%sequences", 1, [], sequence)
    body.do("ret void")
    return defined(body, "void @finish(ptr %arguments)"), [*body.declared]


def _sums(target: Target, key: RecurrenceKey, n: int) -> tuple[str, list[str]]:
    """`i64 @summed{n}(arguments, t)`: packs rows and computes their sums; for an input, those of several steps."""
    body, source = _with_arguments(target, key), key.sources[n]
    apart = 8 * source.rows
    tile = body.op(f"mul i64 %terms{n}, {apart}")

    def pack(row: str, from_: str, step: str, count: str, name: str = "packed") -> None:
        into = body.at(f"%packed{n}", body.op(f"mul i64 {body.op(f'udiv i64 {row}, {source.rows}')}, {tile}"))
        into = body.at(into, body.op(f"mul i64 {body.op(f'urem i64 {row}, {source.rows}')}, 8"))
        norm = body.at(f"%norms{n}", body.op(f"mul i64 {row}, 8"))
        body.do(f"call void @{name}(ptr {from_}, i64 {step}, i64 {count}, ptr {into}, i64 {apart}, ptr {norm})")

    def add_up(count: str) -> None:
        for block in range(source.blocks):
            place = body.op(f"mul i64 %block{n}, {block}")
            into = f"ptr {body.at(f'%sums{n}', place)}, ptr {body.at(f'%columns{n}', place)}"
            weights = f"ptr %weights{n}_{block}, i64 %unit{n}_{block}, i64 %units"
            body.do(f"call void @dots(ptr %packed{n}, i64 %terms{n}, {weights}, {into})")
        if source.blocks:
            return
        summed = f"sums_{source.rows}_{source.across}"
        if source.digits:
            registers.added_up(body, source, n, count, summed)
            return
        up = body.op(f"udiv i64 {body.op(f'add i64 {count}, {source.rows - 1}')}, {source.rows}")
        values = (f"ptr %packed{n}", f"i64 {tile}", f"i64 {up}", f"ptr %panels{n}", f"i64 %panel{n}", f"i64 %panel_count{n}")
        more = (f"i64 %terms{n}", f"ptr %sums{n}", f"i64 %sums_row{n}", f"i64 %depth{n}", "ptr %wide")
        body.do(f"call void @{summed}({', '.join((*values, *more))})")

    if source.kind == INPUT:
        first = body.op(f"icmp eq i64 {body.op('urem i64 %t, %chunk')}, 0")
        left = body.op(f"sub i64 {body.load('i64', '%state', 8 * LONGEST)}, %t")
        steps = body.call("llvm.umin.i64", Kind("i64"), f"i64 {left}", "i64 %chunk").name

        def sequence(b: str, i: str) -> None:
            t = body.op(f"add i64 %t, {i}")
            longest = length(body, key, b)
            at = body.op(f"sub i64 {body.op(f'sub i64 {longest}, 1')}, {t}") if source.backward else t
            from_ = body.at(f"%input{n}", body.op(f"mul i64 {b}, %input_sequence{n}"))
            from_ = body.at(from_, body.op(f"mul i64 {at}, %input_step{n}"))
            there = body.op(f"icmp ult i64 {t}, {longest}")
            row = body.op(f"add i64 {body.op(f'mul i64 {i}, %sequences')}, {b}")
            # sums of a step beyond the end are never read
            when(body, there, lambda: pack(row, from_, f"%input_term{n}", f"%terms{n}"))

        def step(i: str, _: list[Value]) -> list[Value]:
            def one(b: str, _: list[Value]) -> list[Value]:
                sequence(b, i)
                return []

            def tile_of(b: str, _: list[Value]) -> list[Value]:
                """Rows that fill a tile: sequences that all have the step."""
                t = body.op(f"add i64 %t, {i}")
                at = body.op(f"sub i64 {body.op('sub i64 %steps, 1')}, {t}") if source.backward else t
                from_ = body.at(f"%input{n}", body.op(f"mul i64 {b}, %input_sequence{n}"))
                from_ = body.at(from_, body.op(f"mul i64 {at}, %input_step{n}"))
                row = body.op(f"add i64 {body.op(f'mul i64 {i}, %sequences')}, {b}")
                into = body.at(f"%packed{n}", body.op(f"mul i64 {body.op(f'udiv i64 {row}, {AT_ONCE}')}, {tile}"))
                norms = body.at(f"%norms{n}", body.op(f"mul i64 {row}, 8"))
                values = f"ptr {from_}, i64 %input_sequence{n}, i64 %terms{n}, ptr {into}, ptr {norms}"
                body.do(f"call void @tiled({values})")
                return []

            begun = "0"
            if source.rows == AT_ONCE and not key.lengths:
                fits = body.op(f"icmp eq i64 {body.op(f'urem i64 %sequences, {AT_ONCE}')}, 0")
                near = body.op(f"icmp eq i64 %input_term{n}, {key.data_type.dtype.itemsize}")
                together = body.op(f"select i1 {body.op(f'and i1 {fits}, {near}')}, i64 %sequences, i64 0")
                begun = body.loop("0", together, AT_ONCE, [], tile_of)[0]
            body.loop(begun, "%sequences", 1, [], one)
            return []

        def chunk() -> None:
            body.loop("0", steps, 1, [], step)
            add_up(body.op(f"mul i64 {steps}, %sequences"))

        when(body, first, chunk)
    else:
        size, numbers = key.data_type.dtype.itemsize, ""
        if source.kind == STATE:
            start, apart_rows = body.at(f"%history{source.number}", body.op("mul i64 %t, %slot")), "%row"
        else:
            start, apart_rows, size, numbers = f"%numbers{n}", f"%numbers_row{n}", 8, "_numbers"

        def tile_of(first: str, _: list[Value]) -> list[Value]:
            """Rows that fill a tile."""
            from_ = body.at(start, body.op(f"mul i64 {first}, {apart_rows}"))
            into = body.at(f"%packed{n}", body.op(f"mul i64 {body.op(f'udiv i64 {first}, {AT_ONCE}')}, {tile}"))
            norms = body.at(f"%norms{n}", body.op(f"mul i64 {first}, 8"))
            values = f"ptr {from_}, i64 {apart_rows}, i64 %terms{n}, ptr {into}, ptr {norms}"
            body.do(f"call void @tiled{numbers}({values})")
            return []

        def row(b: str, _: list[Value]) -> list[Value]:
            from_ = body.at(start, body.op(f"mul i64 {b}, {apart_rows}"))
            pack(b, from_, str(size), f"%terms{n}", f"packed{numbers}")
            return []

        begun = body.loop("0", "%sequences", AT_ONCE, [], tile_of)[0] if source.rows == AT_ONCE else "0"
        body.loop(begun, "%sequences", 1, [], row)
        add_up("%sequences")
    body.do("ret i64 0")
    return defined(body, f"i64 @summed{n}(ptr %arguments, i64 %t)"), [*body.declared]
