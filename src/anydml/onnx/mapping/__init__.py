"""ONNX's operators as calls of DirectML's: a table for each group of operators.

A mapping takes a node and its inputs, None where absent, and returns the node's outputs. Inputs are arrays, whose elements
are known, or tensors of a graph; the eager functions take both.
"""

from anydml.onnx.mapping import (
    activations,
    maths,
    moves,
    normalization,
    products,
    quantised,
    recurrent,
    reductions,
    resize,
    shape,
    windows,
)

MAPPINGS = {
    **maths.TABLE,
    **activations.TABLE,
    **shape.TABLE,
    **moves.TABLE,
    **products.TABLE,
    **windows.TABLE,
    **reductions.TABLE,
    **normalization.TABLE,
    **quantised.TABLE,
    **recurrent.TABLE,
    **resize.TABLE,
}

MISSING = {  # what DirectML has or composes, and no mapping does yet
    "Loop": "a loop is a graph for every turn",
    "Scan": "a loop is a graph for every turn",
}
