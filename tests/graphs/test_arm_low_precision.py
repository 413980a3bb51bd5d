"""Kernels of low precision for Arm, emulated: weights of 4 bits, 16-bit activations and BFLOAT16 have this processor's bits.

These have the bits of separate operators and of the oracle by other tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from test_arm_matmul import PROCESSORS, one_by_one
from test_sixteen_bit_graphs import Layer, Window, made, outputs

import anydml as dml
import anydml.onnx
import emulated
import hostile_data
from anydml import TensorDesc, check
from anydml.devices import families
from anydml.kernels.code.targets import ARM
from anydml.kernels.contract import tuning
from anydml.kernels.contract.floats import family as floats
from anydml.kernels.contract.quantised import family as quantised
from anydml.kernels.contract.quantised import of_planes
from anydml.kernels.contract.weights import family as weights
from anydml.kernels.elementwise import family as maps
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.problem import Problem, problem_of
from emulated import Bytes, Case, Open
from every_kernel import SOAK
from tuned import tuned

pytestmark = emulated.needed
GENERIC = ARM[0]
Arrays = Mapping[str, NDArray[Any]]


@pytest.fixture(autouse=True)
def looked_up() -> Iterator[None]:
    """Devices look up the families' functions again, for a test that replaces them, and after it."""

    def forget() -> None:
        for function in vars(families).values():
            getattr(function, "cache_clear", lambda: None)()

    forget()
    yield
    forget()


class Seen(list[tuple[Problem, Arrays, NDArray[Any]]]):
    """The problems of a family that graphs compile, with the arrays that they read, and the output that they write."""

    def __init__(self, family: ModuleType, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.family, self.problems, self._lower = family, list[Problem](), family.lower
        patch.setattr(family, "lower", self._noted)

    def _noted(self, problem: Problem, machine: Machine, *others: Any) -> Any:
        self.problems.append(problem)
        return self._lower(problem, machine, *others)

    def run(self, graph: Any, output: NDArray[Any], **inputs: NDArray[Any]) -> None:
        """Run a graph that is one call of this family on this processor."""
        self.problems.clear()
        compiled = graph.compile(dml.Device(threads=1, feature_level="EXTENDED"))
        compiled.bind(**inputs, **dict.fromkeys(graph.outputs, output)).execute()
        assert len(self.problems) == 1
        problem = self.problems[0]
        reads = [name for name in problem.tensors if name not in problem.statement and name not in problem.promises.constants]
        assert len(reads) == len(inputs)
        self.append((problem, dict(zip(reads, inputs.values(), strict=True)), output))

    def emulated(self, patch: pytest.MonkeyPatch, directory: Path, *modules: ModuleType) -> Open:
        """Compare all outputs with those of an emulated processor, whose buffers are before and behind an unmapped page."""
        recorder, seen, cases = emulated.recording(patch, GENERIC, self.family, *modules), Open(), []
        for problem, inputs, output in self:
            lowered = self._lower(problem, Machine(None, 1))
            assert isinstance(lowered, Lowered), lowered
            ((name, _),) = problem.statement.items()
            wanted = output.view(np.uint8).ravel()
            buffers = {n: np.ascontiguousarray(x).view(np.uint8).ravel() for n, x in {**inputs, **lowered.own}.items()}
            buffers |= {name: np.full(wanted.size, 0xA5, np.uint8), "scratch": np.zeros(max(lowered.scratch, 8), np.uint8)}
            buffers = {n: x for n, x in buffers.items() if x.size}
            for memory, size in (("passing", lowered.passing), ("packed", lowered.packed), ("spare", lowered.spare)):
                if size:
                    buffers[memory] = np.full(size, 0xFF, np.uint8)
            if lowered.constants is not None:
                buffers["constants"] = lowered.constants
            found = [s for r in lowered.rounds for phase in r.phases for piece in phase for s in piece]
            steps = [step for s in [*lowered.packing, *found] for step in one_by_one(s)]
            judge = partial(_judged, lowered, name, inputs, output, seen)
            cases.append(Case(str(self.family), buffers, steps, {name: wanted}, judge=judge))
        emulated.run(emulated.build(directory, GENERIC, recorder.texts), PROCESSORS[GENERIC.name], cases)
        return seen


def _judged(
    lowered: Lowered, name: str, inputs: Arrays, wanted: NDArray[Any], seen: Open, status: int, written: Mapping[str, Bytes]
) -> None:
    got = written[name].view(wanted.dtype).reshape(wanted.shape).copy()
    if status:
        assert lowered.decide is not None
        before = got.copy()
        lowered.decide(written["scratch"].view(np.int64), {**inputs, **lowered.own, name: got})
        seen.left += int((before != got).sum())
    assert got.tobytes() == wanted.tobytes()
    seen.compared += got.size


def test_weights_of_4_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, rng = Seen(weights, monkeypatch), np.random.default_rng(0)
    rows = (1, 9) if SOAK > 1 else (1,)
    for m in rows:
        elements = rng.integers(0, 16, (64, 64)).astype(ml_dtypes.uint4)
        scales = (rng.random((64, 2)) * 0.02 + 0.001).astype(np.float32)
        zeros = rng.integers(0, 16, (64, 2)).astype(ml_dtypes.uint4)

        def product(x: Any, elements: Any = elements, scales: Any = scales, zeros: Any = zeros) -> Any:
            return dml.gemm(x, dml.dequantize(x.constant(elements), [scales, zeros]).transpose(1, 0))

        for kind in ("ordinary", "cancelling"):
            x = hostile_data.values("FLOAT32", (m, 64), rng, kind)
            seen.run(dml.graph(product, x=dml.TensorDesc.of(x)), np.zeros((m, 64), np.float32), x=x)
    assert seen.emulated(monkeypatch, tmp_path).compared == 2 * 2 * sum(rows) * 64


def test_activations_of_16_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, tuning, planes=1)
    seen = Seen(quantised, monkeypatch)
    layers = [Layer("int16", y="int8", sizes=(1, 9, 5), window=Window()), Layer(sizes=(5, 40, 19))]
    for layer in layers if SOAK > 1 else layers[:1]:
        model, x = made(layer, 1)
        seen.run(anydml.onnx.load(model).graph(), outputs(layer, x), x=x)
    assert seen.emulated(monkeypatch, tmp_path, of_planes).compared >= 2 * 5 * 63


def test_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root of every number, and in `make soak` a product."""
    rng, t = np.random.default_rng(1), TensorDesc
    a, b = (rng.standard_normal(sizes).astype(ml_dtypes.bfloat16) for sizes in ((1, 1, 20, 30), (1, 1, 30, 40)))
    every = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    product = dml.Gemm(a_tensor=t.of(a), b_tensor=t.of(b), output_tensor=t("BFLOAT16", (1, 1, 20, 40)))
    root = dml.ElementWiseSqrt(input_tensor=t.of(every), output_tensor=t.of(every))
    cases: list[tuple[ModuleType, Any, dict[str, Any]]] = [
        (maps, root, {"input_tensor": every}),
        (floats, product, {"a_tensor": a, "b_tensor": b}),
    ]
    for family, desc, inputs in cases if SOAK > 1 else cases[:1]:
        seen, output = Seen(family, monkeypatch), np.zeros(desc.output_tensor.sizes, ml_dtypes.bfloat16)
        compiled = dml.Device(threads=1, feature_level="EXTENDED").compile(desc)
        compiled.bind(**inputs, output_tensor=output).execute()
        seen.append((problem_of(check(desc, "EXTENDED")), inputs, output))
        with monkeypatch.context() as patch:
            assert seen.emulated(patch, tmp_path).compared == 2 * output.size
