"""Faults that no test can find, since nothing that the project promises changes, with the reason."""

from __future__ import annotations

_TINY = "2^-880 is 2^100 times what it stands for, and 2^-800 of any other term of the bound"
_UNREAD = "a FLOAT64 that is the last node is stored as the nearest number; its bound is not read"
_POWERS = "the powers of a softmax are divided by ends that `divide` makes; their own bound is not read"
# the name of a mutant, and why results and messages stay as they are
EQUIVALENT: dict[str, str] = {
    "kernels/attention/results.py::bound/16:1": _TINY,
    "kernels/attention/results.py::bound*16:1": _TINY,
    "kernels/elementwise/formula.py:FormulaWalk._scaled:bound/16:1": _UNREAD,
    "kernels/elementwise/formula.py:FormulaWalk._scaled:bound*16:1": _UNREAD,
    "kernels/elementwise/formula.py:FormulaWalk._scaled:bound=0:1": _UNREAD,
    "kernels/reduce/softmax.py:Shares.ended:bound/16:1": _POWERS,
    "kernels/reduce/softmax.py:Shares.ended:bound*16:1": _POWERS,
    "kernels/reduce/softmax.py:Shares.ended:bound=0:1": _POWERS,
}
