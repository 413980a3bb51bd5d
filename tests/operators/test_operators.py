"""The tests of every operator, generated from the operator files for operators, devices and kernels.

Each test reports the number of its cases, and requires a minimum, so that a generator without cases fails.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from hypothesis.vendor.pretty import pretty
from numpy.typing import NDArray

import anydml as dml
import oracle
import tables
from agreement import bits_of, expected
from anydml import (
    Checked,
    DataType,
    DescError,
    Device,
    FeatureLevel,
    TensorDesc,
    UnsupportedError,
    Violation,
    check,
    operators,
    program,
)
from anydml.devices.compiled import CompiledOperator
from anydml.devices.families import DEVICES
from anydml.kernels.code.llvm import unavailable
from anydml.kernels.kernel import Machine
from anydml.schema.operator import Desc, example_desc
from every_kernel import (
    SOAK,
    Compared,
    Kernel,
    Operator,
    Ran,
    code_left_out,
    compiled_by,
    flat,
    kernels_of,
    machines_for,
    nested,
    only_owned,
    run,
    some,
    takes,
)
from map_operators import excused
from strategies import arrays_for, descs, outputs_for
from tables import for_each
from tensors import SETTINGS, Binding, array_for, bound_as, is_four_bit, laid_over

OPERATORS = operators.every()
MOSTLY = 50  # the least percentage of random descs that each kernel must take, so that a kernel that refuses all fails

# Hypothesis shows a failing desc together with its operator's whole specification, and then warns that this is long.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

by_operator = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.spec.name)
by_device = pytest.mark.parametrize("device", DEVICES)
by_kernel = pytest.mark.parametrize(  # tests that do not depend on the instruction set use the widest
    ("operator", "kernel", "machine"),
    [
        pytest.param(o, k, machines_for(k)[-1], id="-".join(filter(None, (o.spec.name, k.name))))
        for o in OPERATORS
        for k in kernels_of(o)
    ],
)


def values(bindings: Mapping[str, Binding]) -> dict[str, Any]:
    return {name: binding.value for name, binding in bindings.items()}


def tensors(bindings: Mapping[str, Binding]) -> dict[str, NDArray[Any]]:
    return {name: binding.tensor for name, binding in bindings.items()}


def assert_bits(found: NDArray[Any], wanted: NDArray[Any], message: str) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), message
    np.testing.assert_array_equal(bits_of(found), bits_of(wanted), err_msg=message)


def has_family(kernel: Kernel) -> bool:
    return kernel.name != "reference"


def few(count: int, kernel: Kernel) -> int:
    """Like `some`, with fewer cases in the reference for tests that do not depend on the operator."""
    return some(count if has_family(kernel) else min(count, 2), kernel)


class Taken:
    """Counts the cases of a kernel: all, those that it took, and those that it may leave to other kernels."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.asked = self.taken = self.excused = 0

    def compiled(self, machine: Machine, checked: Checked[Desc]) -> CompiledOperator | None:
        """An operator compiled by the kernel; None if it refuses, which is excused for some data types."""
        made = compiled_by(self.kernel, machine, checked)
        excuse = None
        if self.kernel.name.startswith("elementwise:"):
            excuse = excused(checked.desc)
        elif self.kernel.name == "contract:compiled" and next(checked.desc.tensors()).desc.data_type.element_bits > 8:
            excuse = "integers have more than 8 bits"
        elif self.kernel.name == "reduce:compiled" and not any(
            getattr(checked.desc, f, True) for f in ("use_mean", "use_variance")
        ):
            excuse = "nothing is reduced"
        elif self.kernel.name == "windows:compiled" and getattr(checked.desc, "p", 2) > 2:
            excuse = "a norm has a P above 2"
        elif self.kernel.name == "irregular:numpy" and getattr(checked.desc, "input_tensor", checked) is None:
            excuse = "nothing is moved"
        elif self.kernel.name == "nests:compiled" and any(t.desc.data_type == DataType.FLOAT64 for t in checked.desc.tensors()):
            excuse = "elements have type FLOAT64"
        self.asked += 1
        self.taken += made is not None
        self.excused += made is None and excuse is not None
        return made

    @property
    def enough(self) -> int:
        """The least number of cases that the kernel must take: most of those without an excuse; of the reference, all."""
        return MOSTLY * (self.asked - self.excused) // 100 if has_family(self.kernel) else self.asked


def fresh(desc: Desc) -> dict[str, NDArray[Any]]:
    """Packed outputs, by the names of `Desc.tensors`."""
    return {t.name: array_for(t.desc) for t in desc.tensors() if t.field in desc.spec.outputs}


