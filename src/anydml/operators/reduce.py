"""DML_OPERATOR_REDUCE: one of twelve reductions along chosen axes.

Sources: ns-directml-dml_reduce_operator_desc, ne-directml-dml_reduce_function.
"""

from __future__ import annotations

from math import inf

from anydml.operators.shared.vocabulary import *
from anydml.rule_messages import listed

F = ReduceFunction
BOTH = "InputTensor OutputTensor"
ARGUMENTS = (F.ARGMAX, F.ARGMIN)
UINT32, INT8, INT64 = DataType.UINT32, DataType.INT8, DataType.INT64


def taken(functions: str, data_types: tuple[DataType, ...], before: str = "") -> Constraint:
    """The data types of some functions, where the table of all twelve has more."""
    among = tuple(ReduceFunction[name] for name in functions.split())
    level = FeatureLevel.parse(before) if before else None
    below = f" below feature level {before}" if before else ""
    types, names = listed([t.name for t in data_types]), listed(functions.split())
    taken_here = extended(data_types)  # where the level has them at all
    return Constraint(
        f"{'_'.join(functions.lower().split())}_data_type{before and '_before_' + before}",
        f"`InputTensor.DataType` must be {types} where `Function` is {names}{below}.",
        lambda d: d.function not in among or d.input_tensor.data_type in taken_here,
        expected=lambda d: {"InputTensor.DataType": list(data_types)},
        before=level,
    )


def log_sum_exp(k: Indices, x: Expr) -> Expr:
    """ln(sum of e^x): the largest x is its limit at infinities."""
    largest = Max(k, x)
    return at_limits(largest, log(Sum(k, exp(x - largest))) + largest, low=-inf, high=inf)


FORMULAS: dict[ReduceFunction, Callable[[Indices, Expr], Expr]] = {
    F.ARGMAX: first_largest,
    F.ARGMIN: first_smallest,
    F.AVERAGE: Mean,
    F.L1: lambda k, x: Sum(k, absolute(x)),
    F.L2: lambda k, x: sqrt(Sum(k, x * x)),
    F.LOG_SUM: lambda k, x: log(Sum(k, x)),
    F.LOG_SUM_EXP: log_sum_exp,
    F.MAX: Max,
    F.MIN: Min,
    F.MULTIPLY: Product,
    F.SUM: Sum,
    F.SUM_SQUARE: lambda k, x: Sum(k, x * x),
}


def tensor(data_type: DataType, *sizes: int) -> TensorDesc:
    return TensorDesc(data_type, sizes)


def float32(*values: Any) -> NDArray[Any]:
    return np.array([[values]], np.float32)


ROW, ONE = tensor(DataType.FLOAT32, 1, 1, 1, 3), tensor(DataType.FLOAT32, 1, 1, 1, 1)
SQUARE = tensor(DataType.FLOAT32, 1, 1, 3, 3)
PAGE = float32([1, 2, 3], [3, 0, 4], [2, 4, 2])


def along(function: str, want: Any, axes: tuple[int, ...], *sizes: int) -> Example:
    return Example(
        f"Page: SUM along axes {axes}",
        dict(function=function, input_tensor=SQUARE, output_tensor=tensor(DataType.FLOAT32, *sizes), axes=axes),
        dict(input_tensor=PAGE),
        np.array(want, np.float32).reshape(sizes),
    )


def of_three(function: str, want: Any, data_type: DataType = DataType.FLOAT32) -> Example:
    return Example(
        f"{function} of 1, 2, 3",
        dict(function=function, input_tensor=ROW, output_tensor=tensor(data_type, 1, 1, 1, 1), axes=(3,)),
        dict(input_tensor=float32([1, 2, 3])),
        np.array(want, data_type.dtype).reshape(1, 1, 1, 1),
    )


def refused(constraint: str, function: str, data_type: DataType, at: str = "6_4", output: DataType | None = None) -> Rejects:
    """A function that does not take a type that others do."""
    to = tensor(output or data_type, 1, 1, 1, 3)
    return Rejects(
        constraint,
        dict(function=function, input_tensor=tensor(data_type, 1, 1, 3, 3), output_tensor=to),
        FeatureLevel.parse(at),
    )


