"""A decoder with random weights of 4 bits, as onnxruntime-genai's model builder writes one, and its most probable tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Array = NDArray[Any]
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
MICROSOFT = "com.microsoft"


class DecoderSizes(NamedTuple):
    """Sizes of a decoder. rows: of a cache of keys. block: terms of weights that share a scale."""

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    key_heads: int = 4
    wide: int = 2048
    words: int = 4096
    rows: int = 256
    block: int = 32

    @property
    def head(self) -> int:
        return self.hidden // self.heads


SMALL = DecoderSizes(layers=2, hidden=64, heads=4, key_heads=2, wide=128, words=96, rows=24)


class _Writer:
    """The nodes and the weights of a model."""

    def __init__(self, sizes: DecoderSizes, seed: int) -> None:
        self.sizes, self.rng = sizes, np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def node(self, operator: str, inputs: list[str], outputs: list[str], domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, outputs, outputs[0], domain=domain, **attributes))
        return outputs[0]

    def kept(self, name: str, x: Array) -> str:
        self.weights.append(numpy_helper.from_array(x, name))
        return name

    def bits(self, name: str, rows: int, terms: int, size: float) -> tuple[str, str]:
        """Packed elements of 4 bits, and their scales, about `size`. The middle of the range is 0."""
        block = self.sizes.block
        low, high = self.rng.integers(1, 16, (2, rows, terms // block, block // 2), np.uint8)  # -7 to 7, so that the mean is 0
        packed = low | high << np.uint8(4)
        scales = (self.rng.random((rows, terms // block)) + 0.5).astype(np.float32) * np.float32(size)
        return self.kept(f"{name}.q", packed), self.kept(f"{name}.s", scales)

    def product(self, x: str, name: str, terms: int, rows: int) -> str:
        packed, scales = self.bits(name, rows, terms, 0.25 / terms**0.5)
        what: dict[str, Any] = dict(K=terms, N=rows, bits=4, block_size=self.sizes.block, accuracy_level=1)
        return self.node("MatMulNBits", [x, packed, scales], [name], MICROSOFT, **what)

    def normalised(self, x: str, skip: str, name: str) -> tuple[str, str]:
        """The normalised sum of two tensors, and the sum."""
        weight = self.kept(f"{name}.weight", self.rng.random(self.sizes.hidden).astype(np.float32) + np.float32(0.5))
        if not skip:
            return self.node("SimplifiedLayerNormalization", [x, weight], [name], axis=-1, epsilon=1e-5, stash_type=1), x
        outputs = [name, "", "", f"{name}.sum"]
        self.node("SkipSimplifiedLayerNormalization", [x, skip, weight], outputs, MICROSOFT, epsilon=1e-5)
        return name, f"{name}.sum"


def decoder(sizes: DecoderSizes = SMALL, seed: int = 0) -> ModelProto:
    """The model: token numbers, a mask of valid rows of the caches, and the caches; to logits and the same caches."""
    w, s = _Writer(sizes, seed), sizes
    angles = np.arange(s.rows)[:, None] / 10000.0 ** (np.arange(s.head // 2) * 2 / s.head)
    w.kept("cosines", np.cos(angles).astype(np.float32))
    w.kept("sines", np.sin(angles).astype(np.float32))
    w.kept("one", np.array([1], np.int64))
    w.kept("first", np.array(1, np.int64))
    counted = w.node("ReduceSum", ["attention_mask", "one"], ["valid"], keepdims=0)
    lengths = w.node("Cast", [w.node("Sub", [counted, "one"], ["last"])], ["seqlens_k"], to=TensorProto.INT32)
    shape = w.node("Shape", ["attention_mask"], ["mask_shape"])
    whole = w.node("Gather", [shape, "first"], ["mask_length"], axis=0)
    total = w.node("Cast", [whole], ["total_seq_len"], to=TensorProto.INT32)
    packed, scales = w.bits("embedding", s.words, s.hidden, 0.5)
    flat = next(t for t in w.weights if t.name == packed)
    flat.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(flat).reshape(s.words, -1), packed))
    attributes: dict[str, Any] = dict(bits=4, block_size=s.block, gather_axis=0, quantize_axis=1)
    x = w.node("GatherBlockQuantized", [packed, "input_ids", scales], ["embedded"], MICROSOFT, **attributes)
    skip, caches = "", list[str]()
    for i in range(s.layers):
        at = f"layer{i}"
        normal, x = w.normalised(x, skip, f"{at}.input_norm")
        q, k, v = (
            w.product(normal, f"{at}.{name}", s.hidden, heads * s.head)
            for name, heads in (("q", s.heads), ("k", s.key_heads), ("v", s.key_heads))
        )
        past = [f"past_key_values.{i}.{name}" for name in ("key", "value")]
        present = [f"present.{i}.{name}" for name in ("key", "value")]
        caches += past
        of_heads: dict[str, Any] = dict(num_heads=s.heads, kv_num_heads=s.key_heads, do_rotary=1)
        inputs = [q, k, v, *past, lengths, total, "cosines", "sines"]
        attended = w.node("GroupQueryAttention", inputs, [f"{at}.attended", *present], MICROSOFT, **of_heads)
        out = w.product(attended, f"{at}.o", s.hidden, s.hidden)
        normal, x = w.normalised(x, out, f"{at}.post_norm")
        gate, up = (w.product(normal, f"{at}.{name}", s.hidden, s.wide) for name in ("gate", "up"))
        silu = w.node("Mul", [gate, w.node("Sigmoid", [gate], [f"{at}.sigmoid"])], [f"{at}.silu"])
        skip = w.product(w.node("Mul", [silu, up], [f"{at}.swiglu"]), f"{at}.down", s.wide, s.hidden)
    normal, _ = w.normalised(x, skip, "final_norm")
    w.product(normal, "logits", s.hidden, s.words)
    of_cache: list[str | int | None] = ["batch", s.key_heads, s.rows, s.head]
    tensor = helper.make_tensor_value_info
    given = [tensor("input_ids", TensorProto.INT64, ["batch", "length"])]
    given += [tensor("attention_mask", TensorProto.INT64, ["batch", "total"])]
    given += [tensor(name, TensorProto.FLOAT, of_cache) for name in caches]
    made = [tensor("logits", TensorProto.FLOAT, ["batch", "length", s.words])]
    made += [tensor(name.replace("past_key_values", "present"), TensorProto.FLOAT, of_cache) for name in caches]
    graph = helper.make_graph(w.nodes, "decoder", given, made, w.weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def caches(sizes: DecoderSizes, batch: int) -> dict[str, Array]:
    """Empty caches, by the names of the inputs."""
    names = [f"past_key_values.{i}.{name}" for i in range(sizes.layers) for name in ("key", "value")]
    return {name: np.zeros((batch, sizes.key_heads, sizes.rows, sizes.head), np.float32) for name in names}


def inputs(sizes: DecoderSizes, tokens: Array, before: int) -> dict[str, Array]:
    """The inputs beside the caches, for tokens {batch, length} that follow so many."""
    mask = np.zeros((len(tokens), sizes.rows), np.int64)
    mask[:, : before + tokens.shape[1]] = 1
    return {"input_ids": tokens.astype(np.int64), "attention_mask": mask}


class Generated(NamedTuple):
    """tokens {batch, count}; logits {count, batch, words}, from which they were chosen; caches, after the last token."""

    tokens: Array
    logits: Array
    caches: dict[str, Array]


class Held:
    """A step of a decoder, bound to its own arrays. tokens: its input; logits: its output; caches: are written in place."""

    def __init__(
        self, model: Any, sizes: DecoderSizes, tokens: Array, device: Any, kept: Mapping[str, Array] | None = None
    ) -> None:
        self.caches = dict(kept) if kept is not None else caches(sizes, len(tokens))
        given = inputs(sizes, tokens, 0)
        self.tokens, self.mask = given["input_ids"], given["attention_mask"]
        presents = {name.replace("past_key_values", "present"): x for name, x in self.caches.items()}
        self.bound = model.bind({**given, **self.caches, **presents}, device=device)
        self.logits: Array = self.bound.arrays["logits"]

    def step(self, before: int) -> Array:
        """The logits of the last token, for tokens that follow so many."""
        self.mask[:, : before + self.tokens.shape[1]] = 1
        self.bound.run()
        return self.logits[:, -1]


def generated(model: Any, sizes: DecoderSizes, prompt: Array, count: int, device: Any, at_once: int) -> Generated:
    """`count` tokens after a prompt, each the most probable; at_once: tokens of the prompt that are computed at once."""
    one = Held(model, sizes, prompt[:, :1], device)
    held, before = {1: one}, 0
    logits = np.empty(0)
    while before < prompt.shape[1]:
        part = prompt[:, before : before + at_once]
        if (length := part.shape[1]) not in held:
            held[length] = Held(model, sizes, part, device, one.caches)
        held[length].tokens[:] = part
        logits = held[length].step(before)
        before += length
    tokens, found = [], []
    for _ in range(count):
        found.append(logits.copy())
        tokens.append(logits.argmax(-1))
        one.tokens[:, 0] = tokens[-1]
        logits = one.step(before)
        before += 1
    return Generated(np.array(tokens).T, np.array(found), one.caches)
