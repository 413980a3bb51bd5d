"""Tests of the table of ATen's operators: each one against torch in float64, and the table against its page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from aten_cases import CASES, WITHOUT, Case
from torch.utils import _pytree as pytree

import anydml.torch
from anydml.torch.mapping import MAPPINGS
from anydml.torch.model import kept_operators


class Called(torch.nn.Module):
    """A module that calls operators. Tensors among their arguments are its inputs."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases
        self.values, self.spec = pytree.tree_flatten([(list(case.args), dict(case.kwargs)) for case in cases])

    @property
    def inputs(self) -> tuple[torch.Tensor, ...]:
        return tuple(x for x in self.values if isinstance(x, torch.Tensor))

    def forward(self, *given: torch.Tensor) -> Any:
        rest = iter(given)
        calls = pytree.tree_unflatten([next(rest) if isinstance(x, torch.Tensor) else x for x in self.values], self.spec)
        made = [operator_of(case.operator)(*args, **kwargs) for case, (args, kwargs) in zip(self.cases, calls, strict=True)]
        return [x[:1] if case.first else x for x, case in zip(made, self.cases, strict=True)]


def operator_of(name: str) -> Any:
    _, packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def tensors(found: Any) -> list[torch.Tensor]:
    return [x for x in pytree.tree_flatten(found)[0] if isinstance(x, torch.Tensor)]


def close(found: torch.Tensor, due: torch.Tensor, case: Case) -> None:
    """Whether a result is torch's in float64, rounded, up to the units in the last place of the case."""
    assert found.shape == due.shape
    if not found.is_floating_point():
        assert found.dtype == due.dtype
        assert torch.equal(found, due)
        return
    exact, got = due.double().numpy(), found.numpy()
    with np.errstate(all="ignore"):
        size = np.abs(exact).astype(got.dtype)
        unit = np.spacing(np.max(np.where(np.isfinite(size), size, 0), initial=0) if case.of_largest else size)
        apart = np.abs(got.astype(np.float64) - exact)
    same = (got == exact.astype(got.dtype)) | (np.isnan(got) & np.isnan(exact))
    assert np.all(same | (apart <= case.ulps * unit)), (case.operator, np.max(np.where(same, 0, apart / unit)))


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x.double() if x.dtype == torch.float32 else x


TOGETHER = 16  # calls of one module: an export takes longer than a call
SAME = ("aten.view.dtype", "aten.nan_to_num.default")  # what they give depends on the type: compared with torch in float32
PARTS = [CASES[i : i + TOGETHER] for i in range(0, len(CASES), TOGETHER)]


@pytest.mark.parametrize("cases", PARTS, ids=[f"{part[0].operator}..{part[-1].operator}" for part in PARTS])
def test_operators_give_what_torch_gives_in_float64(cases: list[Case]) -> None:
    module = Called(cases).eval()
    model = anydml.torch.load(module, module.inputs)
    assert {case.operator for case in cases} <= model.operators.keys()
    results = zip(cases, model(*module.inputs), module(*module.inputs), module(*map(doubled, module.inputs)), strict=True)
    for case, found, plain, wide in results:
        due = plain if case.operator in SAME else wide
        for one, exact, other in zip(tensors(found), tensors(due), tensors(plain), strict=True):
            assert one.dtype == other.dtype, case.operator
            close(one, exact if other.is_floating_point() else other, case)


def test_every_operator_of_the_table_has_a_case_and_is_one_of_torch() -> None:
    names = {case.operator for case in CASES}
    assert names | WITHOUT.keys() == MAPPINGS.keys()
    assert not names & WITHOUT.keys()
    assert len(kept_operators()) == len(MAPPINGS)
    packets = {name.rsplit(".", 1)[0] for name in MAPPINGS}
    print(f"{len(packets)} operators of ATen in {len(MAPPINGS)} overloads; {len(CASES)} calls")
    assert len(packets) >= 120