@operator("DML_OPERATOR_REDUCE", 55, since=FeatureLevel.FL_1_0)
class Reduce(Desc):
    """Reduces the elements along all listed axes together to one, by one of twelve functions.

    ARGMAX and ARGMIN give the row-major position of the first NaN, else of the first extreme element. Sums and products of
    integers wrap modulo 2^bits. Results of floats are exact and rounded once.
    """

    function: ReduceFunction = field.attribute("Function", field.REDUCE_FUNCTION, "The function.")
    input_tensor: TensorDesc = field.input("InputTensor", "The elements to reduce.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results; reduced axes have size 1.")
    axis_count: int | None = field.count("AxisCount", "Entries of Axes.", default=None)
    axes: tuple[int, ...] = field.attribute("Axes", field.UINT, "The axes that are reduced.", sized_by="AxisCount")

    eager = defaults(axes=("all", lambda d: range(d.input_tensor.dimension_count)))

    rows = (  # of all functions together; the rules have each one's own
        support("1_0", "InputTensor", (4, 4), FLOATS),
        support("1_0", "OutputTensor", (4, 4), (*FLOATS, UINT32)),
        support("2_1", "InputTensor", (4, 4), EIGHT),
        support("2_1", "OutputTensor", (4, 4), WORDS),
        support("3_0", "InputTensor", (1, 8), EIGHT),
        support("3_0", "OutputTensor", (1, 8), TEN),
        support("4_1", "InputTensor", (1, 8), TEN),
    )
    same = same("DimensionCount", BOTH)
    axis_rules = axis_rules()

    @constraint(
        "`OutputTensor.Sizes` must be `InputTensor.Sizes` with 1 at each of `Axes`.",
        expected=lambda d: {"OutputTensor.Sizes": reduced(d)},
        breaks=lambda d: {"output_tensor": d.input_tensor},
    )
    def output_sizes(d) -> bool:
        if len(d.output_tensor.sizes) != len(d.input_tensor.sizes) or not d.axes:
            raise ValueError("another rule is broken, so that sizes cannot be compared")
        return d.output_tensor.sizes == reduced(d)

    @constraint(
        "`OutputTensor.DataType` must equal `InputTensor.DataType` unless `Function` is ARGMAX or ARGMIN.",
        expected=lambda d: {"OutputTensor.DataType": d.input_tensor.data_type},
    )
    def same_data_type(d) -> bool:
        return d.function in ARGUMENTS or d.output_tensor.data_type == d.input_tensor.data_type

    @constraint(
        "`OutputTensor.DataType` must be UINT32, INT32, UINT64 or INT64 where `Function` is ARGMAX or ARGMIN.",
        expected=lambda d: {"OutputTensor.DataType": list(INDICES)},
    )
    def argument_data_type(d) -> bool:
        return d.function not in ARGUMENTS or d.output_tensor.data_type in INDICES

    @constraint(
        "`OutputTensor.DataType` must be UINT32 where `Function` is ARGMAX or ARGMIN below feature level 3_0.",
        expected=lambda d: {"OutputTensor.DataType": UINT32},
        before=FeatureLevel.FL_3_0,
    )
    def argument_data_type_before_3_0(d) -> bool:
        return d.function not in ARGUMENTS or d.output_tensor.data_type not in INDICES[1:]

    floats = taken("AVERAGE L2 LOG_SUM LOG_SUM_EXP", FLOATS)
    first_sums = taken("L1 SUM_SQUARE", FLOATS, "5_0")
    sums = taken("L1 SUM_SQUARE MULTIPLY SUM", (*WORDS, *SIXTY_FOUR))
    first_products = taken("MULTIPLY SUM", WORDS, "5_0")
    extremes = taken("MIN MAX", EIGHT, "5_0")

    def outputs(d) -> Outputs:
        return {"output_tensor": (reduced(d), UINT32 if d.function in ARGUMENTS else d.input_tensor.data_type)}

    def statement(d, x: Tensor) -> Nest:
        i = each(d.output_tensor.sizes)
        k = over(i, x.sizes, d.axes)
        return nest(i, FORMULAS[d.function](k, x[k]))

    examples = (
        along("SUM", [6, 6, 9], (2,), 1, 1, 1, 3),
        along("SUM", [6, 7, 8], (3,), 1, 1, 3, 1),
        along("SUM", [21], (2, 3), 1, 1, 1, 1),
        of_three("ARGMAX", 2, UINT32),
        of_three("ARGMIN", 0, INT64),
        of_three("AVERAGE", 2),
        of_three("L1", 6),
        of_three("L2", 3.7416574),
        of_three("LOG_SUM", 1.7917595),
        of_three("LOG_SUM_EXP", 3.4076060),
        of_three("MAX", 3),
        of_three("MIN", 1),
        of_three("MULTIPLY", 6),
        of_three("SUM_SQUARE", 14),
    )
    rejecting = (
        rejects("same_data_type", output_tensor=tensor(DataType.FLOAT16, 1, 1, 1, 3)),
        rejects("argument_data_type", function="ARGMAX"),
        refused("argument_data_type_before_3_0", "ARGMIN", DataType.FLOAT32, "2_1", DataType.INT32),
        refused("average_l2_log_sum_log_sum_exp_data_type", "L2", DataType.INT32),
        refused("l1_sum_square_data_type_before_5_0", "L1", DataType.INT32, "4_1"),
        refused("l1_sum_square_multiply_sum_data_type", "SUM", INT8),
        refused("multiply_sum_data_type_before_5_0", "SUM", INT64, "4_1"),
        refused("min_max_data_type_before_5_0", "MIN", INT64, "4_1"),
    )
    errata = (
        "The third example of the page prints 2, 5, 2 as the last row; its result is that of 2, 4, 2.",
        "The page of the functions gives ARGMIN and ARGMAX int32 results; the operator's table has UINT32, later four types.",
        "The page does not forbid an empty list of axes or one that names an axis twice; both are refused (our decision).",
        "The page does not say what becomes of a sum that an integer tensor cannot hold: it wraps (our decision).",
        "The page does not say what NaN does in MIN and MAX: it is the result (our decision).",
        "The page does not say what LOG_SUM makes of a negative sum: NaN (our decision).",
    )


def reduced(d: Any) -> tuple[int, ...]:
    """The sizes of the output."""
    if any(a >= len(d.input_tensor.sizes) for a in d.axes):
        raise ValueError("an axis is not there")
    return tuple(1 if a in d.axes else n for a, n in enumerate(d.input_tensor.sizes))
