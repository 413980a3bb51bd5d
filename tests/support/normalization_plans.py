"""Plans for normalisations. All are valid by construction, like those of `generators`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hypothesis import strategies as st

from anydml import FeatureLevel, operators
from drawn_descs import Plain, Plan, planned

EPSILONS = st.sampled_from((1e-5, 0.0, 1e-3, 1.0, 2.0**-149, -0.5, float("inf")))


def by_kinds(draw: st.DrawFn, name: str, level: FeatureLevel) -> Plan:
    operator = operators.find(name)
    assert operator is not None
    return planned(draw, operator, level)


def broadcast(draw: st.DrawFn, sizes: tuple[int, ...], whole: tuple[int, ...] = ()) -> tuple[int, ...]:
    """The sizes of a parameter: each 1 or the tensor's, and in the dimensions `whole` always the tensor's."""
    return tuple(n if a in whole or draw(st.booleans()) else 1 for a, n in enumerate(sizes))


def batch_normalization(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "BATCH_NORMALIZATION", level)
    data_type, sizes = plan["input_tensor"]
    old = level < FeatureLevel.FL_4_0 and not plan["spatial"]
    for name in ("mean", "variance", "scale", "bias"):
        whole = range(len(sizes))[-2:] if old and name in ("mean", "variance") else ()
        plan[f"{name}_tensor"] = Plain(data_type, broadcast(draw, sizes, tuple(whole)))
    return plan | {"epsilon": draw(EPSILONS)}


def mean_variance(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    plan = by_kinds(draw, name, level)
    data_type, sizes = plan["input_tensor"]
    version = name[-1]
    parameters = ("scale_tensor", "bias_tensor")
    if version != "2" and level < FeatureLevel.FL_5_2:
        there = dict.fromkeys(parameters, draw(st.booleans()))
    else:
        there = {parameter: draw(st.booleans()) for parameter in parameters}
    whole = (1,) if version == "1" and level < FeatureLevel.FL_4_0 else ()
    for parameter in parameters:
        plan[parameter] = Plain(data_type, broadcast(draw, sizes, whole)) if there[parameter] else None
    if version == "2":
        plan["use_variance"] = draw(st.integers(0, 7)) != 3  # nearly always True, so that kernels of rows are tested
    return plan | {"epsilon": draw(EPSILONS)}


def lp(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    return by_kinds(draw, "LP_NORMALIZATION", level) | {"p": draw(st.integers(1, 2)), "epsilon": draw(EPSILONS)}


def local_response(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "LOCAL_RESPONSE_NORMALIZATION", level)
    usual = dict(alpha=1e-4, beta=0.75, bias=1.0) if draw(st.booleans()) else {}
    return plan | {"local_size": draw(st.sampled_from((1, 2, 3, 4, 5)))} | usual


def batches(draw: st.DrawFn, level: FeatureLevel, name: str) -> Plan:
    """Parameters of any sizes that broadcast; the outputs follow from the input."""
    plan = by_kinds(draw, name, level)
    data_type, sizes = plan["input_tensor"]
    parameter = Plain(data_type, broadcast(draw, sizes))
    likewise = ("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor")
    return plan | {n: parameter for n in likewise if n in plan} | {"epsilon": draw(EPSILONS)}


def local_response_gradient(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "LOCAL_RESPONSE_NORMALIZATION_GRAD", level)
    usual = dict(alpha=1e-4, beta=0.75, bias=1.0) if draw(st.booleans()) else {}
    return plan | {"local_size": draw(st.sampled_from((1, 2, 3)))} | usual


def adam(draw: st.DrawFn, level: FeatureLevel) -> Plan:
    plan = by_kinds(draw, "ADAM_OPTIMIZER", level)
    usual = dict(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8) if draw(st.booleans()) else {}
    return plan | usual


BATCHES = ("BATCH_NORMALIZATION_GRAD", "BATCH_NORMALIZATION_TRAINING", "BATCH_NORMALIZATION_TRAINING_GRAD")
MEAN_VARIANCE = tuple(f"MEAN_VARIANCE_NORMALIZATION{version}" for version in ("", "1", "2"))

GENERATORS: Mapping[str, Callable[[st.DrawFn, FeatureLevel], Plan]] = {
    "ADAM_OPTIMIZER": adam,
    "BATCH_NORMALIZATION": batch_normalization,
    **{name: partial(batches, name=name) for name in BATCHES},
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": local_response_gradient,
    "LOCAL_RESPONSE_NORMALIZATION": local_response,
    "LP_NORMALIZATION": lp,
    **{name: partial(mean_variance, name=name) for name in MEAN_VARIANCE},
}
