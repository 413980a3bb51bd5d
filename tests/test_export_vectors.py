"""`anydml export-vectors`: a file that others can read without anydml, with exact results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from anydml import operators, vectors


def test_vectors_of_some_operators_are_exact(tmp_path: Path) -> None:
    count = 0
    for name in ("GEMM", "SLICE1", "ELEMENT_WISE_EXP", "QUANTIZED_LINEAR_MATRIX_MULTIPLY", "MAX_POOLING2", "JOIN", "SPLIT"):
        operator = operators.find(name)
        assert operator is not None
        kinds = vectors.write(tmp_path / "v.npz", operator)
        with np.load(tmp_path / "v.npz", allow_pickle=False) as file:
            document = json.loads(str(file["cases"]))
            assert document["operator"] == f"DML_OPERATOR_{name}"
            assert len(document["cases"]) == sum(kinds.values()) >= len(operator.spec.examples)
            for k, case in enumerate(document["cases"]):
                for output in case["outputs"]:
                    member = case["desc"][output.partition("[")[0]]
                    sizes = member[int(output.partition("[")[2][:-1])]["Sizes"] if "[" in output else member["Sizes"]
                    assert list(file[f"{k}.{output}"].shape) == sizes
                if case["kind"] == "example":
                    continue
                if name == "SLICE1":
                    x, desc = file[f"{k}.InputTensor"], case["desc"]
                    at: list[list[int]] = []
                    for o, s, step in zip(*(desc[f"InputWindow{m}"] for m in ("Offsets", "Sizes", "Strides")), strict=True):
                        start = o if step > 0 else o + s - 1
                        at.append([start + step * i for i in range(desc["OutputTensor"]["Sizes"][len(at)])])
                    assert file[f"{k}.OutputTensor"].tobytes() == x[np.ix_(*at)].tobytes()
                    count += 1
                if name == "GEMM" and file[f"{k}.ATensor"].shape == (
                    3,
                    1,
                ):  # one product, and a matrix added
                    a, b, c = (file[f"{k}.{m}Tensor"].astype(np.float64) for m in "ABC")
                    with np.errstate(all="ignore"):
                        total = a * b + c  # exact, but for far exponents
                        exact = (total - c == a * b) & (total - a * b == c)
                        assert (file[f"{k}.OutputTensor"] == total.astype(np.float32))[exact].all()
                    count += int(exact.sum())
    print(f"{count} slices and elements")
    assert count >= 20
