"""ONNX's operators as calls of DirectML's: a table for each group of operators.

A mapping takes a node and its inputs, None where absent, and returns the node's outputs. Inputs are arrays, whose elements
are known, or tensors of a graph; the eager functions take both.
"""

from anydml.onnx.mapping import (
    activations,
    attention,
    blocks,
    boxes,
    embeddings,
    fused,
    maths,
    microsoft_attention,
    moves,
    normalization,
    products,
    quantised,
    quantised_maps,
    recurrent,
    reductions,
    resize,
    rotary,
    samples,
    scatters,
    sequences,
    shape,
    transforms,
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
    **attention.TABLE,
    **microsoft_attention.TABLE,
    **rotary.TABLE,
    **fused.TABLE,
    **embeddings.TABLE,
    **blocks.TABLE,
    **scatters.TABLE,
    **sequences.TABLE,
    **transforms.TABLE,
    **boxes.TABLE,
    **samples.TABLE,
    **quantised_maps.TABLE,
}
