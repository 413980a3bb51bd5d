"""NonMaxSuppression: its boxes determine the size of its output, so it is computed when they are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.onnx.errors import INVALID, Refused
from anydml.onnx.nodes import Node
from anydml.onnx.values import Array, Value, known, number


def corners(boxes: Array, centred: bool) -> Array:
    """The lower and the higher corners {4, count} of boxes that are given by corners in any order, or by centre and sizes."""
    a, b, c, d = np.moveaxis(boxes, -1, 0)
    if centred:
        half = np.float32(2)
        return np.stack([b - d / half, a - c / half, b + d / half, a + c / half])
    return np.stack([np.minimum(a, c), np.minimum(b, d), np.maximum(a, c), np.maximum(b, d)])


def overlap(one: Array, others: Array) -> Array:
    """The area that a box shares with each other one, divided by their union: float32 operations, each correctly rounded."""
    zero = np.float32(0)
    sides = [
        np.maximum(np.minimum(one[i + 2], others[i + 2]) - np.maximum(one[i], others[i]), zero) for i in (0, 1)
    ]  # fmt: skip
    both = sides[0] * sides[1]
    area, areas = ((x[2] - x[0]) * (x[3] - x[1]) for x in (one, others))
    whole = area + areas - both
    shared: Array = np.where(both > zero, both / np.where(whole > zero, whole, np.float32(1)), zero)
    return shared


def non_max_suppression(
    n: Node, boxes: Value, scores: Value, most: Value = None, overlapping: Value = None, least: Value = None
) -> Array:
    """For each batch and class, the boxes with the highest scores, without those that overlap a chosen one too much.

    Of boxes with equal scores the first is chosen. DirectML has no such operator; its element-wise ones would give the same.
    """
    given, by_class = known(boxes), known(scores)
    if given.ndim != 3 or by_class.ndim != 3 or given.shape[:2] != (by_class.shape[0], by_class.shape[2]):
        raise Refused(f"boxes of sizes {given.shape} do not fit scores of sizes {by_class.shape}", INVALID)
    count = 0 if most is None else int(number(most))
    threshold = np.float32(0 if overlapping is None else number(overlapping))
    lowest = None if least is None else np.float32(number(least))
    found = []
    with np.errstate(invalid="ignore", over="ignore"):
        for b, batch in enumerate(given.astype(np.float32)):
            places = corners(batch, bool(n.get("center_point_box", 0)))
            for c, of_class in enumerate(by_class[b]):
                left = np.argsort(-of_class, kind="stable")
                left = left if lowest is None else left[of_class[left] > lowest]
                chosen = 0
                while len(left) and chosen < count:
                    found.append((b, c, int(left[0])))
                    chosen += 1
                    rest = left[1:]
                    left = rest[overlap(places[:, left[0]], places[:, rest]) <= threshold]
    return np.array(found, np.int64).reshape(-1, 3)


TABLE: dict[str, Callable[..., Any]] = {"NonMaxSuppression": non_max_suppression}
