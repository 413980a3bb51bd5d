"""The faults that are generated from the source: bounds, comparisons, guards, rules, roundings and zero points."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator

from mutants.mutant import SOURCE, Mutant, Source

BOUNDS = {"rel", "err", "error", "bound", "lost", "loss", "margin", "share", "slack", "inexact", "by_tails", "lost_by_biases"}
FACTORS = {"bound/16": "2.0**-4", "bound*16": "2.0**4", "bound=0": "0.0"}
# names of modules that are bounds of errors, not thresholds
CONSTANTS = {
    "kernels/attention/powers.py": {"PICKED"},
    "kernels/attention/results.py": {"LEAST"},
    "kernels/contract/quantised/lattice.py": {"NEAR"},
    "kernels/contract/quantised/bounds.py": {"UNIT"},
    "kernels/contract/quantised/finish.py": {"OF_QUOTIENTS"},
    "kernels/contract/quantised/of_planes.py": {"ROUNDINGS", "LEFT_OVER"},
    "kernels/contract/quantised/refine.py": {"NEAR"},
    "kernels/numbers/doubled/arithmetic.py": {"REL"},
    "kernels/numbers/doubled/series.py": {"NEAR"},
    "kernels/numbers/functions/doubled.py": {"REL", "POW_REL"},
    "kernels/numbers/floats/numbers.py": {"U"},
    "kernels/numbers/functions/pair_intervals.py": {"SCALED_MARGIN"},
    "kernels/numbers/functions/paired.py": {
        "EXP_MARGIN", "LOG_MARGIN", "LOG_LEAST", "SIGMOID_MARGIN", "TANH_MARGIN", "TANH_TAIL", "TANH_LEAST",
        "ERF_MARGIN", "GELU_MARGIN",
    },
    "kernels/numbers/functions/polynomials.py": {"U"},
    "kernels/numbers/functions/powers.py": {"_LOG2_REL"},
    "kernels/numbers/measured/real.py": {"U"},
    "kernels/recurrence/plan.py": {"ONE"},
    "kernels/reduce/careful_rest.py": {"REL", "PAIR"},
    "kernels/reduce/doubled.py": {"_POWER", "_SHARE"},
    "kernels/reduce/softmax.py": {"PICKED_REL", "OF_HALVES", "OF_BRAINS"},
    "kernels/scan/doubled.py": {"LOST"},
    "kernels/windows/estimate.py": {"UNIT"},
}  # fmt: skip
SMALL = 9  # a power of two whose exponent is at least so far below 0 is a bound, or a part of one
# functions whose small powers of two are factors of numbers, constants of formulas, examples, or limits of what is fast
SCALES = {
    "kernels/elementwise/precise.py": {"_long"},
    "kernels/elementwise/settled.py": {"_power"},
    "kernels/elementwise/slow_elements.py": {""},
    "kernels/contract/floats/packed/doubled.py": {"_Doubled._least.one"},
    "kernels/contract/weights/packing.py": {""},
    "kernels/numbers/functions/far_angles.py": {"_sine", "_tan"},
    "kernels/opencl/selftest.py": {""},
}
UNITS = {"U", "V"}  # the names of the largest relative error of a rounding
# names that are no bounds there: bytes, and a quotient
OTHERS = {"kernels/contract/floats/few/sums.py": {"slack"}, "kernels/nests/row_sums.py": {"share"}}
# kernels whose errors are those of the processor's memory, not of arithmetic
EXACT_FOLDERS = ("copy/", "random/", "order/", "irregular/", "code/", "call/", "match/", "evaluate/", "numpy/")
STRICT = {
    ast.Lt: (ast.LtE, "<", "<="),
    ast.LtE: (ast.Lt, "<=", "<"),
    ast.Gt: (ast.GtE, ">", ">="),
    ast.GtE: (ast.Gt, ">=", ">"),
}
LLVM = {"ult": "ule", "ule": "ult", "ugt": "uge", "uge": "ugt", "slt": "sle", "sle": "slt", "sgt": "sge", "sge": "sgt"}
IN_CODE = re.compile(rb"icmp (ult|ule|ugt|uge|slt|sle|sgt|sge) i64|compared\(\"(ult|ule|ugt|uge|slt|sle|sgt|sge)\"")
MOST = {"comparison": 1, "comparison in code": 2, "guard dropped": 3}  # of a file: those whose names have the least digests
PYTHON_COMPARED = ("schema/", "graphs/", "devices/", "explain/", "functional/", "program/", "onnx/", "exact/", "kernels/match/")


def mutants(step: int = 1) -> list[Mutant]:
    """All of them, in the order of files, or those of every so many-th file."""
    found = []
    for path in sorted(p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py"))[::step]:
        found += kept(Source(path))
    return found


def kept(source: Source) -> list[Mutant]:
    """Those of a file, of some kinds a few."""
    found = [*_of(source)]
    for kind, most in MOST.items():
        some = sorted((m for m in found if m.kind == kind), key=lambda m: hashlib.sha256(m.name.encode()).digest())
        dropped = set(some[most:])
        found = [m for m in found if m not in dropped]
    return found


def _of(source: Source) -> Iterator[Mutant]:
    kernel = source.path.removeprefix("kernels/") if source.path.startswith("kernels/") else None
    nodes = source.nodes
    if kernel is not None:
        if not kernel.startswith(EXACT_FOLDERS):
            found = [*_bounds(source, nodes)]
            for node in [*found, *_parts(source, nodes, found)]:
                start, end = source.span(node)
                text = source.text(node)
                factors = {kind: by for kind, by in FACTORS.items() if node in found or by != "0.0"}
                yield from (source.mutant(kind, start, end, f"({text}) * {by}") for kind, by in factors.items())
            yield from _guards(source, nodes)
        yield from _comparisons_in_code(source)
    if source.path.startswith(PYTHON_COMPARED):
        yield from _comparisons(source, nodes)
    yield from _zero_points(source, nodes)
    if source.path.startswith("operators/"):
        yield from _rules(source, nodes)
        yield from _roundings(source, nodes)


def _bounds(source: Source, nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """The expressions that are bounds of errors."""
    constants, names = CONSTANTS.get(source.path, set()), BOUNDS - OTHERS.get(source.path, set())
    top = {id(n) for n in source.tree.body}
    for node in nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _name(node.target) in names:
            yield node.value
        elif isinstance(node, ast.Assign) and (name := _name(node.targets[0])):
            if id(node) in top:
                if name in constants:
                    yield from _numbers(node.value)
            elif name in names and _arithmetic(node.value):
                yield node.value
        elif isinstance(node, ast.keyword) and node.arg in ("rel", "err"):
            value = node.value
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "once" and value.args:
                value = value.args[0]
            if isinstance(value, ast.Lambda):
                value = value.body
            elif node.arg == "err":
                continue
            if _arithmetic(value) or (node.arg == "rel" and isinstance(value, (ast.Name, ast.Attribute, ast.Call))):
                yield value
        elif isinstance(node, ast.FunctionDef) and node.name.strip("_") in names | {"lost_product"}:
            yield from (n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value and _arithmetic(n.value))


def _parts(source: Source, nodes: list[ast.AST], known: list[ast.expr]) -> Iterator[ast.expr]:
    """Small powers of two and units of roundings that are no part of other bounds.

    A constant that is 1 and a power is left out: it makes up for roundings of bounds. So are comparisons in Python.
    """
    scales = SCALES.get(source.path, set[str]())
    left_out = [source.span(node) for node in [*known, *(n for n in nodes if isinstance(n, ast.Compare | ast.Assert))]]
    left_out += [
        source.span(node) for node in source.tree.body if isinstance(node, ast.Assign) and _is_slack(source, node.value)
    ]
    for node in nodes:
        if not isinstance(node, ast.BinOp | ast.Name) or not (_is_small(source, node) or _is_unit(node)):
            continue
        start, end = source.span(node)
        if source.around(start) not in scales and not any(a <= start and end <= b for a, b in left_out):
            yield node


def _is_small(source: Source, node: ast.expr) -> bool:
    """Whether an expression is a small power of two."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and source.text(node.left) == "2.0"):
        return False
    exponent = re.fullmatch(r"-(\d+(\.\d+)?)", source.text(node.right))
    return exponent is not None and float(exponent[1]) >= SMALL


