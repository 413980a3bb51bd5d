"""The functions that a kernel declares for its outputs."""

from __future__ import annotations

from anydml.kernels.code.targets import Target
from anydml.kernels.contract.epilogue import estimates, rounding, rule


def functions(target: Target, output: str, biased: bool, by: str = "", bias_at: int | None = None) -> list[str]:
    """None for int32; for bytes, those that estimate them by the numbers of rows or columns, or those that round them
    exactly."""
    if output == "i32":
        return []
    if by:
        return [*rounding.declarations(target), *estimates.functions(target, by)]
    return [*rounding.declarations(target), *rule.functions(target, output == "i8", biased=biased, bias_at=bias_at)]
