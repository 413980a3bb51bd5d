"""RNN, GRU and LSTM on OpenCL devices: the CPU's bits, where steps stop and go on, and where sums over inputs are cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_recurrences import drawn, fill, placed
from test_recurrences_data import FORMS, STEPS, made

import anydml as dml
import hostile_data
from agreement import SOAK, bits
from anydml import UnsupportedError
from anydml.kernels.code import llvm
from anydml.kernels.opencl.recurrence import calls, plan
from every_kernel import Ran
from guard_pages import AVAILABLE
from layers_data import KINDS, recurrent

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None or not AVAILABLE, reason="nothing can be compiled, or guarded"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value"),
]
NAME = "recurrence:opencl"


def device(stage: str = "first") -> dml.Device:
    try:
        return dml.Device("opencl", stage=stage)
    except UnsupportedError as error:
        pytest.skip(str(error))


class Both:
    """A desc on two devices, bound to the same inputs."""

    def __init__(self, desc: Any, there: dml.Device) -> None:
        self.there, here = there.compile(desc), dml.Device("cpu").compile(desc)
        assert self.there.kernel_name == NAME
        written = {f.name for f in desc.spec.outputs}
        self.inputs: dict[str, NDArray[Any]] = {}
        self.outputs: list[dict[str, NDArray[Any]]] = [{}, {}]
        for found in desc.tensors():
            sizes, dtype = found.desc.sizes, found.desc.data_type.dtype
            if found.name in written:
                for outputs in self.outputs:
                    outputs[found.name] = np.zeros(sizes, dtype)
            else:
                self.inputs[found.name] = np.zeros(sizes, dtype)
        pair = zip((self.there, here), self.outputs, strict=True)
        self.bound = [compiled.bind(**self.inputs, **outputs) for compiled, outputs in pair]

    def agree(self, rng: np.random.Generator, kind: str) -> int:
        """Assert that all outputs have the same bits; return their number."""
        for name, x in self.inputs.items():
            lengths = x.dtype == np.uint32
            x[...] = rng.integers(0, STEPS + 2, x.shape) if lengths else recurrent(name, x.shape, x.dtype, rng, kind)
        for x in self.outputs[0].values():
            x.view(np.uint8)[...] = 77
        for bound in self.bound:
            bound.execute()
        got, want = self.outputs
        for name, x in want.items():
            np.testing.assert_array_equal(bits(got[name]), bits(x), f"{name}, {kind}")
        return sum(x.size for x in want.values())


@pytest.mark.skipif(SOAK < 2, reason="drivers compile for seconds: in `make soak`")
@pytest.mark.parametrize("form", FORMS)
def test_states_have_the_bits_of_the_cpu(form: str, ran: Ran) -> None:
    both, rng, compared = Both(made(**FORMS[form]), device()), np.random.default_rng(0), 0
    for kind in KINDS:
        compared += both.agree(rng, kind)
    assert not both.there.counters().exact
    ran(compared, compared)


LATER = [("RNN", "second"), ("GRU", "exact")]  # drivers compile for seconds


@pytest.mark.parametrize(("form", "stage"), [(f, s) for f in FORMS for s in ("second", "third")] if SOAK > 1 else LATER)
def test_steps_go_on_behind_an_element_that_was_decided(
    form: str, stage: str, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step stops; sums over the input are those of one step at a time."""
    monkeypatch.setattr(plan, "SUMS", 1)
    monkeypatch.setattr(calls, "UNITS", 1)  # launches of a few elements
    both, rng, compared = Both(made(**FORMS[form]), device(stage)), np.random.default_rng(1), 0
    for kind in KINDS[::4] if stage == "exact" else KINDS:
        compared += both.agree(rng, kind)
    counters = both.there.counters()
    assert counters.undecided >= compared // 8  # elements beyond the end of a sequence are no steps
    assert bool(counters.exact) == (stage != "second")
    ran(compared, compared)


@pytest.mark.skipif(SOAK < 2, reason="drivers compile for seconds: in `make soak`")
def test_generated_layouts_and_options(ran: Ran) -> None:
    """Any strides, activations, biases, lengths and outputs, between unmapped pages."""
    there, here, outputs = device(), dml.Device("cpu"), 0
    for case in range(8 * SOAK):
        rng = np.random.default_rng([39, case])
        desc = drawn(("RNN", "GRU", "LSTM")[case % 3], rng)
        one, other = there.compile(desc), here.compile(desc)
        assert one.kernel_name == NAME
        inputs, results, buffers = placed(desc, rng, at_end=case % 2 == 0)
        for kind in hostile_data.KINDS:
            fill(desc, inputs, rng, kind)
            made_: list[list[NDArray[Any]]] = []
            for compiled in (one, other):
                for _, buffer in buffers:
                    buffer[...] = 0xA5
                compiled.bind(**inputs, **results).execute()
                made_.append([buffer.copy() for _, buffer in buffers])
            for got, want in zip(*made_, strict=True):
                np.testing.assert_array_equal(got, want, f"{kind}: {desc}")
        outputs += len(hostile_data.KINDS) * sum(x.size for x, _ in buffers)
    ran(outputs, 1000)
