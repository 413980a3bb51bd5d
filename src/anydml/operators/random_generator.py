"""DML_OPERATOR_RANDOM_GENERATOR: random bits that a state determines.

Sources: ns-directml-dml_random_generator_operator_desc, ne-directml-dml_random_generator_type.
"""

from __future__ import annotations

import math

from anydml.operators.shared.vocabulary import *

ALL = "InputStateTensor OutputTensor OutputStateTensor"
WORD = 2**32


def uint32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.UINT32, sizes)


def joined(state: Tensor, first: int, count: int) -> Expr:
    """Words of the state as one integer, the first the least significant."""
    places = [(*[0] * (len(state.sizes) - 1), first + w) for w in range(count)]
    low, *higher = (state[at] * WORD**w if w else state[at] for w, at in enumerate(places))
    return index(sum(higher, start=low))


@operator("DML_OPERATOR_RANDOM_GENERATOR", 132, since=FeatureLevel.FL_3_0)
class RandomGenerator(Desc):
    """Fills a tensor with random bits: element k in row-major order is word k mod 4 of Philox 4x32-10 at step k // 4.

    The state is a counter of four words, least significant first, and a key of two words. Step n uses the counter + n, modulo
    2^128, and the same key. The output state has the counter after the last step, at which the next call continues.
    """

    input_state_tensor: TensorDesc = field.input("InputStateTensor", "The state {1, 1, 1, 6}: counter and key.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The random bits.")
    output_state_tensor: TensorDesc | None = field.output(
        "OutputStateTensor", "The state to go on from, as large as the input state.", default=None
    )
    type: RandomGeneratorType = field.attribute(
        "Type", field.RANDOM_GENERATOR_TYPE, "The generator.", default=RandomGeneratorType.PHILOX_4X32_10
    )

    rows = (support("3_0", ALL, (4, 4), (DataType.UINT32,)), support("4_0", ALL, (1, 8), (DataType.UINT32,)))
    same = same("DimensionCount Sizes", "InputStateTensor OutputStateTensor")

    @constraint(
        "`InputStateTensor.Sizes` must be 6 after ones: a counter of four words and a key of two.",
        expected=lambda d: {"InputStateTensor.Sizes": (*(1,) * (len(d.input_state_tensor.sizes) - 1), 6)},
    )
    def state_of_six(d) -> bool:
        *leading, last = d.input_state_tensor.sizes
        return last == 6 and all(n == 1 for n in leading)

    def outputs(d) -> Outputs:
        return {"output_state_tensor": (d.input_state_tensor.sizes, DataType.UINT32)}

    def statement(d, state: Tensor) -> tuple[Nest, Nest | None]:
        i = each(d.output_tensor.sizes)
        k = row_major(i, d.output_tensor.sizes)
        counter, key = joined(state, 0, 4), joined(state, 4, 2)
        bits = nest(i, philox(counter + k // 4, key, k % 4))
        if d.output_state_tensor is None:
            return bits, None
        j = each(state.sizes)
        after = counter + (math.prod(d.output_tensor.sizes) + 3) // 4
        words = [after // WORD**w % WORD for w in range(4)]
        return bits, nest(j, pieces(j[-1], range(5), [*words, state[j]]))

    examples = (
        Example(
            "The first five words from a counter of 0 with the key 1, 2, and the state after two steps",
            dict(input_state_tensor=uint32(1, 1, 1, 6), output_tensor=uint32(5), output_state_tensor=uint32(1, 1, 1, 6)),
            dict(input_state_tensor=np.array([[[[0, 0, 0, 0, 1, 2]]]], np.uint32)),
            dict(
                output_tensor=np.array([93904442, 2563932206, 655331230, 3937864147, 1593998110], np.uint32),
                output_state_tensor=np.array([[[[2, 0, 0, 0, 1, 2]]]], np.uint32),
            ),
        ),
        Example(
            "Random123's known answer, without the state afterwards",
            dict(input_state_tensor=uint32(6), output_tensor=uint32(4)),
            dict(
                input_state_tensor=np.array([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0], np.uint32)
            ),
            dict(output_tensor=np.array([0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1], np.uint32)),
        ),
    )
    rejecting = (rejects("state_of_six", input_state_tensor=uint32(1, 1, 1, 7), output_state_tensor=uint32(1, 1, 1, 7)),)
    errata = (
        "The page's example of a counter after 324855 steps shows one that is 324855 less; the counter grows.",
        "The page does not say which word of the counter is the least significant: the first (our decision).",
        "The page does not say what follows the largest counter: it wraps modulo 2^128 (our decision).",
    )
