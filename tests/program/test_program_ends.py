"""Programs at the very ends of ranges, where `<` and `<=` differ."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from anydml import DataType, TensorDesc, operators
from anydml.errors import ProgramError
from anydml.program import files, node, onnx_model, save, text


def test_arrays_have_at_most_64_dimensions(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1,) * files.MOST_DIMENSIONS, np.float32))
    with (tmp_path / "x.npy").open("rb") as file:
        assert len(files.npy(file).shape) == files.MOST_DIMENSIONS


def test_a_value_is_shortened_beyond_60_characters() -> None:
    whole = "a" * (node._SHOWN - 2)
    assert node.show(whole) == repr(whole)
    assert node.show(whole + "a").endswith("..")


def test_a_product_of_two_matrices_in_batches_is_said_as_matmul() -> None:
    plain = SimpleNamespace(name="NONE")
    d = SimpleNamespace(trans_a=plain, trans_b=plain, alpha=1, output_tensor=SimpleNamespace(dimension_count=4))
    made: Any = SimpleNamespace(add=lambda operator, *given: operator)
    assert onnx_model._gemm(made, d, {"a_tensor": "a", "b_tensor": "b", "c_tensor": None}) == ["MatMul"]


def test_only_tensors_with_more_bytes_than_they_need_say_how_many() -> None:
    kind: Any = operators.find("ELEMENT_WISE_ABS")
    for more in (0, 4):
        x = TensorDesc(DataType.FLOAT32, (4,), total_tensor_size_in_bytes=16 + more)
        desc = kind(input_tensor=x, output_tensor=TensorDesc(DataType.FLOAT32, (4,)))
        program, _ = save.call(desc, {"input_tensor": np.zeros(4, np.float32)})
        assert ("sizeInBytes" in program["resources"]["InputTensor"]) == bool(more)


def test_only_names_that_occur_twice_are_told() -> None:
    notes = text.Notes("x.json")
    with pytest.raises(ProgramError):
        text.read('{"a": 1, "b": 2, "a": 3}', notes)
    assert [fault.pointer for fault in notes.faults] == ["/a"]