def _is_unit(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in UNITS and isinstance(node.ctx, ast.Load)


def _is_slack(source: Source, value: ast.expr) -> bool:
    return isinstance(value, ast.BinOp) and source.text(value.left) == "1" and _is_small(source, value.right)


def _name(target: ast.expr) -> str:
    """The name of a variable, or of an attribute; "" of another target."""
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def _numbers(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.Dict):
        yield from value.values
    elif isinstance(value, ast.Call):  # of an error's parts
        yield from value.args
    else:
        yield value


def _arithmetic(value: ast.expr) -> bool:
    """Whether a value is computed from numbers, not joined of text or of lists."""
    return (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow))
        and not _joined(value)
    )


def _joined(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return _joined(value.left) or _joined(value.right)
    if isinstance(value, ast.IfExp):
        return _joined(value.body)
    return isinstance(value, ast.JoinedStr | ast.List | ast.ListComp) or (
        isinstance(value, ast.Constant) and isinstance(value.value, str)
    )


def _guards(source: Source, nodes: list[ast.AST]) -> Iterator[Mutant]:
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        )
        if name == "either" and len(node.args) > 1 and not any(isinstance(a, ast.Starred) for a in node.args):
            yield source.mutant("guard dropped", *source.span(node), source.text(node.args[0]))
        elif name == "guarded" and node.args:
            start, end = source.span(node.args[0])[0], source.span(node.args[-1])[1]
            yield source.mutant("guard dropped", start, end, "")
        else:
            for given in node.keywords:
                if given.arg == "guard" and not isinstance(given.value, ast.Constant):
                    yield source.mutant("guard dropped", *source.span(given.value), "None")


