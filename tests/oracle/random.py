"""RANDOM_GENERATOR: Philox 4x32-10, word by word."""

from __future__ import annotations

from math import prod

import numpy as np

from .activation import Attributes, Inputs, Outputs, Results

WORD = 2**32


def philox(counter: int, key: tuple[int, int]) -> list[int]:
    """Four words from a counter of 128 bits and a key of two words."""
    c0, c1, c2, c3 = (counter >> 32 * word & WORD - 1 for word in range(4))
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, WORD)
        high1, low1 = divmod(0xCD9E8D57 * c2, WORD)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % WORD, (k1 + 0xBB67AE85) % WORD
    return [c0, c1, c2, c3]


def generate(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    state = inputs["input_state_tensor"]
    *words, k0, k1 = state.ravel().tolist()
    counter = sum(word << 32 * place for place, word in enumerate(words))
    sizes, dtype = outputs["output_tensor"]
    count = prod(sizes)
    steps = -(-count // 4)
    drawn = [word for step in range(steps) for word in philox((counter + step) % WORD**4, (k0, k1))]
    after = (counter + steps) % WORD**4
    results = {"output_tensor": np.array(drawn[:count], dtype).reshape(sizes)}
    if "output_state_tensor" in outputs:
        state_sizes, state_type = outputs["output_state_tensor"]
        advanced = [after >> 32 * word & WORD - 1 for word in range(4)]
        results["output_state_tensor"] = np.array([*advanced, k0, k1], state_type).reshape(state_sizes)
    return results


OPERATORS = {"RANDOM_GENERATOR": generate}
