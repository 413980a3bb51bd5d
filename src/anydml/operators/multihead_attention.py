"""DML_OPERATOR_MULTIHEAD_ATTENTION1 and its older version MULTIHEAD_ATTENTION: attention of several heads.

Sources: ns-directml-dml_multihead_attention1_operator_desc, ns-directml-dml_multihead_attention_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.attention import Attention, head_sizes
from anydml.operators.shared.attention_rules import Heads, attention_outputs, attention_rules
from anydml.operators.shared.vocabulary import *

PLAIN = "QueryTensor KeyTensor ValueTensor OutputTensor"
STACKED = "StackedQueryKeyTensor StackedKeyValueTensor StackedQueryKeyValueTensor"
CACHED = "RelativePositionBiasTensor PastKeyTensor PastValueTensor OutputPresentKeyTensor OutputPresentValueTensor"
FLOAT_TENSORS = f"{PLAIN} {STACKED} BiasTensor {CACHED}"
INT32 = DataType.INT32

QUERY = "The queries, {.., BatchSize, Queries, Heads * HeadSize}."
KEY = "The keys, {.., BatchSize, Keys, Heads * HeadSize}."
VALUE = "The values, {.., BatchSize, Keys, Heads * ValueHeadSize}."
QUERY_KEY = "Queries and keys, {BatchSize, Queries, Heads, 2, HeadSize}."
KEY_VALUE = "Keys and values, {BatchSize, Keys, Heads, 2, HeadSize}."
ALL_THREE = "Queries, keys and values, {BatchSize, Queries, Heads, 3, HeadSize}."
BIAS = "Biases of the new queries, keys and values, one after another; 0 if absent."
MASK = "The mask, as MaskType says."
RELATIVE = "Numbers added to the scores, {.., BatchSize, Heads, Queries, Keys}; 0 if absent."
PAST_KEY = "Keys before the new ones, {.., BatchSize, Heads, PastKeys, HeadSize}."
PAST_VALUE = "Values before the new ones, {.., BatchSize, Heads, PastKeys, ValueHeadSize}."
OUTPUT = "The results, {.., BatchSize, Queries, Heads * ValueHeadSize}."
PRESENT_KEY, PRESENT_VALUE = "The keys of the past and the new ones.", "The values of the past and the new ones."
SCALE, FILTER = "The factor of the scores.", "A number added to the scores that the mask leaves out."
MASK_TYPE = "The meaning of the mask."

ERRATA = (
    "The page says both that a score that the mask leaves out is set to MaskFilterValue, and that this is added: it is added.",
    "The page does not say that a mask counts the keys of the past, too: it does, from the first of them (our decision).",
    "The page does not say what the queries' starts and ends of KEY_QUERY_SEQUENCE_LENGTH_START_END do; lengths of keys alone "
    "count (our decision).",
    "The page asks for a tensor of keys and one of values; clients leave both out and have them all in PastKeyTensor and "
    "PastValueTensor, which is legal.",
    "The page does not say whether the mask's sizes are broadcast from the right: they are, where MaskType is BOOLEAN.",
    "The page prints the head size of keys for PastValueTensor, too; it is that of values.",
)


def rows(level: str, *, lengths: bool = False) -> tuple[Support, ...]:
    found = (
        support(level, PLAIN, (3, 5), FLOATS),
        support(level, STACKED, (5, 5), FLOATS),
        support(level, "BiasTensor", (1, 5), FLOATS),
        support(level, "MaskTensor", (1, 5), (INT32,)),
        support(level, CACHED, (4, 5), FLOATS),
    )
    return (*found, support(level, "PastSequenceLengthsTensor", (1, 5), (INT32,))) if lengths else found


def float32(*sizes: int) -> TensorDesc:
    return TensorDesc(DataType.FLOAT32, sizes)


def array(values: Any, *sizes: int) -> NDArray[Any]:
    return np.array(values, np.float32).reshape(sizes)


IDENTITY, ONE_TO_FOUR = array([1, 0, 0, 1], 1, 2, 2), array([1, 2, 3, 4], 1, 2, 2)
ROOT = 0.5**0.5


def example(title: str, inputs: dict[str, Any], outputs: dict[str, Any], **fields: Any) -> Example:
    """Tensors as they are given, and one head."""
    arrays = {**inputs, **outputs}
    return Example(title, {n: TensorDesc.of(a) for n, a in arrays.items()} | dict(scale=ROOT) | fields, inputs, outputs)


SEPARATE = dict(query_tensor=IDENTITY, key_tensor=IDENTITY, value_tensor=ONE_TO_FOUR)
MASKED = SEPARATE | dict(mask_tensor=np.array([[1]], np.int32))
PRESENT_ONE = array([1, 0], 1, 1, 1, 2)
FULL: dict[str, Any] = dict(
    query_tensor=IDENTITY,
    key_tensor=IDENTITY,
    value_tensor=ONE_TO_FOUR,
    bias_tensor=array([0, 0, 0, 0, 1, 1], 6),
    mask_tensor=np.array([[1, 1, 0]], np.int32),
    relative_position_bias_tensor=array([0, 1, 0, 1, 0, 0], 1, 1, 2, 3),
    past_key_tensor=array([0, 1], 1, 1, 1, 2),
    past_value_tensor=array([5, 6], 1, 1, 1, 2),
)
MIXED = array([2.460618, 3.460618, 4.539382, 5.539382], 1, 2, 2)


def examples_of(**heads: Any) -> tuple[Example, ...]:
    stacked = dict(mask_type="NONE", **heads)
    rows = array([1.6604769, 2.6604769, 2.3395231, 3.3395231], 1, 2, 2)
    return (
        example(
            "A bias, a mask, terms of the scores, and a past", FULL,
            dict(
                output_tensor=MIXED, output_present_key_tensor=array([0, 1, 1, 0, 0, 1], 1, 1, 3, 2),
                output_present_value_tensor=array([5, 6, 2, 3, 4, 5], 1, 1, 3, 2),
            ),
            mask_type="BOOLEAN", mask_filter_value=-10000.0, **heads,
        ),
        example("Two queries, keys and values", SEPARATE, dict(output_tensor=rows), **stacked),
        example(
            "One key of two", MASKED, dict(output_tensor=array([1, 2, 1, 2], 1, 2, 2)), mask_type="KEY_SEQUENCE_LENGTH",
            mask_filter_value=-10000.0, **heads,
        ),
        example(
            "Queries and keys stacked",
            dict(stacked_query_key_tensor=array([1, 0, 1, 0, 0, 1, 0, 1], 1, 2, 1, 2, 2), value_tensor=ONE_TO_FOUR),
            dict(output_tensor=rows), **stacked,
        ),
        example(
            "Keys and values stacked",
            dict(query_tensor=IDENTITY, stacked_key_value_tensor=array([1, 0, 1, 2, 0, 1, 3, 4], 1, 2, 1, 2, 2)),
            dict(output_tensor=rows), **stacked,
        ),
        example(
            "All three stacked",
            dict(stacked_query_key_value_tensor=array([1, 0, 1, 0, 1, 2, 0, 1, 0, 1, 3, 4], 1, 2, 1, 3, 2)),
            dict(output_tensor=rows), **stacked,
        ),
        example(
            "Keys and values of the past alone",
            dict(query_tensor=IDENTITY, past_key_tensor=IDENTITY[None], past_value_tensor=ONE_TO_FOUR[None]),
            dict(output_tensor=rows), **stacked,
        ),
    )  # fmt: skip


BARE: dict[str, Any] = dict(
    bias_tensor=None, mask_tensor=None, relative_position_bias_tensor=None, past_key_tensor=None, past_value_tensor=None,
    output_present_key_tensor=None, output_present_value_tensor=None, mask_type="NONE",
)  # fmt: skip


def rejecting_of() -> tuple[Rejects, ...]:
    bad = float32(1, 2, 1, 2, 2)
    return (
        rejects("one_query", stacked_query_key_tensor=bad, key_tensor=None),
        rejects("one_key", stacked_query_key_tensor=bad, query_tensor=None),
        rejects("one_value", stacked_key_value_tensor=bad, key_tensor=None),
        rejects("keys_with_values", value_tensor=None),
        rejects("past_together", past_value_tensor=None),
        rejects("keys_present", key_tensor=None, value_tensor=None, **BARE),
        rejects("output_sizes", output_tensor=float32(2, 1, 2, 2)),
        rejects("query_sizes", query_tensor=float32(1, 3, 2)),
        rejects("key_sizes", key_tensor=float32(2, 2, 2)),
        rejects("value_sizes", value_tensor=float32(2, 2, 2)),
        rejects("stacked_query_key_sizes", query_tensor=None, key_tensor=None,
                stacked_query_key_tensor=float32(1, 2, 1, 3, 2)),
        rejects("stacked_key_value_sizes", key_tensor=None, value_tensor=None,
                stacked_key_value_tensor=float32(1, 2, 1, 3, 2)),
        rejects("stacked_query_key_value_sizes", query_tensor=None, key_tensor=None, value_tensor=None,
                stacked_query_key_value_tensor=float32(1, 2, 1, 2, 2)),
        rejects("past_key_sizes", past_key_tensor=float32(2, 1, 1, 2)),
        rejects("past_value_sizes", past_value_tensor=float32(2, 1, 1, 2)),
        rejects("output_present_key_sizes", output_present_key_tensor=float32(2, 1, 3, 2)),
        rejects("output_present_value_sizes", output_present_value_tensor=float32(2, 1, 3, 2)),
        rejects("lengths_match", value_tensor=float32(1, 3, 2)),
        rejects("past_lengths_match", past_value_tensor=float32(1, 1, 2, 2)),
        rejects("output_present_key_length", output_present_key_tensor=float32(1, 1, 2, 2)),
        rejects("output_present_value_length", output_present_value_tensor=float32(1, 1, 2, 2)),
        rejects("head_sizes_match", output_present_key_tensor=float32(1, 1, 3, 3)),
        rejects("value_head_sizes_match", output_present_value_tensor=float32(1, 1, 3, 3)),
        rejects("bias_sizes", bias_tensor=float32(5)),
        rejects("mask_where_its_type", mask_tensor=None),
        rejects("mask_sizes", mask_tensor=TensorDesc(INT32, (1, 2))),
        rejects("relative_position_bias_sizes", relative_position_bias_tensor=float32(1, 1, 2, 2)),
    )  # fmt: skip


@operator("DML_OPERATOR_MULTIHEAD_ATTENTION1", 172, since=FeatureLevel.FL_6_3)
class MultiheadAttention1(Desc):
    """Computes attention of several heads: Output = softmax(Scale * Q K + RelativePositionBias + mask) V, for each head.

    Q, K and V are the queries, keys and values, plus their parts of Bias; keys and values of the past come before the new
    ones. Q K is the sum of products over the elements of a head, and the softmax runs over the keys. Head n of the queries uses
    head n * KeyValueHeadCount / QueryHeadCount, rounded down, of the keys and values. With PastSequenceLengths L, the new keys
    follow the first L past keys, and query i sees keys up to L + i. The result is exact, and rounded once.
    """

    query_tensor: TensorDesc | None = field.input("QueryTensor", QUERY, default=None)
    key_tensor: TensorDesc | None = field.input("KeyTensor", KEY, default=None)
    value_tensor: TensorDesc | None = field.input("ValueTensor", VALUE, default=None)
    stacked_query_key_tensor: TensorDesc | None = field.input("StackedQueryKeyTensor", QUERY_KEY, default=None)
    stacked_key_value_tensor: TensorDesc | None = field.input("StackedKeyValueTensor", KEY_VALUE, default=None)
    stacked_query_key_value_tensor: TensorDesc | None = field.input("StackedQueryKeyValueTensor", ALL_THREE, default=None)
    bias_tensor: TensorDesc | None = field.input("BiasTensor", BIAS, default=None)
    mask_tensor: TensorDesc | None = field.input("MaskTensor", MASK, default=None)
    relative_position_bias_tensor: TensorDesc | None = field.input("RelativePositionBiasTensor", RELATIVE, default=None)
    past_key_tensor: TensorDesc | None = field.input("PastKeyTensor", PAST_KEY, default=None)
    past_value_tensor: TensorDesc | None = field.input("PastValueTensor", PAST_VALUE, default=None)
    past_sequence_lengths_tensor: TensorDesc | None = field.input(
        "PastSequenceLengthsTensor",
        "The number of past keys used in each batch, {.., BatchSize}; if absent, all.",
        default=None,
    )
    output_tensor: TensorDesc = field.output("OutputTensor", OUTPUT)
    output_present_key_tensor: TensorDesc | None = field.output("OutputPresentKeyTensor", PRESENT_KEY, default=None)
    output_present_value_tensor: TensorDesc | None = field.output("OutputPresentValueTensor", PRESENT_VALUE, default=None)
    scale: float = field.attribute("Scale", field.FLOAT, SCALE)
    mask_filter_value: float = field.attribute("MaskFilterValue", field.FLOAT, FILTER, default=-10000.0)
    query_head_count: int = field.attribute("QueryHeadCount", field.UINT, "The number of query heads.")
    key_value_head_count: int = field.attribute("KeyValueHeadCount", field.UINT, "The number of key and value heads.")
    mask_type: MultiheadAttentionMaskType = field.attribute(
        "MaskType", field.MULTIHEAD_ATTENTION_MASK_TYPE, MASK_TYPE, default=MultiheadAttentionMaskType.NONE
    )

    eager = defaults(
        scale=("1 / sqrt(HeadSize)", lambda d: head_sizes(d, (d.query_head_count, d.key_value_head_count))[0] ** -0.5)
    )

    rows = rows("6_3", lengths=True)
    same = same("DataType", FLOAT_TENSORS)
    attention = attention_rules(Heads("QueryHeadCount", "KeyValueHeadCount"))

    @constraint(
        "`KeyValueHeadCount` must equal `QueryHeadCount` where `StackedQueryKeyTensor` is there, or "
        "`StackedQueryKeyValueTensor`."
    )
    def stacked_heads(d) -> bool:
        stacked = {d.stacked_query_key_tensor, d.stacked_query_key_value_tensor} != {None}
        return not stacked or d.key_value_head_count == d.query_head_count

    @constraint("`PastSequenceLengthsTensor` must not be there without `PastKeyTensor`.")
    def lengths_with_past(d) -> bool:
        return d.past_sequence_lengths_tensor is None or d.past_key_tensor is not None

    @constraint(
        "`PastSequenceLengthsTensor.Sizes` must be 1 before the last, which must be the batch size of `OutputTensor.Sizes`."
    )
    def past_sequence_lengths_sizes(d) -> bool:
        t = d.past_sequence_lengths_tensor
        return t is None or (t.sizes[-1] == d.output_tensor.sizes[-3] and all(n == 1 for n in t.sizes[:-1]))

    def outputs(d) -> Outputs:
        return attention_outputs(d, (d.query_head_count, d.key_value_head_count))

    def statement(d, *inputs: Tensor | None) -> tuple[Nest, Nest | None, Nest | None]:
        made = Attention(d, dict(zip([f.wire for f in d.spec.inputs], inputs, strict=True)))
        keys, values = d.output_present_key_tensor, d.output_present_value_tensor
        return (
            made.output(),
            None if keys is None else made.present(keys.sizes, made.key),
            None if values is None else made.present(values.sizes, made.value),
        )

    examples = (
        *examples_of(query_head_count=1, key_value_head_count=1),
        example(
            "Two heads of queries with the same keys, of which one of two of the past counts",
            dict(
                query_tensor=array([1, 0, 0, 1, 0, 1, 1, 0], 1, 2, 4), key_tensor=IDENTITY, value_tensor=ONE_TO_FOUR,
                past_key_tensor=IDENTITY[None], past_value_tensor=ONE_TO_FOUR[None],
                past_sequence_lengths_tensor=np.array([1], np.int32),
            ),
            dict(
                output_tensor=array([1, 2, 1, 2, 2.0069797, 3.0069797, 1.3955517, 2.3955517], 1, 2, 4),
                output_present_key_tensor=array([1, 0, 1, 0, 0, 1, 0, 0], 1, 1, 4, 2),
                output_present_value_tensor=array([1, 2, 1, 2, 3, 4, 0, 0], 1, 1, 4, 2),
            ),
            query_head_count=2, key_value_head_count=1,
        ),
    )  # fmt: skip
    rejecting = (
        rejects("head_counts", key_value_head_count=2, key_tensor=float32(1, 2, 4), value_tensor=float32(1, 2, 4), **BARE),
        *rejecting_of(),
        rejects("stacked_heads", query_tensor=None, key_tensor=None, stacked_query_key_tensor=float32(1, 2, 2, 2, 2),
                query_head_count=2, bias_tensor=None, relative_position_bias_tensor=None,
                output_tensor=float32(1, 2, 4)),
        rejects("lengths_with_past", past_key_tensor=None, past_value_tensor=None,
                past_sequence_lengths_tensor=TensorDesc(INT32, (1,)), output_present_key_tensor=None,
                output_present_value_tensor=None, relative_position_bias_tensor=None, mask_tensor=None, mask_type="NONE"),
        rejects("past_sequence_lengths_sizes", past_sequence_lengths_tensor=TensorDesc(INT32, (2,))),
    )  # fmt: skip
    errata = (
        *ERRATA,
        "The page says nothing about PastSequenceLengthsTensor but TBD, and has it among tensors of one type: it is INT32, as "
        "clients have it. The first so many keys of the past count, new keys follow them, each query sees keys up to its own, "
        "and the present has zeros at its end; a length beyond the past counts as that (our decision).",
        "Clients leave PastKeyTensor out there, and have the past in the outputs; outputs are written alone here.",
    )


@operator("DML_OPERATOR_MULTIHEAD_ATTENTION", 164, since=FeatureLevel.FL_6_1)
class MultiheadAttention(Desc):
    """Computes attention of several heads: Output = softmax(Scale * Q K + RelativePositionBias + mask) V, for each head.

    It is MULTIHEAD_ATTENTION1 with as many heads of keys and values as of queries.
    """

    query_tensor: TensorDesc | None = field.input("QueryTensor", QUERY, default=None)
    key_tensor: TensorDesc | None = field.input("KeyTensor", KEY, default=None)
    value_tensor: TensorDesc | None = field.input("ValueTensor", VALUE, default=None)
    stacked_query_key_tensor: TensorDesc | None = field.input("StackedQueryKeyTensor", QUERY_KEY, default=None)
    stacked_key_value_tensor: TensorDesc | None = field.input("StackedKeyValueTensor", KEY_VALUE, default=None)
    stacked_query_key_value_tensor: TensorDesc | None = field.input("StackedQueryKeyValueTensor", ALL_THREE, default=None)
    bias_tensor: TensorDesc | None = field.input("BiasTensor", BIAS, default=None)
    mask_tensor: TensorDesc | None = field.input("MaskTensor", MASK, default=None)
    relative_position_bias_tensor: TensorDesc | None = field.input("RelativePositionBiasTensor", RELATIVE, default=None)
    past_key_tensor: TensorDesc | None = field.input("PastKeyTensor", PAST_KEY, default=None)
    past_value_tensor: TensorDesc | None = field.input("PastValueTensor", PAST_VALUE, default=None)
    output_tensor: TensorDesc = field.output("OutputTensor", OUTPUT)
    output_present_key_tensor: TensorDesc | None = field.output("OutputPresentKeyTensor", PRESENT_KEY, default=None)
    output_present_value_tensor: TensorDesc | None = field.output("OutputPresentValueTensor", PRESENT_VALUE, default=None)
    scale: float = field.attribute("Scale", field.FLOAT, SCALE)
    mask_filter_value: float = field.attribute("MaskFilterValue", field.FLOAT, FILTER, default=-10000.0)
    head_count: int = field.attribute("HeadCount", field.UINT, "Heads.")
    mask_type: MultiheadAttentionMaskType = field.attribute(
        "MaskType", field.MULTIHEAD_ATTENTION_MASK_TYPE, MASK_TYPE, default=MultiheadAttentionMaskType.NONE
    )

    eager = defaults(scale=("1 / sqrt(HeadSize)", lambda d: head_sizes(d, (d.head_count, d.head_count))[0] ** -0.5))

    rows = rows("6_1")
    same = same("DataType", FLOAT_TENSORS)
    attention = attention_rules(Heads("HeadCount", "HeadCount"))

    def as_newest(d) -> MultiheadAttention1:
        same = {f.name: getattr(d, f.name) for f in d.spec.fields if f.wire != "HeadCount"}
        return MultiheadAttention1(**same, query_head_count=d.head_count, key_value_head_count=d.head_count)

    def outputs(d) -> Outputs:
        return attention_outputs(d, (d.head_count, d.head_count))

    examples = examples_of(head_count=1)
    rejecting = (rejects("head_counts", head_count=0, **BARE), *rejecting_of())
    errata = ERRATA