def _comparisons(source: Source, nodes: list[ast.AST]) -> Iterator[Mutant]:
    for node in nodes:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in STRICT:
            _, before, after = STRICT[type(node.ops[0])]
            start, end = source.span(node.left)[1], source.span(node.comparators[0])[0]
            between = source.raw[start:end].decode()
            if between.count(before) == 1:
                yield source.mutant("comparison", start, end, between.replace(before, after))


def _comparisons_in_code(source: Source) -> Iterator[Mutant]:
    for found in IN_CODE.finditer(source.raw):
        group = 1 if found[1] else 2
        yield source.mutant("comparison in code", *found.span(group), LLVM[found[group].decode()])


def _rules(source: Source, nodes: list[ast.AST]) -> Iterator[Mutant]:
    """Rules that nothing breaks any more."""
    for node in nodes:
        if not isinstance(node, ast.FunctionDef):
            continue
        made = [d for d in node.decorator_list if isinstance(d, ast.Call) and isinstance(d.func, ast.Name)]
        if any(d.func.id == "constraint" for d in made if isinstance(d.func, ast.Name)):
            last = node.body[-1]
            if isinstance(last, ast.Return) and last.value is not None:
                yield source.mutant("rule dropped", *source.span(last.value), "True")


def _roundings(source: Source, nodes: list[ast.AST]) -> Iterator[Mutant]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "half_to_even":
            yield source.mutant("half away", *source.span(node.func), "half_away")


def _zero_points(source: Source, nodes: list[ast.AST]) -> Iterator[Mutant]:
    """Zero points that are added instead of taken away, or the other way round; and two that change places."""

    def named(node: ast.expr) -> bool:
        return "zero_point" in source.text(node)

    if not source.path.startswith(("operators/", "kernels/", "onnx/mapping/quantised")):
        return
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and named(node.right):
            start, end = source.span(node.left)[1], source.span(node.right)[0]
            between = source.raw[start:end].decode()
            signs = ("+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
            if between.count(signs[0]) == 1:
                yield source.mutant("zero point", start, end, between.replace(*signs))
        elif isinstance(node, ast.Call):
            zeros = [a for a in node.args if isinstance(a, (ast.Name, ast.Attribute)) and named(a)]
            if len(zeros) == 2:
                start, end = source.span(zeros[0])[0], source.span(zeros[1])[1]
                middle = source.raw[source.span(zeros[0])[1] : source.span(zeros[1])[0]].decode()
                yield source.mutant("zero point", start, end, source.text(zeros[1]) + middle + source.text(zeros[0]))
