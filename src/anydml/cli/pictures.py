"""`anydml picture`, and the page of `anydml describe model.onnx --html`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from anydml import operators
from anydml.cli.models import facts, is_lite, lite_facts, missing_sizes, model_of, sizes_of
from anydml.cli.output import console, note
from anydml.cli.programs import loaded
from anydml.errors import Error, Fault, ProgramError
from anydml.pictures.pages import model_page, program_page
from anydml.pictures.picture import picture
from anydml.program import Program
from anydml.schema.operator import example_desc
from anydml.spelling import printable

MODELS = (".onnx", ".tflite")


def drawn(what: str, output: str | None) -> int:
    """Draw an operator's first example, or a program: to a file, or in the terminal. Returns the exit status."""
    if (found := operators.find(what.upper())) is not None and not Path(what).exists():
        _has_suffix(output, (".svg", ".html"))
        example = found.spec.examples[0]
        made = picture(example_desc(found), **example.inputs)
        if output is None:
            console().print(made, soft_wrap=False)
        else:
            made.save(output)
            note(printable(f"Wrote {output}"))
        return 0
    if what != "-" and not Path(what).exists():
        json = Path(what).suffix.lower() == ".json"
        raise click.UsageError(printable(f"There is no file {what}.") if json else operators.why_missing(what.upper()))
    if Path(what).suffix.lower() in MODELS:
        raise click.UsageError(printable(f"{what} is a model: anydml describe {what} --html page.html draws it."))
    _has_suffix(output, (".html", ".htm"))
    program: Program | None = None
    faults: tuple[Fault, ...] = ()
    try:
        program = loaded(what)
        program.check()
    except ProgramError as error:
        faults = error.faults
    if output is None:
        for d in program.dispatchables.values() if program is not None else ():
            console().print(picture(d.desc), soft_wrap=False)
        for fault in faults:
            note(str(fault), "red")
    else:
        text = program_page(Path(what).name if what != "-" else "standard input", program, faults)
        Path(output).write_text(text, encoding="utf-8", newline="\n")
        note(printable(f"Wrote {output}"))
    return 2 if faults else 0


def _has_suffix(output: str | None, suffixes: Sequence[str]) -> None:
    """UsageError for the name of a file that is not written in one of these formats."""
    if output is not None and Path(output).suffix.lower() not in suffixes:
        raise click.UsageError(printable(f"This is written as {' or '.join(suffixes)}, not as {Path(output).name}."))


def model_html(file: str, output: str, given: Sequence[str]) -> int:
    """Write the page of a model. Sizes that are neither in it nor given are 1."""
    _has_suffix(output, (".html", ".htm"))
    model: Any = model_of(file)
    sizes = sizes_of(given)
    sizes |= dict.fromkeys(missing_sizes(model, sizes), 1)
    refusals = [str(r) for r in model.check(**sizes)]
    graph, why = None, ""
    if not refusals:
        try:
            graph = model.graph(**sizes)
        except Error as error:
            why = f"It is no single graph: {error}"
    found = lite_facts(model) if is_lite(file) else facts(model)
    Path(output).write_text(model_page(Path(file).name, found, graph, refusals, why), encoding="utf-8", newline="\n")
    note(printable(f"Wrote {output}"))
    return 2 if refusals else 0
