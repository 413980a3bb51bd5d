"""Windows with sizes up to 32 bits over small tensors: they are legal, and kernels must not visit their elements one by one."""

import numpy as np
import pytest

import anydml as dml

HUGE = 4_294_967_290


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("include", [False, True])
def test_an_average_of_a_huge_window_is_that_of_what_is_there(device: str, include: bool) -> None:
    tensor = dml.TensorDesc("FLOAT32", (1, 1, 2, 2))
    desc = dml.AveragePooling1(
        input_tensor=tensor, output_tensor=dml.TensorDesc("FLOAT32", (1, 1, 1, 2)), strides=(1, 1), dilations=(1, 1),
        window_size=(HUGE, 1), start_padding=(HUGE - 10, 0), end_padding=(8, 0), include_padding=include,
    )  # fmt: skip
    x, y = np.array([[[[1, 2], [3, 4]]]], np.float32), np.empty((1, 1, 1, 2), np.float32)
    dml.Device(device).compile(desc).bind(input_tensor=x, output_tensor=y).execute()
    divisor = HUGE if include else 2
    np.testing.assert_array_equal(y.reshape(-1), np.array([4 / divisor, 6 / divisor], np.float32))


def test_a_huge_padding_is_no_term_of_a_convolution() -> None:
    desc = dml.Convolution(
        input_tensor=dml.TensorDesc("FLOAT32", (1, 1, 3)), filter_tensor=dml.TensorDesc("FLOAT32", (1, 1, 2)),
        output_tensor=dml.TensorDesc("FLOAT32", (1, 1, 2)), strides=(HUGE,), dilations=(1,), start_padding=(HUGE,),
        end_padding=(0,), output_padding=(0,),
    )  # fmt: skip
    inputs = {"input_tensor": np.array([[[1, 2, 3]]], np.float32), "filter_tensor": np.array([[[5, 7]]], np.float32)}
    for device in ("cpu", "reference"):
        y = np.empty((1, 1, 2), np.float32)
        dml.Device(device).compile(desc).bind(**inputs, output_tensor=y).execute()
        np.testing.assert_array_equal(y.reshape(-1), [0, 19])
