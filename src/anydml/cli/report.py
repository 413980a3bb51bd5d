"""`anydml report model-int8.onnx --float model.onnx`: the accuracy of a quantised model, as a table, as JSON and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from anydml.cli.compare_models import Source, inputs_of
from anydml.cli.models import is_lite, model_of
from anydml.cli.output import as_json, note, result, show_table
from anydml.spelling import printable

LOSING = 3  # rows of the layers that lose most, in colour


def reported(
    model: str,
    *,
    floats: str,
    source: Source,
    html: str | None,
    json_wanted: bool,
) -> int:
    """Print the report of a quantised model beside its float model."""
    if is_lite(model) or is_lite(floats):
        raise click.UsageError("report is for ONNX models.")
    quantised: Any = model_of(model)
    other: Any = model_of(floats)
    from anydml.onnx.report_page import COLUMNS, cells, report_page
    from anydml.onnx.reporting import report

    found = report(quantised.proto, other.proto, inputs_of(floats, other, source))
    if json_wanted:
        as_json(found.to_dict())
    else:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for title, _ in COLUMNS:
            table.add_column(title, overflow="fold")
        worst = {layer.name for layer in found.worst[:LOSING]}
        for layer in found.layers:
            style = "yellow" if layer.name in worst else ""
            table.add_row(*(Text(printable(cell), style) for cell in cells(layer)))
        show_table(table)
        result(str(found))
    if html is not None:
        Path(html).write_text(report_page(found, Path(model).name, Path(floats).name), encoding="utf-8")
        note(f"Wrote {printable(html)}")
    return 0
