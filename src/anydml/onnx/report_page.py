"""A report as an HTML page: its sentences, and a table with a bar for the loss of each layer."""

from __future__ import annotations

import html
import math

from anydml.onnx.compare_page import STYLE
from anydml.onnx.reporting import Layer, Report, decibels

COLUMNS = (
    ("layer", "The node of the float model."),
    ("outputs if alone", "The SQNR of the model's outputs, if this layer and its weights alone are quantised."),
    ("own SQNR", "That of this tensor, if it alone is quantised."),
    ("SQNR so far", "That in the quantised model, with the errors of all layers before."),
    ("saturated low", "The share of elements below the range of the integers."),
    ("saturated high", "The share of elements above the range of the integers."),
    ("range used", "From the smallest to the largest element."),
    ("weights", "The SQNR of the weights; with a scale for each channel."),
    ("16 bits", "The own SQNR with 16 bits."),
)
BAR = """
.bar { height: 6px; background: var(--beyond-rounding); border-radius: 3px; margin-top: 3px; opacity: .8; }
"""


def report_page(found: Report, quantised: str, floats: str) -> str:
    """The page as HTML without external files. quantised, floats: the names of the models."""
    title = f"{quantised} beside {floats}"
    sentence, *more = str(found).split("\n")
    said = "".join(f"<p>{html.escape(line)}.</p>" for line in more)
    least = min((layer.alone for layer in found.layers), default=0.0)
    head = "".join(f'<th title="{html.escape(why)}">{html.escape(name)}</th>' for name, why in COLUMNS)
    rows = "".join(_row(layer, least) for layer in found.layers)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}{BAR}</style></head><body>\n'
        f"<h1>{html.escape(title)}</h1>"
        '<p class="soft">Both models are computed exactly. SQNR is the ratio of signal to quantisation noise: 6 dB are a bit.'
        "</p>\n"
        f'<div class="first"><p>{html.escape(sentence)}.</p>{said}</div>\n'
        f'<div class="listed"><table><tr>{head}</tr>{rows}</table></div>\n</body></html>\n'
    )


def cells(layer: Layer) -> tuple[str, ...]:
    """The columns of a layer's row, as text."""
    weights = "-" if layer.weights is None else decibels(layer.weights)
    if layer.by_channel is not None:
        weights += f"; by channel {decibels(layer.by_channel)}"
    return (
        f"{layer.name} ({layer.operator})",
        decibels(layer.alone),
        decibels(layer.own),
        decibels(layer.so_far),
        _share(layer.low),
        _share(layer.high),
        _share(layer.used),
        weights,
        "-" if layer.wider is None else decibels(layer.wider),
    )


def _share(x: float) -> str:
    return f"{100 * x:.3g} %"


def _row(layer: Layer, least: float) -> str:
    """A row. The bar is as long as the noise of the layer, next to that of the one that loses most."""
    noise = 10 ** ((least - layer.alone) / 10) if math.isfinite(layer.alone) and math.isfinite(least) else 0.0
    name, alone, *others = (html.escape(text) for text in cells(layer))
    bar = f'<div class="bar" style="width: {100 * min(noise, 1):.1f}%"></div>'
    rest = "".join(f'<td class="number">{text}</td>' for text in others)
    tensor = f'<span class="said">{html.escape(layer.tensor)}</span>'
    return f'<tr><td>{name}<br>{tensor}</td><td class="number">{alone}{bar}</td>{rest}</tr>'
