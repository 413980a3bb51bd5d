"""Activations that are fused into other operators."""

from __future__ import annotations

from typing import Any

from anydml import operators
from anydml.pydirectml.enumerations import OperatorType
from anydml.schema.desc import Desc


def _preset(name: str, least: int, *usual: float) -> staticmethod[..., FusedActivation]:
    """A function that makes a fused activation. least: the number of parameters without defaults."""

    def preset(*parameters: float) -> FusedActivation:
        most = max(least, len(usual))
        if not least <= len(parameters) <= most:
            raise TypeError(f"FusedActivation.{name.lower()} takes {most} parameters, not {len(parameters)}")
        return FusedActivation(OperatorType[f"ACTIVATION_{name}"], *parameters, *usual[len(parameters) :])

    return staticmethod(preset)


class FusedActivation:
    """An activation that is applied to another operator's results before they are rounded, and its first two parameters.

    INVALID means no activation. `FusedActivation.elu(alpha)` and the like have DirectMLX's default parameters.
    """

    def __init__(self, activation: Any = 0, param_1: float = 0.0, param_2: float = 0.0) -> None:
        self.activation = OperatorType(activation)
        self.param_1, self.param_2 = param_1, param_2

    @property
    def desc(self) -> Desc | None:
        """The activation as a desc of anydml. ValueError for an operator that cannot be fused."""
        if not self.activation:
            return None
        operator = operators.find(self.activation.name)
        if operator is None or not operator.spec.fusable:
            raise ValueError(f"{self.activation.name} is not an activation that can be fused")
        names = [f.name for f in operator.spec.attributes]
        return operator(**dict(zip(names, (self.param_1, self.param_2), strict=False)))

    celu = _preset("CELU", 0, 1.0)
    elu = _preset("ELU", 0, 1.0)
    gelu = _preset("GELU", 0)
    hard_sigmoid = _preset("HARD_SIGMOID", 0, 0.2, 0.5)
    identity = _preset("IDENTITY", 0)
    leaky_relu = _preset("LEAKY_RELU", 0, 0.01)
    linear = _preset("LINEAR", 2)
    parametric_softplus = _preset("PARAMETRIC_SOFTPLUS", 2)
    relu = _preset("RELU", 0)
    scaled_elu = _preset("SCALED_ELU", 0, 1.6732632, 1.050701)
    scaled_tanh = _preset("SCALED_TANH", 0, 1.0, 0.5)
    shrink = _preset("SHRINK", 0, 0.0, 0.5)
    sigmoid = _preset("SIGMOID", 0)
    softplus = _preset("SOFTPLUS", 0, 1.0)
    softsign = _preset("SOFTSIGN", 0)
    tanh = _preset("TANH", 0)
    thresholded_relu = _preset("THRESHOLDED_RELU", 0, 1.0)

    @staticmethod
    def none() -> FusedActivation:
        """No activation."""
        return FusedActivation()
