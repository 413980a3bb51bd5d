"""A decoder generates the same tokens on every instruction set and thread count, its prompt whole or in parts, alone or not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import anydml.onnx
from anydml import BindingError, Device
from anydml.kernels.code import llvm
from every_kernel import SOAK, without_dot_products
from pages import examples_run

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
from benchmarks import decoders

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
SIZES = decoders.DecoderSizes() if SOAK > 1 else decoders.SMALL
PROMPT, COUNT = (128, 64) if SOAK > 1 else (7, 6)
ISAS = [t.name for t in without_dot_products()]


@pytest.fixture(scope="module")
def model() -> anydml.onnx.Model:
    return anydml.onnx.load(decoders.decoder(SIZES))


@pytest.fixture(scope="module")
def prompts() -> Any:
    return np.random.default_rng(0).integers(0, SIZES.words, (3, PROMPT))


@pytest.fixture(scope="module")
def expected(model: anydml.onnx.Model, prompts: Any) -> decoders.Generated:
    found = decoders.generated(model, SIZES, prompts[:1], COUNT, Device(threads=1, feature_level="EXTENDED"), PROMPT)
    assert len({*found.tokens[0].tolist()}) > 1
    return found


def same(found: decoders.Generated, expected: decoders.Generated) -> None:
    """The first of a batch has the tokens, logits and caches that it has alone."""
    assert found.tokens[:1].tobytes() == expected.tokens.tobytes()
    assert found.logits[:, :1].tobytes() == expected.logits.tobytes()
    for name, cache in expected.caches.items():
        assert found.caches[name][:1].tobytes() == cache.tobytes(), name


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("count", "at_once"), [(1, 1), (3, PROMPT), (2, 3)], ids=["one by one", "in a batch", "in parts"])
def test_the_same_tokens(
    isa: str, count: int, at_once: int, model: anydml.onnx.Model, prompts: Any, expected: decoders.Generated
) -> None:
    if SOAK == 1 and isa != ISAS[-1] and (at_once != PROMPT or isa != ISAS[0]):
        pytest.skip("in `make soak`, all instruction sets compute all of them")
    device = Device(isa=isa, threads=count, feature_level="EXTENDED")
    same(decoders.generated(model, SIZES, prompts[:count], COUNT, device, at_once), expected)


def test_rows_of_caches_that_were_written_before_stay(model: anydml.onnx.Model, prompts: Any) -> None:
    """A token's step writes one row of each cache, and no others, whatever they hold."""
    held = decoders.Held(model, SIZES, prompts[:1, :1], Device(threads=1, feature_level="EXTENDED"))
    for cache in held.caches.values():
        cache[:] = np.random.default_rng(1).standard_normal(cache.shape)
    before = {name: x.copy() for name, x in held.caches.items()}
    held.step(4)
    for name, cache in held.caches.items():
        changed = (cache != before[name]).any((0, 1, 3))
        assert changed.tolist() == [row == 4 for row in range(SIZES.rows)], name


def test_present_in_another_array(model: anydml.onnx.Model, prompts: Any) -> None:
    """`run`, which returns new arrays, has the same results."""
    held = decoders.Held(model, SIZES, prompts[:1, :3], Device(threads=1, feature_level="EXTENDED"))
    held.step(0)
    made = model.run({**decoders.inputs(SIZES, prompts[:1, :3], 0), **decoders.caches(SIZES, 1)})
    assert made["logits"].tobytes() == held.logits.tobytes()
    for name, cache in held.caches.items():
        assert made[name.replace("past_key_values", "present")].tobytes() == cache.tobytes()


def test_bind_refuses(model: anydml.onnx.Model) -> None:
    given = {**decoders.inputs(decoders.SMALL, np.zeros((1, 1), np.int64), 0), **decoders.caches(SIZES, 1)}
    name = "past_key_values.0.key"
    if SOAK > 1:
        pytest.skip("of the small decoder")
    with pytest.raises(BindingError, match="input_ids"):
        model.bind({n: x for n, x in given.items() if n != "input_ids"})
    with pytest.raises(BindingError, match="no_such"):
        model.bind({**given, "no_such": np.zeros(1, np.float32)})
    with pytest.raises(BindingError, match="shares memory"):
        model.bind({**given, "present.0.value": given[name]})
    with pytest.raises(BindingError, match="not contiguous"):
        model.bind({**given, name: np.zeros((1, SIZES.rows, SIZES.key_heads, SIZES.head), np.float32).transpose(0, 2, 1, 3)})
    with pytest.raises(BindingError, match="an array of NumPy"):
        model.bind({**given, name: [1, 2]})


def test_the_page() -> None:
    """The example of docs/same-tokens.md prints what the page says."""
    assert examples_run("same-tokens.md") == 1


@pytest.mark.parametrize(
    ("packed", "dtype", "attributes"),
    [
        (True, np.float32, {}),
        (False, np.float16, {"local_window_size": 4}),
        (True, np.float16, {"softcap": 5.0}),
        (False, np.float32, {"softcap": 5.0, "local_window_size": 3}),
    ],
)
def test_caches_of_other_attentions(packed: bool, dtype: Any, attributes: dict[str, Any]) -> None:
    """In place, results are those of `run`, and near onnxruntime's; rows of the caches but for the new ones stay."""
    ort = pytest.importorskip("onnxruntime")
    batch, rows, heads, own, size, rng = 3, 16, 4, 2, 16, np.random.default_rng(2)
    widths = [heads * size, own * size, own * size]
    given = {n: rng.standard_normal((batch, 1, k)).astype(dtype) for n, k in zip("qkv", widths, strict=True)}
    if packed:
        given = {"q": np.concatenate([*given.values()], -1)}
    given |= {f"past_{n}": rng.standard_normal((batch, own, rows, size)).astype(dtype) for n in ("key", "value")}
    given["last"] = np.array([6, 9, 4], np.int32)
    angles = rng.random((rows, size // 2))
    tables = {"total": np.array(rows, np.int32), "cos": np.cos(angles).astype(dtype), "sin": np.sin(angles).astype(dtype)}
    names = ["q", *(["", ""] if packed else ["k", "v"]), "past_key", "past_value", "last", "total", "cos", "sin"]
    made = ["y", "key", "value"]
    node = helper.make_node(
        "GroupQueryAttention", names, made, domain="com.microsoft", num_heads=heads, kv_num_heads=own, do_rotary=1, **attributes
    )
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in given.items()]
    sizes = [(batch, 1, heads * size), *[(batch, own, rows, size)] * 2]
    outputs = [helper.make_tensor_value_info(n, kind, s) for n, s in zip(made, sizes, strict=True)]
    graph = helper.make_graph([node], "g", inputs, outputs, [onnx.numpy_helper.from_array(x, n) for n, x in tables.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    model = anydml.onnx.load(proto)
    wanted = model.run(given)
    keys, values = given["past_key"].copy(), given["past_value"].copy()
    found = model.bind({**given, "past_key": keys, "key": keys, "past_value": values, "value": values}).run()
    assert {n: x.tobytes() for n, x in found.items()} == {n: x.tobytes() for n, x in wanted.items()}
    changed = (keys != given["past_key"]).any((1, 3))
    assert changed.tolist() == [[row == last for row in range(rows)] for last in given["last"]]
    other = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)[0]
    np.testing.assert_allclose(found["y"], other, atol=4e-3 if dtype is np.float16 else 1e-6, rtol=0)
