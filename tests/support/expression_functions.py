"""The functions of expressions, and every table and file that names some of them, which a new function must be added to.

CONTRIBUTING.md has the same rows; `test_expression_functions.py` compares them, and finds files that are missing here.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Need = Literal["always", "reals", "wholes", "where it pays"]


class Reader(NamedTuple):
    """A module that names functions. tables: the names of its dicts and sets, if the code has any. need: the functions they
    need.

    always: all; reals: those that machine code approximates, such as exp; wholes: roundings to integers. Patterns that match
    one function (softmax, attention, gates) are not listed, since a new function does not change them.
    """

    module: str
    tables: tuple[str, ...]
    need: Need
    what: str


READERS = (
    Reader("kernels.evaluate.source", ("_CALLS",), "always", "the exact evaluation, a function of `exact/functions.py`"),
    Reader("schema.formula", ("_NAMES",), "where it pays", "another name in formulas on operators' pages"),
    Reader(
        "schema.traversal", ("_KEEPS_INTEGERS", "_MAKES_INTEGERS"), "where it pays", "whether a number is an integer in kind"
    ),
    Reader("schema.identities", (), "where it pays", "formulas that are equal"),
    Reader(
        "explain.bounded", ("MONOTONE", "DOMAINS", "SLOPE_ONE", "WHOLE", "OF_EXACT"), "where it pays", "bounds of other results"
    ),
    Reader("explain.evaluation", (), "where it pays", "bounds of other results: functions that are in none of these tables"),
    Reader("kernels.numbers.functions.wide", ("UNARY", "BINARY"), "reals", "the compiled function in float64, with its error"),
    Reader("kernels.numbers.floats.transcendental", ("KINDS",), "reals", "limits and slope of the compiled function"),
    Reader("kernels.numbers.functions.doubled", ("UNARY", "BINARY"), "reals", "the second stage: the same to 2^-80"),
    Reader(
        "kernels.numbers.doubled.functions",
        ("KINDS", "_LEVELS", "DOMAINS"),
        "reals",
        "the second stage: where it is known without that",
    ),
    Reader(
        "kernels.numbers.doubled.levels",
        ("DECAYED", "_LIMITS", "_KEEPING_ZERO"),
        "where it pays",
        "the second stage: limits at infinities, and functions that level off",
    ),
    Reader("kernels.numbers.doubled.series", ("SERIES",), "where it pays", "the second stage: series of small arguments"),
    Reader("kernels.third.functions", ("UNARY", "BINARY"), "reals", "the third stage: the same in numbers of 250 bits"),
    Reader("kernels.third.translation", ("_WHOLE", "_BINARY"), "wholes", "the third stage: roundings to integers"),
    Reader("kernels.reduce.stages", ("COSTLY",), "reals", "values that rows keep for the next pass"),
    Reader("kernels.numbers.functions.paired", ("FUNCTIONS",), "where it pays", "the function in pairs of float32"),
    Reader(
        "kernels.numbers.functions.far_angles",
        ("FUNCTIONS", "RELS"),
        "where it pays",
        "circular functions of far arguments",
    ),
    Reader(
        "kernels.elementwise.settled", ("ENDS", "APART"), "where it pays", "results that are known at once, such as far from 0"
    ),
    Reader(
        "kernels.elementwise.slow_elements",
        ("OF_FUNCTIONS",),
        "where it pays",
        "arguments of which pairs make subnormal numbers",
    ),
    Reader("kernels.elementwise.magnitudes", (), "where it pays", "signs and magnitudes that settle a formula"),
    Reader("kernels.elementwise.combined", (), "where it pays", "several nodes as one function"),
    Reader("kernels.elementwise.family", ("BEGIN_IN_PAIRS",), "where it pays", "maps that begin in pairs of float32"),
    Reader("kernels.elementwise.precise", ("_ARITHMETIC",), "where it pays", "operations of the second stage"),
    Reader("kernels.elementwise.formula", ("_ARITHMETIC",), "where it pays", "operations of the first stage"),
    Reader("kernels.match.nests", ("_NUMBERS",), "wholes", "what a nest may compute"),
    Reader("kernels.nests.walk", ("_ARITHMETIC",), "where it pays", "operations of nests"),
)
