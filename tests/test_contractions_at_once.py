"""Contractions of few terms, whose tiles are stored from registers: beside the oracle, with what follows them in a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anydml as dml
import hurting
from anydml import DataType, Device, TensorDesc
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats import at_once
from anydml.kernels.contract.floats.epilogue import Shape
from anydml.schema.operator import Desc
from contracted import Rng, named, pick, run
from every_kernel import SOAK, Compared, without_dot_products
from guarded import AVAILABLE

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None or not AVAILABLE, reason="nothing can be compiled, or guarded"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]
ISAS = [t.name for t in without_dot_products()]
TYPES = (DataType.FLOAT32, DataType.FLOAT32, DataType.FLOAT16)


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[Shape]:
    """The shapes of the kernels that store tiles from registers."""
    found: list[Shape] = []
    real: Callable[..., Any] = engine.compiled

    def compiled(emit: Callable[..., str], target: Target, *key: Any) -> Any:
        if emit is at_once.stored:
            found.append(key[-1])
        return real(emit, target, *key)

    monkeypatch.setattr(engine, "compiled", compiled)
    return found


def product(rng: Rng) -> Desc:
    """A matrix of 17 rows or more; C, if there is one, is the same along each row."""
    t, m, k, n = pick(rng, TYPES), int(rng.integers(17, 24)), int(rng.integers(1, 49)), 24 * int(rng.integers(1, 4))
    c = TensorDesc(t, (m, n), strides=(1, 0)) if rng.random() < 0.5 else None
    a, b, y = (TensorDesc(t, sizes) for sizes in ((m, k), (k, n), (m, n)))
    factors = {} if rng.random() < 0.7 else {"alpha": pick(rng, (-2.0, 0.1, 1.0)), "beta": pick(rng, (1.0, 0.3))}
    made: Desc = named("GEMM")(a_tensor=a, b_tensor=b, c_tensor=c, output_tensor=y, **factors, **following(rng))
    return made


def convolution(rng: Rng) -> Desc:
    """5 filters or more, of 1 x 1 or 3 x 3, with a padding and strides or none; 48 places."""
    t, taps, stride = pick(rng, TYPES), pick(rng, (1, 3)), pick(rng, (1, 2))
    read, written = int(rng.integers(1, 49 if taps == 1 else 6)), int(rng.integers(17 if taps == 1 else 5, 24))
    sizes = (1, read, 5 * stride + 1, 7 * stride + 1)
    bias = TensorDesc(t, (1, written, 1, 1)) if rng.random() < 0.7 else None
    around = (taps // 2,) * 2
    made: Desc = named("CONVOLUTION")(
        input_tensor=TensorDesc(t, sizes), filter_tensor=TensorDesc(t, (written, read, taps, taps)), bias_tensor=bias,
        output_tensor=TensorDesc(t, (1, written, 6, 8)), mode="CROSS_CORRELATION", direction="FORWARD",
        strides=(stride,) * 2, dilations=(1, 1), start_padding=around, end_padding=around, output_padding=(0, 0), group_count=1,
        **following(rng),
    )  # fmt: skip
    return made


def following(rng: Rng) -> dict[str, Any]:
    made = (None, None, named("ACTIVATION_RELU")(), named("ELEMENT_WISE_CLIP")(min=-1.0, max=2.5))
    return {"fused_activation": pick(rng, made)}


@pytest.mark.parametrize("isa", ISAS)
def test_generated(isa: str, emitted: list[Shape], compared: Compared) -> None:
    outputs = cases = 0
    wanted = 6_000 * SOAK
    while outputs < wanted:
        rng = np.random.default_rng((len(isa), cases))
        emitted.clear()
        desc = (product, convolution)[cases % 2](rng)
        outputs += run(desc, rng, Device(isa=isa, threads=1 + cases % 2))
        assert emitted, desc
        cases += 1
    compared("outputs of tiles that are stored at once", outputs, wanted)


@pytest.mark.parametrize("kind", hurting.KINDS)
def test_maps_that_follow_round_once_more(kind: str, emitted: list[Shape]) -> None:
    """A clip, and a product with a scalar, behind the rounded sum; special values in all factors."""
    rng = np.random.default_rng(5)
    x, f, b = (hurting.values("FLOAT32", sizes, rng, kind) for sizes in ((1, 3, 12, 16), (9, 3, 3, 3), (1, 9, 1, 1)))
    for special in (False, True):
        if special:
            for array in (x, f, b):
                array.reshape(-1)[rng.integers(0, array.size, 2)] = hurting.values("FLOAT32", 2, rng, "specials")
        for isa in ISAS:
            for follow in (lambda y: dml.element_wise_clip(y, min=0.0, max=6.0), lambda y: dml.element_wise_multiply(y, 0.1)):

                def layer(x: Any, follow: Any = follow) -> Any:
                    return follow(dml.convolution(x, f, b, start_padding=(1, 1), end_padding=(1, 1)))

                emitted.clear()
                desc = dml.graph(layer, x=TensorDesc.of(x)).desc
                found = {}
                for fuse in (True, False):
                    found[fuse] = np.full((1, 9, 12, 16), 7, np.float32)
                    Device(isa=isa, threads=1).compile(desc, fuse=fuse).bind(x=x, output=found[fuse]).execute()
                assert any(shape.stored.rounded() is not None for shape in emitted)
                np.testing.assert_array_equal(found[True].view(np.uint32), found[False].view(np.uint32))
