"""Faults that no test can find, since nothing that the project promises changes, with the reason."""

from __future__ import annotations

_TINY = "2^-880 is 2^100 times what it stands for, and 2^-800 of any other term of the bound"
_UNREAD = "a FLOAT64 that is the last node is stored as the nearest number; its bound is not read"
_POWERS = "the powers of a softmax are divided by ends that `divide` makes; their own bound is not read"
_SLOWER = "more elements go the careful way, which gives the same bits"
# the name of a mutant, and why results and messages stay as they are
EQUIVALENT: dict[str, str] = {
    "kernels/attention/results.py::bound/16:1": _TINY,
    "kernels/attention/results.py::bound*16:1": _TINY,
    "devices/link.py:link:comparison:1": "a call of one sheet may be cut, too, and is then made of the same steps",
    "functional/run.py:allocate:comparison:1": "an output that takes all of the memory cannot be had anyway",
    "kernels/attention/results.py:rounded:comparison in code:1": _SLOWER,
    "kernels/elementwise/formula.py:FormulaWalk._scaled:bound/16:1": _UNREAD,
    "kernels/elementwise/formula.py:FormulaWalk._scaled:bound*16:1": _UNREAD,
    "kernels/elementwise/formula.py:FormulaWalk._scaled:bound=0:1": _UNREAD,
    "kernels/contract/floats/planes/kernel.py:_Planes._band.strip:comparison in code:1": "a whole strip is read with masks",
    "kernels/nests/elements.py:NestElements.store:comparison in code:1": "a whole vector is stored element by element",
    "kernels/reduce/softmax.py:Shares.ended:bound/16:1": _POWERS,
    "kernels/reduce/softmax.py:Shares.ended:bound*16:1": _POWERS,
    "kernels/reduce/softmax.py:Shares.ended:bound=0:1": _POWERS,
    "kernels/reduce/staging.py:Staging.begin:comparison in code:1": "of two equal numbers, either is the smaller one",
    "kernels/scan/columns.py:_ScanStrip._block:comparison in code:1": "a whole block is staged, as a part of one is",
    "kernels/scan/doubled.py:further:comparison in code:1": "the last whole block is summed element by element",
    "kernels/scan/sizes.py:beyond:comparison in code:2": _SLOWER,
}
