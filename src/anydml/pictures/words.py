"""Text for pictures and pages: escaped, without control characters, and without Markdown's marks."""

from __future__ import annotations

import html

from anydml.spelling import printable


def escaped(text: str) -> str:
    """A text for HTML and SVG, attributes too: one line, with marks and control characters escaped."""
    return html.escape(printable(text))


def plain_words(text: str) -> str:
    return text.replace("`", "")


def circled(numbers: str) -> str:
    """The numbers of messages, as `1, 2`, each in a circle."""
    return " ".join(chr(0x245F + int(n)) if int(n) <= 20 else f"({n})" for n in numbers.split(", "))


def wrapped(text: str, width: float, bold: bool = False) -> list[str]:
    """The lines of a text of 12 pixels that fit a width; words that are longer are cut."""
    lines, line = [], ""
    for word in text.split():
        while wide(word, bold) > width and len(word) > 1:
            n = max(1, int(len(word) * width / wide(word, bold)))
            lines += [line, word[:n]] if line else [word[:n]]
            word, line = word[n:], ""
        both = f"{line} {word}" if line else word
        if line and wide(both, bold) > width:
            lines.append(line)
            both = word
        line = both
    return [*lines, line] if line or not lines else lines


def wide(text: str, bold: bool = False) -> float:
    """An estimate of the width of a text of 12 pixels."""
    return sum(8.6 if c.isupper() or c in "MW@×→" else 4.3 if c in "il.,:;|' " else 7.2 for c in text) * (1.08 if bold else 1)