# --- examples ---


@by_operator
@by_device
def test_examples_hold(operator: Operator, device: str, ran: Ran) -> None:
    for example in operator.spec.examples:
        desc = operator(**example.fields)
        compiled = Device(device).compile(desc)
        others = [kernel for kernel in kernels_of(operator, desc) if has_family(kernel)]
        serve = any(takes(kernel, check(desc), Machine(None, 1)) for kernel in others)
        assert (compiled.kernel_name == "reference") == (device == "reference" or not serve)
        inputs, outputs, wanted = flat(desc, example.inputs), fresh(desc), flat(desc, example.outputs)
        assert inputs.keys() | outputs.keys() == {t.name for t in desc.tensors()}
        assert wanted.keys() <= outputs.keys()
        run(compiled, inputs, outputs)
        for name, output in expected(desc, inputs).items():
            assert_bits(outputs[name], output, f"{example.title}: {name}")
            assert_bits(wanted.get(name, output), output, f"{example.title}: {name}")
        check(desc, strict=True)
    ran(len(operator.spec.examples), 1)


# one operator for each family on OpenCL devices and each kind of text, since a driver takes up to 0.6 s for a kernel
ON_OPENCL = [
    "ACTIVATION_SIGMOID",
    "CAST",
    "ELEMENT_WISE_QUANTIZE_LINEAR",
    "GATHER",
    "MEAN_VARIANCE_NORMALIZATION1",
    "RESAMPLE2",
    "GEMM",
    "MATRIX_MULTIPLY_INTEGER",
    "TOP_K1",
]


@pytest.fixture(scope="module")
def opencl() -> Device:
    try:
        return Device("opencl")
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    "operator", [o for o in OPERATORS if SOAK > 1 or o.spec.name in ON_OPENCL], ids=lambda operator: operator.spec.name
)
@pytest.mark.skipif(unavailable() is not None, reason="there is no LLVM here")
def test_examples_hold_on_opencl(operator: Operator, opencl: Device, ran: Ran) -> None:
    cases = 0
    for example in operator.spec.examples[: None if SOAK > 1 else 1]:
        desc = operator(**example.fields)
        inputs, outputs = flat(desc, example.inputs), fresh(desc)
        run(opencl.compile(desc), inputs, outputs)
        for name, output in expected(desc, inputs).items():
            assert_bits(outputs[name], output, f"{example.title}: {name}")
        cases += 1
    ran(cases, 1)


INFERRING = {name: row for name, row in tables.OPERATORS.items() if row[0].outputs is not Desc.outputs}


@for_each(INFERRING, at_least=160)
def test_outputs_that_follow_from_inputs_are_legal(operator: Operator) -> int:
    """`outputs` gives valid data types, if any, and valid sizes; an example may have a smaller output."""
    for example in operator.spec.examples:
        desc = operator(**example.fields)
        made = {}
        for name, found in desc.outputs().items():
            if found[0] is None:  # if the call gives them
                continue
            many = isinstance(found[0][0], tuple)
            made[name] = (
                tuple(TensorDesc(t, n) for n, t in found)
                if many
                else TensorDesc(found[1] or getattr(desc, name).data_type, found[0])
            )
        check(replace(desc, **made), strict=True)
    return len(operator.spec.examples)


# --- exact results, and no other writes ---


# the least number of outputs in `make soak`; fewer for operators whose oracle takes long, or whose kernels are compiled anew
# for calls of a few outputs
FEWER_OUTPUTS = (
    *("RNN", "GRU", "LSTM", "MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1", "AVERAGE_POOLING_GRAD", "MAX_POOLING_GRAD"),
    *("LOCAL_RESPONSE_NORMALIZATION_GRAD", "BATCH_NORMALIZATION_GRAD", "BATCH_NORMALIZATION_TRAINING"),
    *("BATCH_NORMALIZATION_TRAINING_GRAD", "ADAM_OPTIMIZER", "ROI_ALIGN", "ROI_ALIGN1", "ROI_ALIGN_GRAD"),
)


def examples_of(families: set[str]) -> int:
    """The number of cases of an operator with kernels of these families: fewer if nearly every case is compiled anew."""
    anew = families - {"copy", "contract", "reference"}
    return SOAK * (4 if "nests" in anew else 6 if anew else 10 if len(families) > 1 else 16)


