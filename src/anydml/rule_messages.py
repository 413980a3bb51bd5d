"""The wording of messages: a rule's sentence and the values that the rule read make a message about these values.

A sentence says what must be: "`InputWindowStrides` must not be 0." Paths are in backticks; "the last of `ATensor.Sizes`" names
one of the sizes. With {"InputWindowStrides[3]": 0}, it becomes "input_window_strides[3] is 0; it must not be 0".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

LEVEL = "FeatureLevel"
_PLACES = {"first": 0, "second": 1, "third": 2, "second last": -2, "last": -1}
_ORDINAL = "|".join(sorted(_PLACES, key=len, reverse=True))
_PHRASE = re.compile(rf"(?:([Tt]he (?:{_ORDINAL}) of ))?`([^`]+)`")
_ONE = rf"(?:[Tt]he (?:{_ORDINAL}) of )?`[^`]+`"
_SUBJECTS = re.compile(rf"(Each of )?{_ONE}(?:(?:, | and ){_ONE})*")  # only paths
_ARITHMETIC = re.compile("[-+*/|] ?\\(?\0|\0\\)? [-+*/]|\0\\|")  # beside a path, which \0 stands for
_INDEX = re.compile(r"\[[^]]*\]")

Spell = Callable[[str], str]
Show = Callable[[Any], str]


class Wording(NamedTuple):
    """A message in two parts. fault: the broken rule and the values that break it. fits: values that would fit, or ""."""

    fault: str
    fits: str


def paths(sentence: str) -> tuple[str, ...]:
    """The wire paths that a sentence names, each once."""
    return tuple(dict.fromkeys(path for _, path in _PHRASE.findall(sentence)))


def _phrases(text: str) -> list[tuple[str | None, str]]:
    return [(match[1], match[2]) for match in _PHRASE.finditer(text)]


def word(sentence: str, values: Mapping[str, Any], expected: Mapping[str, Any], spell: Spell, show: Show) -> Wording:
    """The message for the values read and the values that would fit, both by wire path with indices."""
    text = sentence.rstrip(".")
    shown = {_INDEX.sub("", path): path for path in values}  # path in the sentence -> path in the message
    subject, must, rest = text.partition(" must ")
    subjects = _phrases(subject)
    judged = _SUBJECTS.fullmatch(subject) if must else None
    inline = judged is not None and not _ARITHMETIC.search(_PHRASE.sub("\0", rest))
    mentioned = set(subjects) if inline else set()

    def key(path: str) -> str:
        return shown.get(_INDEX.sub("", path), path)

    def value(ordinal: str | None, path: str) -> str:
        found = values.get(key(path))
        place = ordinal and _PLACES[ordinal[4:-4]]
        if isinstance(place, int) and isinstance(found, tuple) and -len(found) <= place < len(found):
            found = found[place]
        return show(found)

    def mention(match: re.Match[str]) -> str:
        ordinal, path = match.groups()
        if path == LEVEL:
            return f"feature level {value(ordinal, path)}"
        name = (ordinal or "") + spell(key(path))
        if not inline or (ordinal, path) in mentioned:
            return name
        mentioned.add((ordinal, path))
        read = value(ordinal, path)
        return f"{name} {read}" if read.startswith("(") else f"{name} ({read})"

    def stated(phrases: Iterable[tuple[str | None, str]]) -> str:
        """The values read; fields with equal values are listed together."""
        names: dict[str, list[str]] = {}
        for ordinal, path in phrases:
            name = "the feature level" if path == LEVEL else (ordinal or "").lower() + spell(key(path))
            names.setdefault(value(ordinal, path), []).append(name)
        facts = [f"{listed(n, 'and')} {'are' if len(n) > 1 else 'is'} {text}" for text, n in names.items()]
        grouped = len(facts) > 1 and any(len(n) > 1 for n in names.values())
        return f"{', '.join(facts[:-1])}, and {facts[-1]}" if grouped else listed(facts, "and")

    named = {_INDEX.sub("", path) for path in paths(text)}
    unnamed: list[tuple[str | None, str]] = [(None, path) for bare, path in shown.items() if bare not in named]
    if inline and judged is not None:
        pronoun = "each" if judged[1] else "it" if len(subjects) == 1 else "they"
        facts = [*subjects, *unnamed]
        requirement = f"{pronoun} must {_PHRASE.sub(mention, rest)}"
    else:
        facts = [*unnamed, *(phrase for phrase in dict.fromkeys(_phrases(text)) if phrase[1] != LEVEL)]
        requirement = _PHRASE.sub(mention, text)
        if not text.startswith("`") and not text[:2].isupper():
            requirement = requirement[0].lower() + requirement[1:]
    sole = key(subjects[0][1]) if inline and len(subjects) == 1 else None
    about = {LEVEL, sole, *(path for _, path in unnamed)}  # the requirement may already name what would fit in these
    return Wording(f"{stated(facts)}; {requirement}", _fits(values, expected, requirement, sole, about, spell, show))


def _fits(
    values: Mapping[str, Any],
    expected: Mapping[str, Any],
    requirement: str,
    sole: str | None,
    about: set[str | None],
    spell: Spell,
    show: Show,
) -> str:
    """The values that would fit, path by path, without those that the requirement already names."""
    fits = []
    for path, value in expected.items():
        too_large = isinstance(value, range) and isinstance(values.get(path), int) and values[path] > value[-1]
        text = f"{value[0]} to {value[-1]}" if too_large else show(value)  # not "at least 1"
        said = rf"\({text}\)|takes {text} " if text.isdecimal() else rf"(?<!\w){re.escape(text)}(?!\w)"
        if path in about and re.search(said, requirement):
            continue
        fits.append(f"feature level {text}" if path == LEVEL else text if path == sole else f"{spell(path)} = {text}")
    return ", or ".join(fits)


def listed(words: Sequence[str], last: str = "or") -> str:
    """Words as English lists them: `a, b or c`."""
    *others, final = words
    return f"{', '.join(others)} {last} {final}" if others else final
