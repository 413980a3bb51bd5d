"""Planes of one column, whose lines are the columns of a sliding window."""

from __future__ import annotations

from itertools import product

import numpy as np

import anydml as dml


def test_a_filter_column_in_the_padding_counts_for_nothing() -> None:
    rng, count = np.random.default_rng(1), 0
    for high, filter_height, end, stride, dilation in product((4, 9), (1, 2, 3), (1, 2), (1, 2), (1, 2)):
        if high + end < 1 + (filter_height - 1) * dilation:
            continue
        x, f = (rng.normal(size=sizes).astype(np.float32) for sizes in ((1, 2, high, 1), (2, 2, filter_height, 1 + end)))
        window = {"end_padding": (end, end), "strides": (1, stride), "dilations": (dilation, 1)}
        want = dml.convolution(x, f, **window, device="reference")  # type: ignore[arg-type]
        assert dml.convolution(x, f, **window).tobytes() == want.tobytes(), window  # type: ignore[arg-type]
        # the same in exact integers: the column that is not padding alone
        whole = x.astype(np.int8).astype(np.float32), f.round().astype(np.float32)
        alone = dml.convolution(
            whole[0], np.ascontiguousarray(whole[1][..., :1]), end_padding=(end, 0), dilations=(dilation, 1)
        )
        assert dml.convolution(*whole, **window)[..., :1].tolist() == alone.tolist()  # type: ignore[arg-type]
        count += 1
    print(f"{count} convolutions")
    assert count == 48
