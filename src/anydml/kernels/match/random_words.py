"""Statements of random words: Philox's output for consecutive counters, and the words of the counter after the last one."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from anydml.kernels.match.affine import affine
from anydml.schema.expression import Tensor, pieces
from anydml.schema.node import Expr, Variable, is_integer, number
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import reads_in

NO_BITS = "it computes no random bits"
WORDS = 4  # of a counter
BITS = 2**32  # the values of a word


class Words(NamedTuple):
    """The words of a tensor, in row-major order, beginning at a first counter.

    counter, key: integers made of constants and elements. after: the output whose first words are the counter after the last
    one, and whose other words are those of `state`; None if there is none.
    """

    target: str
    counter: Expr
    key: Expr
    after: str | None
    state: str


def random_words(statement: Statement) -> Words | str:
    """The random words that a statement computes, or the reason why it is not of this kind."""
    found = {name: made for name, nest in statement.items() if (made := counted(nest)) is not None}
    if not found:
        return NO_BITS
    others = [name for name in statement if name not in found]
    if len(found) > 1 or len(others) > 1:
        return "there are several other outputs"
    ((name, (counter, key)),) = found.items()
    tensors = {e.data[0] for part in (counter, key) for e in reads_in(part)}
    if len(tensors) != 1:
        return "a counter is not made of elements of one tensor"
    (state,) = tensors
    after = others[0] if others else None
    if after is not None and not _is_state(statement[after], counter, state, prod(statement[name].sizes)):
        return "another output is not the counter after the last one"
    return Words(name, counter, key, after, state.name)


def counted(nest: Nest) -> tuple[Expr, Expr] | None:
    """The first counter and the key of words whose counters are consecutive in row-major order."""
    body = nest.body.args[0] if nest.body.op == "position" else nest.body
    if body.op != "philox":
        return None
    counter, key, word = body.args
    if counter.op != "add" or counter.args[1].op != "floordiv" or word.op != "mod":
        return None
    first, (place, four) = counter.args[0], counter.args[1].args
    if word.args[0] is not place or not (is_integer(four) and word.args[1] is four and four.data.value == WORDS):
        return None
    step, factors = 1, dict[Variable, int]()
    for v in reversed(nest.variables):
        factors[v] = step
        step *= v.size
    along = affine(place)
    if along is None or along.constant or along.factors != factors or not (_is_constant(first) and _is_constant(key)):
        return None
    return first, key


def _is_constant(e: Expr) -> bool:
    """Whether an integer consists of sums and products of constants and of elements at constant indices."""
    if e.op == "read":
        integers = e.data[0].data_type.is_integer and e.data[0].definition is None
        return integers and e.data[1] == "inside" and all(map(is_integer, e.args))
    return is_integer(e) or (e.op in ("add", "mul", "index") and all(map(_is_constant, e.args)))


def _is_state(nest: Nest, counter: Expr, state: Tensor, count: int) -> bool:
    if nest.sizes != tuple(state.sizes) or nest.sizes[-1] <= WORDS or any(n != 1 for n in nest.sizes[:-1]):
        return False
    end = counter + -(-count // WORDS)
    words = [end // BITS**w % BITS for w in range(WORDS)]
    return nest.body is number(pieces(nest.index[-1], range(WORDS + 1), [*words, state[nest.index]]))