@by_operator
@pytest.mark.usefixtures("_any_size", "_guarded_scratch")
def test_every_kernel_is_exact_and_writes_nothing_else(operator: Operator, ran: Ran, compared: Compared) -> None:
    """With packed, padded, permuted, broadcast and offset buffers in every form. Every byte around them is compared or
    unmapped.

    Every kernel has each case, also the reference, on one of the machines; in `make soak` on all of them.
    """
    outputs_compared = 0
    kernels = [k for k in kernels_of(operator) if unavailable() is None or not k.name.endswith(":compiled")]
    taken = [(Taken(kernel), machines_for(kernel)) for kernel in kernels]
    turns = max(len(machines) for _, machines in taken)
    examples = examples_of({kernel.name.split(":")[0] for kernel in kernels})

    @settings(SETTINGS, max_examples=examples)
    @given(st.data())
    def equal(data: st.DataObject) -> None:
        nonlocal outputs_compared
        turn = data.draw(st.integers(0, turns - 1))
        desc, level = data.draw(descs(operator))
        checked = check(desc, level)
        inputs, outputs = data.draw(arrays_for(desc)), data.draw(outputs_for(desc))
        before = {name: binding.memory.copy() for name, binding in inputs.items()}
        untouched = {name: binding.memory.copy() for name, binding in outputs.items()}
        result = expected(desc, tensors(inputs))
        assert result.keys() == outputs.keys() == set(checked.outputs)
        wanted = {name: memory.copy() for name, memory in untouched.items()}
        outputs_compared += sum(x.size for x in result.values())
        for name, output in outputs.items():
            over = laid_over(checked.tensors[name], wanted[name], output.tensor.ctypes.data - output.memory.ctypes.data)
            bits_of(over)[...] = bits_of(result[name])
        for of, machine in ((of, m) for of, every in taken for m in (every if SOAK > 1 else every[turn % len(every) :][:1])):
            compiled = of.compiled(machine, checked)
            if compiled is None:
                continue
            for name, output in outputs.items():
                output.memory[...] = untouched[name]
            run(compiled, values(inputs), values(outputs))
            by = f"by {of.kernel.name} for {machine.isa}"
            for name, output in outputs.items():
                assert_bits(output.tensor, result[name], f"{name} {by} of {desc}")
                np.testing.assert_array_equal(
                    output.memory, wanted[name], err_msg=f"a gap, padding or the surroundings of {name} were written {by}"
                )
            for name, binding in inputs.items():
                np.testing.assert_array_equal(binding.memory, before[name], err_msg=f"{name} was written {by}")

    least = 1 if SOAK == 1 else 1_000 if operator.spec.name in FEWER_OUTPUTS else 10_000
    while outputs_compared < least:
        equal()
    compared("outputs", outputs_compared, least)
    for of, _ in taken:
        print(f"{of.kernel.name}: ", end="")
        assert of.asked >= examples
        ran(of.taken, of.enough)


@by_operator
def test_outputs_may_lie_in_place_where_the_page_says_so(operator: Operator, ran: Ran) -> None:
    """An output that is identical to an input has the same results; if the page does not allow it, it is refused."""
    cases = 0
    names = {f.name for f in operator.spec.inputs if f.wire in operator.spec.in_place}
    for example in operator.spec.examples:
        desc = operator(**example.fields)
        strides = {t.name: t.desc.strides for t in desc.tensors()}
        arrays = flat(desc, example.inputs)
        outputs = fresh(desc)
        for name, given_array in arrays.items():
            for output, array in outputs.items():
                if (array.shape, array.dtype, strides[output]) != (given_array.shape, given_array.dtype, strides[name]):
                    continue
                there = given_array.copy()
                bound = nested(desc, {**arrays, **outputs, name: there, output: there})
                compiled = Device().compile(desc)
                if name in names:
                    compiled.bind(**bound).execute()
                    assert_bits(there, expected(desc, arrays)[output], f"{output} in the place of {name}")
                else:
                    with pytest.raises(dml.BindingError, match="does not work in place"):
                        compiled.bind(**bound)
                cases += 1
    ran(cases, len(names))


@by_operator
@by_device
def test_a_device_takes_its_first_kernel_that_does_not_refuse(operator: Operator, device: str, ran: Ran) -> None:
    cases = 0
    families = len(list(kernels_of(operator))) if device != "reference" else 1
    many = {1: 2, 2: 3}.get(families, 4) * SOAK

    @settings(SETTINGS, max_examples=many)
    @given(descs(operator))
    def first(drawn: tuple[Desc, FeatureLevel]) -> None:
        nonlocal cases
        checked = check(*drawn)
        on = Device(device, feature_level=FeatureLevel.EXTENDED)
        serving = {kernel.name: kernel for kernel in kernels_of(operator, checked.desc)}
        kernels = [serving[name] for name in DEVICES[device] if name in serving]
        with code_left_out():
            chosen = on.compile(checked).kernel_name
        assert chosen == next(kernel.name for kernel in kernels if takes(kernel, checked, on.machine))
        cases += 1

    first()
    ran(cases, many)


