"""A device: what it supports, and descs compiled for it."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any
from weakref import ref

from anydml import operators, optional
from anydml.devices import verbose
from anydml.devices.compiled import CompiledOperator
from anydml.devices.families import DEVICES, Families, families_in_graphs, families_of, families_of_fused, kind_of
from anydml.devices.origin import Origin
from anydml.errors import UnsupportedError
from anydml.feature_level import FeatureLevel
from anydml.fork_safety import guard
from anydml.gc_pause import paused
from anydml.graphs.check import check_graph
from anydml.graphs.desc import GraphDesc
from anydml.kernels.kernel import Machine
from anydml.schema.check import Checked, as_feature_level, check
from anydml.schema.operator import Desc
from anydml.tensor import DataType, integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anydml.devices.buffers import Buffer
    from anydml.devices.graph import CompiledGraph
    from anydml.tensor import TensorDesc

NAMES = tuple(DEVICES)  # of devices that exist everywhere
OPENCL = "opencl"
CACHED = 1024  # compiled operators that a device keeps for eager calls


class ExecutionFlags(enum.IntFlag):
    """DML_EXECUTION_FLAGS; accepted, and none of them changes a bit of any result."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


class Device:
    """A device compiles operators and runs them.

    name: "cpu", or "reference", which evaluates the operators' statements exactly: slow, and what all kernels are tested
    against; or "opencl", a device with float64 that an OpenCL driver offers, a GPU if there is one: "opencl:1" by its number,
    "opencl:NAME" by a part of its name. `anydml info` lists them. feature_level: the rules that descs are checked against.
    threads: the most threads; by default ANYDML_NUM_THREADS, OMP_NUM_THREADS, or the processors that this process may use. isa:
    the instruction set to compile for, by default the best that the processor reports: on x86-64 "generic", "avx2", "avx_vnni",
    "avx512bw", "avx512_vnni" or "amx_int8", on Arm "generic", "dotprod" or "i8mm".
    stage: the first stage that computes elements, of those kernels whose first stage may leave an element undecided. Another
    choice than the default helps to find the cause of a wrong bit. "first": mostly float64 with error bounds. "second": the
    same with finer bounds. "third": numbers of 250 bits with bounds, element by element. "exact": exact evaluation in Python.
    A kernel without a second stage for a formula begins at the third, and if the third stage does not have the formula, at the
    exact one. Results that are never undecided, such as moves and integers, have one stage. Requantised sums of integers have
    two; their second one is exact, in machine code. Convolutions of single planes of floats, whose stages are one kernel, use
    the kernel of packed rows instead. Running sums along contiguous lines and means of windows always begin at the first stage.
    No choice changes a bit.
    UnsupportedError for a name, level, instruction set or stage that does not exist here.
    """

    def __init__(
        self,
        name: str = "cpu",
        *,
        feature_level: FeatureLevel | str = FeatureLevel.FL_6_4,
        threads: int | None = None,
        isa: str | None = None,
        stage: str = "first",
    ) -> None:
        with guard:  # imported here, since `import anydml` does not need them
            from anydml.kernels.call import pool
            from anydml.kernels.code import llvm, targets
        if not isinstance(name, str) or (name not in NAMES and kind_of(name) != OPENCL):
            raise UnsupportedError(f"there is no device {name!r}; the devices are {', '.join((*NAMES, OPENCL))}")
        opencl = name if kind_of(name) == OPENCL else ""
        self.feature_level = as_feature_level(feature_level)
        if threads is not None and integer(threads, "threads") < 1:
            raise ValueError(f"threads is {threads}, and at least one thread works")
        if isa is not None:
            if (reason := llvm.unavailable()) is not None:
                raise UnsupportedError(f"isa = {isa!r} cannot be had: nothing can be compiled ({reason})")
            available = [target.name for target in targets.targets()]
            if isa not in available:
                raise UnsupportedError(f"this processor has no {isa!r}; the instruction sets here are {', '.join(available)}")
        if stage not in targets.STAGES:
            raise UnsupportedError(f"there is no stage {stage!r}; the stages are {', '.join(targets.STAGES)}")
        self.name = name
        self.machine = Machine(isa, pool.at_most(threads or pool.default_threads()), stage, opencl)
        if opencl:
            self._opened()
        # (make, key) -> make(device, *key), kept for the next call with an equal key: the operators that eager calls compiled
        self.cached: Callable[..., Any] = lru_cache(maxsize=CACHED)(_made_by(ref(self)))
        # the same operators by keys that are quicker to compute
        self.calls: dict[Any, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """The name and the settings. A copy compiles its operators again, in this process or another one."""
        return _again, (self.name, self.feature_level, self.machine)

    def __repr__(self) -> str:
        """The name, the feature level, and the instruction set and the threads in use, or NumPy."""
        with guard:
            from anydml.kernels.call import pool
            from anydml.kernels.code import llvm, targets
        using = ""
        if self.name == "cpu":
            using = ", NumPy"
            if llvm.unavailable() is None and (target := targets.named(self.machine.isa)):
                threads = pool.in_use(self.machine.threads, target)
                using = f", {target.name}, {threads} thread{'s' if threads > 1 else ''}"
                using += "" if self.machine.stage == targets.FIRST else f", from the {self.machine.stage} stage on"
        elif self.machine.opencl:
            using = f", {self._opened().found.title}"
        return f"<Device {self.name}: feature level {self.feature_level}{using}>"

    def _opened(self) -> Any:
        with guard:  # imported here, since other devices do not need it
            from anydml.kernels.opencl.platform import opened
        return opened(self.machine.opencl)

    def buffer(self, source: NDArray[Any] | TensorDesc) -> Buffer:
        """A buffer in this OpenCL device's memory, with the elements of an array, or zeros for a tensor's sizes and data type.

        UnsupportedError on other devices; MemoryError if the device has no room; TypeError for what is neither.
        """
        if not self.machine.opencl:
            raise UnsupportedError(f"the device {self.name} uses arrays, and only an OpenCL device has buffers")
        with guard:  # imported here, since other devices do not need it
            import numpy as np

            from anydml.devices.buffers import Buffer
            from anydml.tensor import TensorDesc
        if isinstance(source, TensorDesc):
            source = np.zeros(source.sizes, source.data_type.dtype)
        if not isinstance(source, np.ndarray):
            raise TypeError(f"a buffer is made of an array or a TensorDesc, not {type(source).__name__}")
        made = Buffer(self._opened(), source.shape, source.dtype)
        made.write(source)
        return made

    def supports_data_type(self, data_type: DataType) -> bool:
        """Whether any operator takes tensors of a data type at this device's feature level.

        IDMLDevice::CheckFeatureSupport, DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT.
        """
        tables = (operator.spec.table.get(self.feature_level, {}) for operator in operators.every())
        return any(data_type in supported.data_types for table in tables for supported in table.values())

    def highest_feature_level(self, requested: Iterable[FeatureLevel]) -> FeatureLevel:
        """The highest of the requested levels that the device has; UnsupportedError if it has none of them.

        IDMLDevice::CheckFeatureSupport, DML_FEATURE_FEATURE_LEVELS.
        """
        if within := [level for level in requested if level <= self.feature_level]:
            return max(within)
        raise UnsupportedError(f"none of the requested feature levels is at or below this device's {self.feature_level}")

    @paused
    def compile(
        self,
        desc: Desc | Checked[Desc] | GraphDesc,
        *,
        flags: ExecutionFlags = ExecutionFlags.NONE,
        fuse: bool = True,
    ) -> CompiledOperator:
        """Check a desc against this device's feature level and pick the first kernel that takes its statement.

        A graph is checked as a whole, and its arrays are bound by the names of its input and output edges; fuse=False makes
        each of its operators a call of its own, with the same bits.
        DescError if the desc breaks rules, GraphError if the graph does; DataError if values of a graph's constants break a
        rule about data; UnsupportedError for a desc that was checked for a level above the device's; MemoryError if every
        kernel would take more scratch and persistent memory than this machine has. OptimizationWarning if a kernel or a fusion
        fails unexpectedly; the result is then computed without it. IDMLDevice::CreateOperator and CompileOperator;
        IDMLDevice1::CompileGraph.
        """
        began = time.perf_counter()
        ExecutionFlags(flags)
        if isinstance(desc, GraphDesc):
            return self._compile_graph(desc, fuse, began)
        if isinstance(desc, Checked):
            checked = desc
            if checked.feature_level > self.feature_level:
                raise UnsupportedError(
                    f"the desc was checked for feature level {checked.feature_level}, above the device's {self.feature_level}"
                )
        else:
            checked = check(desc, self.feature_level)
        compiled, refused = _chosen()(families_of(self.name), checked, self.machine)
        compiled.opencl = self.machine.opencl
        compiled.origin = Origin(Device, self.name, self.feature_level, self.machine)
        level = verbose.level()
        if level:
            members: dict[str, Any] = {
                "operator": checked.desc.spec.wire_name,
                "kernel": compiled.kernel_name,
                "device": self.name,
                "feature_level": str(checked.feature_level),
                "sizes": {name: list(t.sizes) for name, t in checked.tensors.items()},
                "microseconds": round((time.perf_counter() - began) * 1e6, 1),
            }
            verbose.write("compile", **members, **({"refused": refused} if level > 1 else {}))
        return compiled

    def _compile_graph(self, desc: GraphDesc, fuse: bool, began: float) -> CompiledOperator:
        with guard:  # imported here, since a single operator does not need it
            from anydml.devices.graph import compiled_graph
        checked, refused = check_graph(desc, self.feature_level), list[dict[str, str]]()

        def compiled_with(fusing: Families) -> CompiledGraph:
            return compiled_graph(families_in_graphs(self.name), fusing, checked, self.machine, refused)

        if fuse and (fusing := families_of_fused(self.name)):
            compiled = optional.attempted("All that is fused is", lambda: compiled_with(fusing), lambda _: compiled_with({}))
        else:
            compiled = compiled_with({})
        compiled.origin = Origin(Device, self.name, self.feature_level, self.machine, fuse)
        if level := verbose.level():
            spent = round((time.perf_counter() - began) * 1e6, 1)
            kernels = [part.kernel_name for part in compiled.call.parts]
            members = {"operator": compiled.wire_name, "kernels": kernels, "device": self.name, "microseconds": spent}
            verbose.write("compile", **members, **({"refused": refused} if level > 1 else {}))
        return compiled


@cache
def _chosen() -> Callable[..., tuple[CompiledOperator, list[dict[str, str]]]]:
    with guard:  # imported here, since `import anydml` does not need it
        from anydml.devices.choice import chosen
    return chosen


def _made_by(device: ref[Device]) -> Callable[..., Any]:
    """The function that makes the values of a device's cache for eager calls.

    It has a weak reference to the device, so that the cache does not keep the device alive; the caller has a strong one.
    """

    def made(make: Callable[..., Any], *key: Hashable) -> Any:
        return make(device(), *key)

    return made


def _again(name: str, feature_level: FeatureLevel, machine: Machine) -> Device:
    return Device(name, feature_level=feature_level, threads=machine.threads, isa=machine.isa, stage=machine.stage)


@cache
def named(name: str, feature_level: FeatureLevel = FeatureLevel.FL_6_4) -> Device:
    """The device of a name at a feature level, made once."""
    return Device(name, feature_level=feature_level)


usual_device: ContextVar[Device | None] = ContextVar("usual", default=None)  # see `usual`


@contextmanager
def usual(device: Device) -> Iterator[None]:
    """Make this the default device of functions within the context."""
    before = usual_device.set(device)
    try:
        yield
    finally:
        usual_device.reset(before)


def device_of(device: Device | str | None, feature_level: FeatureLevel = FeatureLevel.FL_6_4) -> Device:
    """The device that a function runs on: the one given as an object or a name, else that of `usual`, else the cpu.

    feature_level: of a device that is not given as an object.
    """
    if isinstance(device, Device):
        return device
    if device is None:
        return usual_device.get() or named("cpu", feature_level)
    return named(device, feature_level) if isinstance(device, str) else Device(device)
