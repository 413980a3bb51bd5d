"""A hook of mkdocs: writes docs/operators/ from the operator files before each build, and puts the pages in the menu."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anydml as dml
from anydml import operators
from anydml.explain.describe import describe, markdown
from anydml.schema.formula import prose

DOCS = Path(__file__).parent
INDEX = """# Operators

Each page is made from the operator's file: what it says is what `check` judges and what its messages say.
`anydml describe` prints the same, and `anydml describe OP --json` gives it to programs.

"""


def pages() -> dict[str, str]:
    """Path under docs/ -> text of every generated page."""
    made, index = {}, INDEX
    for operator in operators.every():
        name, summary = operator.spec.name.lower(), operator.spec.summary.splitlines()[0]
        text = markdown(describe(operator))
        at = text.index("\n## Fields")
        made[f"operators/{name}.md"] = f"{text[:at]}\n![The first example, drawn]({name}.svg){text[at:]}"
        index += f"- [{operator.spec.name}]({name}.md): {prose(summary)}\n"
    return {"operators/index.md": index, **made}


def pictures() -> dict[str, str]:
    """Path under docs/ -> the picture of every operator's first example."""
    made = {}
    for operator in operators.every():
        example = operator.spec.examples[0]
        drawn = dml.picture(operator(**example.fields), **example.inputs, **example.outputs)
        made[f"operators/{operator.spec.name.lower()}.svg"] = drawn.svg()
    return made


def on_config(config: Any) -> Any:
    made = pages() | pictures()
    for path, text in made.items():
        file = DOCS / path
        file.parent.mkdir(exist_ok=True)
        if not file.exists() or file.read_text(encoding="utf-8") != text:  # a server that watches would never come to rest
            file.write_text(text, encoding="utf-8", newline="\n")
    for stale in set(DOCS.glob("operators/*.*")) - {DOCS / path for path in made}:
        stale.unlink()
    config.nav.append(
        {"Operators": "operators/index.md"}
    )  # which names the others: a menu of all would be longer than a screen
    if decisions := sorted(path.relative_to(DOCS).as_posix() for path in DOCS.glob("decisions/*.md")):
        config.nav.append({"Decisions": decisions})
    return config


def on_page_content(html: str, **_: Any) -> str:
    """Code, tables and pictures may be wider than a phone; with the focus, keys scroll them."""
    for tag in ("<pre>", "<table>", "<p><img"):
        html = html.replace(tag, tag.replace(">", ' tabindex="0">', 1))
    return html