@by_kernel
@pytest.mark.usefixtures("_any_size")
def test_every_kernel_takes_the_examples(operator: Operator, kernel: Kernel, machine: Machine, ran: Ran) -> None:
    taken = 0
    for example in operator.spec.examples if has_family(kernel) else ():  # a test above shows that the reference takes them
        desc = operator(**example.fields)
        compiled = compiled_by(kernel, machine, check(desc))
        if compiled is not None:
            outputs = fresh(desc)
            run(compiled, flat(desc, example.inputs), outputs)
            for name, wanted in flat(desc, example.outputs).items():
                np.testing.assert_array_equal(outputs[name], wanted, err_msg=example.title)
            taken += 1
    ran(taken, 1 if has_family(kernel) else 0)


# --- repeatable ---


def in_every_form(binding: Binding, t: TensorDesc) -> list[Any]:
    """The same bytes in every form that a desc without alignments accepts."""
    start = binding.tensor.ctypes.data - binding.memory.ctypes.data
    size = max(t.element_bytes, t.total_tensor_size_in_bytes)
    size = -(-size // binding.tensor.itemsize) * binding.tensor.itemsize
    content = binding.memory[start : start + size]
    assert len(content) == size
    apart: NDArray[np.uint8] = np.zeros(size + 64, np.uint8)[3:]
    apart[:size] = content
    buffer = content.copy()
    elements = buffer if is_four_bit(t) else laid_over(t, apart)
    forms = (elements, buffer, buffer.view(bound_as(t)), bytearray(content), memoryview(bytearray(content)))
    return [*forms, bytes(content)]


def answered(desc: Desc, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """The oracle's results; the example is left out if it has none."""
    try:
        return expected(desc, inputs)
    except oracle.Undecided:
        reject()


def without_promises(desc: Desc) -> Desc:
    """The desc without alignments, which its buffers would need."""

    def plain(t: TensorDesc) -> TensorDesc:
        return replace(t, guaranteed_base_offset_alignment=0)

    there = {f: getattr(desc, f.name) for f in desc.spec.tensors if getattr(desc, f.name) is not None}
    return replace(desc, **{f.name: tuple(map(plain, t)) if f.sized_by else plain(t) for f, t in there.items()})


def repeated(of: Taken, machine: Machine, drawn: Desc, level: FeatureLevel, data: st.DataObject) -> int:
    """Assert that a bound operator has the same results twice, for inputs in each form; return the number of runs."""
    desc = without_promises(drawn)
    inputs = data.draw(arrays_for(desc))
    results_for = [data.draw(outputs_for(desc)) for _ in range(6)]  # before anything is compiled, and counted
    result = answered(desc, tensors(inputs))
    found = {t.name: t.desc for t in desc.tensors()}
    forms = {name: in_every_form(binding, found[name]) for name, binding in inputs.items()}
    cases = 0
    for form, outputs in enumerate(results_for):
        compiled = of.compiled(machine, check(desc, level))  # compiled again, since owned inputs are bound once
        if compiled is None:
            return cases
        chosen = {name: forms[name][form] for name in forms}
        owned = only_owned(desc, chosen)
        if owned:
            compiled.initialize(**nested(desc, owned))
        others = {n: x for n, x in chosen.items() if n not in owned}
        bound = compiled.bind(**nested(desc, {**others, **values(outputs)}))
        for _ in range(2):
            for output in outputs.values():
                bits_of(output.tensor)[...] = 0xA5
            bound.execute()
            for name, output in outputs.items():
                assert_bits(output.tensor, result[name], name)
            cases += 1
    return cases


def side_by_side(
    of: Taken, machine: Machine, desc: Desc, level: FeatureLevel, data: st.DataObject, *, bindings: int, times: int
) -> int:
    """Assert that bound operators of one compiled operator run at the same time; return the number of runs."""
    owned = only_owned(desc, data.draw(arrays_for(desc)))
    drawn = []
    for _ in range(bindings):  # each with its own data, except for owned inputs
        inputs = {**data.draw(arrays_for(desc)), **owned}
        drawn.append((inputs, data.draw(outputs_for(desc)), answered(desc, tensors(inputs))))
    compiled = of.compiled(machine, check(desc, level))
    if compiled is None:
        return 0
    if owned:
        compiled.initialize(**nested(desc, values(owned)))
    work = []
    for inputs, outputs, result in drawn:
        others = {n: b.value for n, b in inputs.items() if n not in owned}
        work.append((compiled.bind(**nested(desc, {**others, **values(outputs)})), outputs, result))
    together = threading.Barrier(len(work))
    wrong: list[object] = []

    def thread(at: int) -> None:
        bound, outputs, result = work[at]
        together.wait()
        for _ in range(times):
            for output in outputs.values():
                bits_of(output.tensor)[...] = 0x5A
            bound.execute()
            if not all(np.array_equal(bits_of(output.tensor), bits_of(result[n])) for n, output in outputs.items()):
                wrong.append(at)

    threads = [threading.Thread(target=thread, args=(at,)) for at in range(len(work))]
    for started in threads:
        started.start()
    for started in threads:
        started.join()
    assert wrong == []
    return len(work) * times


@by_kernel
@pytest.mark.usefixtures("_any_size")
def test_results_repeat_over_runs_binding_forms_and_threads(
    operator: Operator, kernel: Kernel, machine: Machine, ran: Ran
) -> None:
    """In one test, because most of the time is needed to compile random descs."""
    cases = [0, 0]
    taken = Taken(kernel), Taken(kernel)
    times = 10 if has_family(kernel) else 2

    @settings(SETTINGS, max_examples=few(6, kernel))
    @given(st.data())
    def repeats(data: st.DataObject) -> None:
        desc, level = data.draw(descs(operator))
        cases[0] += repeated(taken[0], machine, desc, level, data)
        cases[1] += side_by_side(taken[1], machine, desc, level, data, bindings=4, times=times)

    repeats()
    ran(cases[0], 2 * taken[0].enough)
    ran(cases[1], 4 * times * taken[1].enough)


# --- versions agree, and descs can be written and read ---


def violations(desc: Desc, level: FeatureLevel) -> tuple[Violation, ...]:
    try:
        check(desc, level)
    except DescError as error:
        return error.violations
    return ()


OLDER = [operator for operator in OPERATORS if type(example_desc(operator).as_newest()) is not operator]


@pytest.mark.parametrize("operator", OLDER, ids=lambda operator: operator.spec.name)
def test_an_older_version_is_the_newest_in_other_words(operator: Operator, ran: Ran) -> None:
    """The newest desc of the same call is legal if its numbers fit into the fields, and the oracle agrees for both."""
    cases = carried = 0

    @settings(SETTINGS, max_examples=30 * SOAK)
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        nonlocal cases, carried
        desc, level = data.draw(descs(operator))
        newest = desc.as_newest()
        inputs = tensors(data.draw(arrays_for(desc)))
        older_result, result = expected(desc, inputs), expected(newest, inputs)
        assert older_result.keys() == result.keys()
        for name, wanted in result.items():
            assert_bits(older_result[name], wanted, f"{name} of {desc}")
        cases += 1
        found = violations(newest, max(level, newest.spec.since))
        assert all(v.constraint.endswith(("_fits", "_supported")) for v in found), found
        carried += not found

    agree()
    print(f"{carried} of {cases} are legal as the newest version")
    assert carried
    ran(cases, 30 * SOAK)


@for_each(tables.OPERATORS, at_least=177 * (8 * SOAK + 1) // 3, parts=3)
def test_descs_come_back_from_json_and_from_their_repr(operator: Operator) -> int:
    """Every random desc and every example, in the format of programs and as Python text."""
    cases = 0

    def comes_back(desc: Desc) -> None:
        nonlocal cases
        document = {"type": desc.spec.wire_name, "desc": desc.document()}
        text = json.dumps({"resources": {}, "dispatchables": {"d": document}, "commands": []})
        parsed = program.load(io.StringIO(text)).dispatchables["d"].desc
        assert parsed == desc
        assert parsed.document() == desc.document()
        shown = repr(desc)
        assert eval(shown, {**vars(dml), **{o.__name__: o for o in OPERATORS}}) == desc
        assert "<" not in shown
        assert pretty(desc) == shown
        cases += 1

    for example in operator.spec.examples:
        comes_back(operator(**example.fields))

    @settings(SETTINGS, max_examples=8 * SOAK)
    @given(descs(operator))
    def drawn(found: tuple[Desc, FeatureLevel]) -> None:
        comes_back(found[0])

    drawn()
    return cases
