"""The conversion of text to JSON values: comments, trailing commas, limits, and faults with their places.

Comments and trailing commas are replaced by blanks, so that lines and columns stay right; the standard parser does the rest.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from anydml.errors import Fault, ProgramError, Violation
from anydml.spelling import printable

LONGEST = 32 * 2**20  # characters of a program; larger data belongs in files
DEEPEST = 64  # brackets inside brackets; the format itself needs nine
MOST_DIGITS = 400  # of one integer; Python reads integers in quadratic time
MOST_FAULTS = 1000  # of one program; then the search stops

_ESCAPED = re.compile(r'\\["\\]')
_STRING_OR_COMMENT = re.compile(r'"[^"]*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(?=[ \t\r\n]*[\]}])")
_NO_JSON = re.compile(rf"NaN|-?Infinity|\d{{{MOST_DIGITS + 1},}}")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_NOT_NEWLINE = re.compile(r"[^\r\n]")


@dataclass(frozen=True)
class ProgramFault(Fault):
    """A fault of a program, or a warning: `pointer` is a JSON pointer into `file`."""

    file: str = ""

    def __str__(self) -> str:
        return f"{printable(self.file)}: {super().__str__()}"


class Notes:
    """The faults and warnings of one program, collected until everything was examined or there are MOST_FAULTS."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[ProgramFault] = []
        self.warnings: list[ProgramFault] = []

    def fault(self, pointer: str, message: str, violation: Violation | None = None) -> None:
        """Note a fault: one line, or the two lines of a violation, which has no texts from the program."""
        message = printable(message) if violation is None else message
        self.faults.append(ProgramFault(pointer, message, violation, self.file))
        if len(self.faults) == MOST_FAULTS:
            self.faults.append(ProgramFault("", "there may be more faults; the search stopped here", None, self.file))
            self.settle()

    def warn(self, pointer: str, message: str) -> None:
        if len(self.warnings) < MOST_FAULTS:
            self.warnings.append(ProgramFault(pointer, printable(message), None, self.file))

    def settle(self) -> None:
        """Raise ProgramError with every fault, if there are any."""
        if self.faults:
            raise ProgramError(self.faults)


def below(pointer: str, name: str | int) -> str:
    """The JSON pointer of a member or an entry."""
    return f"{pointer}/{name}" if isinstance(name, int) else f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"


def read(text: str, notes: Notes) -> Any:
    """The JSON value at the beginning of a text; ProgramError if there is none."""
    if len(text) > LONGEST:
        notes.fault("", f"the text has more than {LONGEST} characters; data of that size belongs in a file")
        notes.settle()
    masked = _ESCAPED.sub("__", text)  # so that a quote ends its string
    comments: list[tuple[int, int]] = []

    def bare_of(match: re.Match[str]) -> str:
        if match[0][0] == '"':
            return "_" * len(match[0])
        comments.append(match.span())
        return _NOT_NEWLINE.sub(" ", match[0])

    bare = _STRING_OR_COMMENT.sub(bare_of, masked)
    _limit(bare, notes)
    json_text = _blanked(text, bare, comments)
    doubled: dict[int, tuple[Any, list[str]]] = {}  # by id; the object is kept, so that no other gets its id

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            times = Counter(name for name, _ in pairs)
            doubled[id(value)] = value, [name for name in times if times[name] > 1]
        return value

    begin = len(json_text) - len(json_text.lstrip(" \t\r\n"))
    try:
        value, end = json.JSONDecoder(object_pairs_hook=members).raw_decode(json_text, begin)
    except json.JSONDecodeError as error:
        notes.fault("", f"line {error.lineno}, column {error.colno}: {error.msg}")
        notes.settle()
    if json_text[end:].strip(" \t\r\n"):
        notes.warn("", f"{_where(text, end)}: text after the program's closing bracket is not read")
    if doubled or _SURROGATE.search(text) or not _encodable(text):
        for pointer, node in _walk(value, ""):
            for name in doubled[id(node)][1] if id(node) in doubled else ():
                notes.fault(below(pointer, name), "the name occurs twice in its object")
            for string in node if isinstance(node, dict) else (node,):
                if isinstance(string, str) and not _encodable(string):
                    notes.fault(
                        pointer.encode("ascii", "backslashreplace").decode(), "half of a surrogate pair is not a character"
                    )
        notes.settle()
    return value


def _limit(bare: str, notes: Notes) -> None:
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", bare):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > DEEPEST:
            notes.fault("", f"{_where(bare, bracket.start())}: brackets are nested more than {DEEPEST} deep")
            break
    for match in islice(_NO_JSON.finditer(bare), MOST_FAULTS // 10):  # finding the line of each takes time
        if match[0][0].isdigit():
            notes.fault("", f"{_where(bare, match.start())}: a number of {len(match[0])} digits is refused")
        else:
            notes.fault("", f'{_where(bare, match.start())}: {match[0]} is not JSON; write "nan" or "inf" for a float')
    notes.settle()


def _blanked(text: str, bare: str, comments: list[tuple[int, int]]) -> str:
    spans = list(comments)
    for comma in _TRAILING_COMMA.finditer(bare):
        before = comma.start() - 1
        while before >= 0 and bare[before] in " \t\r\n":
            before -= 1
        if before >= 0 and bare[before] not in "[{,:":  # a comma without a value before it stays, and is a fault
            spans.append(comma.span())
    pieces: list[str] = []
    at = 0
    for begin, end in sorted(spans):
        pieces += text[at:begin], _NOT_NEWLINE.sub(" ", text[begin:end])
        at = end
    return "".join([*pieces, text[at:]])


def _where(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _walk(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    yield pointer, value
    if isinstance(value, (dict, list)):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _walk(inner, below(pointer, name))
