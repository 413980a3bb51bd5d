"""A kernel's arguments by name: loaded in the order of the step's arguments, each of them given exactly once."""

from __future__ import annotations

import pytest

from anydml.kernels.call.signature import Signature, stepped
from anydml.kernels.call.steps import At
from anydml.kernels.code import engine
from anydml.kernels.code.emit import Text, kernel
from anydml.kernels.code.targets import Target, targets

DIFFERENCE = Signature("*into a") + Signature("b")


def difference(target: Target) -> str:
    text = Text()
    DIFFERENCE.load(text)
    text.store("i64", text.op("sub i64 %a, %b"), "%into")
    text.do("ret i64 0")
    return kernel(text)


def test_values_go_to_the_arguments_of_their_names() -> None:
    text = Text()
    DIFFERENCE.load(text)
    assert [line.split(" = load ")[1].split(",")[0] for line in text.lines if " = load " in line] == ["ptr", "i64", "i64"]
    code = engine.compiled(difference, targets()[0])
    assert DIFFERENCE.step(code, b=3, a=10, into=At("output", 8)).arguments == (At("output", 8), 10, 3)
    assert DIFFERENCE.step(code, 7, 8, b=3, a=10, into=2).arguments == (2, 10, 3, 7, 8)
    assert DIFFERENCE.end == 24
    assert stepped("bias", At("bias"), 4) == {"bias": At("bias"), "bias_step": 4}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"a": 1, "into": 2}, r"\['b'\] have no value, and \[\] are none"),
        ({"a": 1, "b": 1, "c": 1, "into": 2}, r"\[\] have no value, and \['c'\] are none"),
        ({"a": 1, "c": 1, "into": 2}, r"\['b'\] have no value, and \['c'\] are none"),
    ],
)
def test_an_argument_that_is_missing_or_unknown_is_named(values: dict[str, int], said: str) -> None:
    code = engine.compiled(difference, targets()[0])
    with pytest.raises(TypeError, match=said):
        DIFFERENCE.step(code, **values)


def test_a_kernel_takes_its_arguments_from_values_for_several() -> None:
    code = engine.compiled(difference, targets()[0])
    values: dict[str, At | int] = {"b": 3, "c": 4, "a": 10, "into": At("output", 8)}
    assert DIFFERENCE.step_from(code, values).arguments == (At("output", 8), 10, 3)
    assert Signature("c").step_from(code, values).arguments == (4,)
    assert Signature("").step_from(code, values).arguments == ()
    with pytest.raises(TypeError, match=r"\['b', 'into'\] have no value"):
        DIFFERENCE.step_from(code, {"a": 1, "c": 1})
