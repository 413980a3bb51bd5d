"""The kernel of random words: Philox 4x32-10 of several counters at a time, as many as a register has words."""

from __future__ import annotations

from typing import NamedTuple

from anydml.exact.philox import INCREMENTS, MULTIPLIERS, WORD
from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import along, kernel, shuffle, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.match.random_words import WORDS
from anydml.schema.node import Expr

# first: the counter at which the words begin, relative to the first one. all: the words after which the state is stored
RANDOM = Signature("*target first count all *after after_step *state state_step words")
ROUNDS = 10


class RandomKey(NamedTuple):
    """counter, key: expressions of elements, which are numbered like the last arguments of the kernel."""

    counter: tuple[object, ...]
    key: tuple[object, ...]


def arithmetic(e: Expr, named: list[Expr]) -> tuple[object, ...]:
    """An integer as an operation and its arguments. Elements are numbers in the list `named`, to which they are added."""
    if e.op == "read":
        if e not in named:
            named.append(e)
        tensor = e.data[0]
        return "element", named.index(e), tensor.data_type.element_bits, tensor.data_type.dtype.kind == "i"
    if e.op == "constant":
        return "constant", int(e.data.value)
    made = [arithmetic(a, named) for a in e.args]
    return made[0] if e.op == "index" else (e.op, *made)


def emitted(target: Target, kernel_key: RandomKey) -> str:
    """The kernel. Arguments: RANDOM, and the addresses of the elements in counter and key."""
    body = Body(target)
    RANDOM.load(body)
    lanes = target.vector_bytes // 4
    block = body.op(f"alloca [{lanes * WORDS} x i32], align 64")
    key = _integer(body, kernel_key.key)
    keys = [Value(body, body.op(f"trunc i128 {x} to i64"), Kind("i64")) for x in (key, body.op(f"lshr i128 {key}, 32"))]
    begun = _integer(body, kernel_key.counter)
    counter = body.op(f"add i128 {begun}, {body.op('zext i64 %first to i128')}")

    def made(i: str) -> Value:
        """The words of a vector of counters, beginning with the i-th."""
        now = body.op(f"add i128 {counter}, {body.op(f'zext i64 {i} to i128')}")
        return _words(body, now, keys, lanes)

    whole = body.op(f"lshr i64 %count, {WORDS.bit_length() - 1}")

    def some(i: str, _: list[Value]) -> list[Value]:
        body.stored(made(i), along(body, "%target", str(4 * WORDS), i))
        return []

    done, _ = body.loop("0", whole, lanes, [], some)
    at = body.op(f"mul i64 {done}, {WORDS}")
    left = body.op(f"sub i64 %count, {at}")

    def rest() -> None:
        body.stored(made(done), block)

        def one(w: str, _: list[Value]) -> list[Value]:
            word = body.load("i32", along(body, block, "4", w))
            body.store("i32", word, along(body, "%target", "4", body.op(f"add i64 {at}, {w}")))
            return []

        body.loop("0", left, 1, [], one)

    when(body, body.op(f"icmp ne i64 {left}, 0"), rest)
    when(body, body.op("icmp ne i64 %words, 0"), lambda: _state(body, begun))
    body.do("ret i64 0")
    return kernel(body, [*body.declared])


def _integer(body: Body, made: tuple[object, ...]) -> str:
    """An integer modulo 2^128."""
    op, *arguments_ = made
    if op == "constant":
        return str(int(str(arguments_[0])) % 2**128)
    if op == "element":
        number, bits, signed = arguments_
        place = body.load("ptr", body.at("%arguments", RANDOM.end + 8 * int(str(number))))
        return body.op(f"{'s' if signed else 'z'}ext i{bits} {body.load(f'i{bits}', place)} to i128")
    parts = [_integer(body, a) for a in arguments_ if isinstance(a, tuple)]
    return body.op(f"{op} i128 {parts[0]}, {parts[1]}")


def _words(body: Body, counter: str, keys: list[Value], lanes: int) -> Value:
    """Philox's output for a vector of counters; the words of one counter are contiguous."""
    low = Value(body, body.op(f"trunc i128 {counter} to i64"), Kind("i64"))
    high = Value(body, body.op(f"trunc i128 {body.op(f'lshr i128 {counter}, 64')} to i64"), Kind("i64"))
    first = body.splat(low, lanes)
    lows = first + body.constants("i64", range(lanes))
    highs = body.splat(high, lanes) - lows.compared("ult", first).converted("sext", lows.kind)
    c = [lows & WORD, lows.shifted_right(32, signed=False), highs & WORD, highs.shifted_right(32, signed=False)]
    c = mixed(c, keys)
    narrow = [x.converted("trunc", x.kind.of("i32")) for x in c]
    kind, pair = f"<{lanes} x i32>", f"<{2 * lanes} x i32>"
    by_two = [i for j in range(lanes) for i in (j, lanes + j)]
    pairs = [shuffle(body, narrow[i].name, narrow[i + 1].name, kind, by_two) for i in (0, 2)]
    by_four = [i for j in range(lanes) for i in (2 * j, 2 * j + 1, 2 * lanes + 2 * j, 2 * lanes + 2 * j + 1)]
    return Value(body, shuffle(body, pairs[0], pairs[1], pair, by_four), Kind("i32", WORDS * lanes))


def mixed(c: list[Value], keys: list[Value]) -> list[Value]:
    """Philox's output for the four words of a counter, or of a vector of counters. keys: the words of the key, scalars.

    Words are integers of 64 bits; upper bits of keys do not count.
    """
    k = [key & WORD for key in keys]
    for _ in range(ROUNDS):
        p, q = c[0] * MULTIPLIERS[0], c[2] * MULTIPLIERS[1]
        upper = [x.shifted_right(32, signed=False) for x in (q, p)]
        key = [x.body.splat(x, p.kind.lanes) if p.kind.lanes else x for x in k]
        c = [upper[0] ^ c[1] ^ key[0], q & WORD, upper[1] ^ c[3] ^ key[1], p & WORD]
        k = [(x + more) & WORD for x, more in zip(k, INCREMENTS, strict=True)]
    return c


def _state(body: Body, begun: str) -> None:
    """Store the state: the words of the counter after the last one, and the other words unchanged."""
    steps = body.op(f"udiv i64 {body.op(f'add i64 %all, {WORDS - 1}')}, {WORDS}")
    end = body.op(f"add i128 {begun}, {body.op(f'zext i64 {steps} to i128')}")
    for w in range(WORDS):
        word = body.op(f"trunc i128 {body.op(f'lshr i128 {end}, {32 * w}')} to i32")
        body.store("i32", word, body.at("%after", body.op(f"mul i64 %after_step, {w}")))

    def kept(w: str, _: list[Value]) -> list[Value]:
        body.store("i32", body.load("i32", along(body, "%state", "%state_step", w)), along(body, "%after", "%after_step", w))
        return []

    body.loop(str(WORDS), "%words", 1, [], kept)
