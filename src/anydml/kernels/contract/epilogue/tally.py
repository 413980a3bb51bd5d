"""A counter in straight-line code: where a condition holds, the code branches off to raise it, and returns."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.emit import Text


class Tally:
    """A count that begins at 0 where the object is made. count: its value at this point of the code."""

    def __init__(self, text: Text) -> None:
        self.text, self.count, self._before = text, "0", text.name("none")
        text.jump(self._before)
        text.label(self._before)

    def add(self, condition: str, more: Callable[[str], str]) -> None:
        """Emit code that raises the count to `more(count)` if a condition holds, which is seldom; that code has no labels."""
        text, wait, go, now = self.text, *(self.text.name(x) for x in ("wait", "go", "waiting"))
        text.branch(condition, wait, go, seldom=True)
        text.label(wait)
        larger = more(self.count)
        text.jump(go)
        text.label(go)
        text.do(f"%{now} = phi i64 [ {self.count}, %{self._before} ], [ {larger}, %{wait} ]")
        self.count, self._before = f"%{now}", go
