"""A fault: a piece of a source file, and what takes its place."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "anydml"


class Mutant(NamedTuple):
    """path: below src/anydml. inside: the function or class around the piece, "" for a module's. nth: of that kind in there.

    start, end: the bytes that are replaced. digest: of the function around it with the fault, which tells outcomes of today's
    source from older ones. text: its lines.
    """

    path: str
    inside: str
    kind: str
    nth: int
    start: int
    end: int
    before: str
    after: str
    digest: str = ""
    text: str = ""

    @property
    def name(self) -> str:
        """A name that stays when other lines of the file change."""
        return f"{self.path}:{self.inside}:{self.kind}:{self.nth}"

    def line(self) -> int:
        """The number of the line where it begins."""
        return (SOURCE / self.path).read_bytes()[: self.start].count(b"\n") + 1

    def planted(self, source: bytes) -> bytes:
        """The file with the fault."""
        if source[self.start : self.end] != self.before.encode():
            raise ValueError(f"{self.name} is not found in the source")
        return source[: self.start] + self.after.encode() + source[self.end :]


class Source:
    """A source file, with its syntax tree and the place of each node."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.raw = (SOURCE / path).read_bytes()
        self.tree = ast.parse(self.raw)
        self._lines = [0]
        for line in self.raw.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self.nodes: list[ast.AST] = []  # all that have a place
        self._inside: list[tuple[int, int, str]] = []
        self._visit(self.tree, "")
        self._found: dict[tuple[str, str], int] = {}

    def _visit(self, node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            own = name
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                own = f"{name}.{child.name}" if name else child.name
                self._inside.append((*self.span(child), own))
            if isinstance(child, ast.expr | ast.stmt | ast.keyword):
                self.nodes.append(child)
            if not isinstance(child, ast.Name | ast.Constant | ast.expr_context):
                self._visit(child, own)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The bytes of a node."""
        at = [getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")]
        return self._lines[at[0] - 1] + at[1], self._lines[at[2] - 1] + at[3]

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.raw[start:end].decode()

    def around(self, place: int) -> str:
        """The function or class around a byte, "" for a module's."""
        return self._around(place)[2]

    def _around(self, place: int) -> tuple[int, int, str]:
        """Where the innermost function or class around a byte begins and ends, and its name."""
        around = (place, place, "")
        for inside in self._inside:  # in the order of the source, so that the innermost comes last
            if inside[0] <= place < inside[1]:
                around = inside
        return around

    def mutant(self, kind: str, start: int, end: int, after: str) -> Mutant:
        first, last, inside = self._around(start)
        nth = self._found[inside, kind] = self._found.get((inside, kind), 0) + 1
        planted = b"|".join((self.raw[first:start], self.raw[start:end], after.encode(), self.raw[end:last]))
        digest = hashlib.sha256(planted).hexdigest()[:16]
        lines = self.raw[self.raw.rfind(b"\n", 0, start) + 1 : end] + self.raw[end:].split(b"\n", 1)[0]
        text = " ".join(lines.decode().split())
        return Mutant(self.path, inside, kind, nth, start, end, self.raw[start:end].decode(), after, digest, text)
