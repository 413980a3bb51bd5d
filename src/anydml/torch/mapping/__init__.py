"""ATen's operators as calls of DirectML's: a table for each group of operators.

A mapping takes a node and the operator's arguments, as ATen's schema has them, and returns the results. Tensors are arrays,
whose elements are known, or tensors of a graph; the eager functions take both. Truth values are UINT8.
"""

from anydml.torch.mapping import (
    activations,
    indexing,
    normalization,
    pointwise,
    products,
    recurrent,
    reductions,
    shapes,
    windows,
)

GROUPS = {
    "Element by element": pointwise.TABLE,
    "Activations": activations.TABLE,
    "Shapes and new tensors": shapes.TABLE,
    "Reductions and order": reductions.TABLE,
    "Indices": indexing.TABLE,
    "Products and attention": products.TABLE,
    "Windows": windows.TABLE,
    "Normalisations": normalization.TABLE,
    "Recurrent networks": recurrent.TABLE,
}

MAPPINGS = {name: mapping for table in GROUPS.values() for name, mapping in table.items()}
