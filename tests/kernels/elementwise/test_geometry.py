"""The order in which the element-wise kernels visit elements: each once, for any strides."""

from __future__ import annotations

from itertools import product
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from anydml.kernels.elementwise import geometry
from tensors import SETTINGS


@st.composite
def boxes(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """Sizes, and the strides of an input and of an output without gaps, in any order of dimensions."""
    sizes = draw(
        st.lists(st.sampled_from([1, 2, 3, 7, 16, 65, 130, 700]), min_size=1, max_size=4).filter(lambda s: prod(s) < 20000)
    )
    strides: list[list[int]] = []
    for _ in range(2):
        order = draw(st.permutations(range(len(sizes))))
        made, step = [0] * len(sizes), 4
        for d in order:
            made[d] = step
            step *= sizes[d]
        strides.append(made)
    strides[0] = [0 if draw(st.booleans()) else s for s in strides[0]]
    return sizes, strides


@settings(SETTINGS, max_examples=200)
@given(boxes(), st.sampled_from([1, 2, 3]))
def test_every_element_is_visited_once(box: tuple[list[int], list[list[int]]], threads: int) -> None:
    sizes, strides = box
    expected = {
        tuple(sum(i * s for i, s in zip(at, along, strict=True)) for along in strides) for at in product(*map(range, sizes))
    }
    visited = []
    for part in geometry.parts(sizes, strides, [4, 4]):
        for share, first, rows in geometry.shares(part, threads, 8):
            starts = list(product(*(range(d.size) for d in share.outer)))
            for at in starts[first : first + rows]:
                for i in range(share.row.size):
                    steps = [(k, d.strides) for k, d in zip(at, share.outer, strict=True)] + [(i, share.row.strides)]
                    visited.append(tuple(o + sum(k * s[n] for k, s in steps) for n, o in enumerate(share.offsets)))
    assert len(visited) == prod(sizes)
    assert set(visited) == expected


def test_short_rows_are_visited_a_few_lines_at_a_time() -> None:
    (first, rest) = geometry.parts((1000, 7), [[28, 4], [0, 4], [28, 4]], [4, 4, 4])
    assert first.row.size * sum(first.row.strides) <= geometry.NEAR
    assert first.outer[-1].size == 7
    assert first.row.size * first.outer[0].size + rest.row.size == 1000
