"""The call of one direction of a recurrence: its kernels step by step, and where it has stopped, the last decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import EXACT, THIRD
from anydml.kernels.kernel import DeviceMemory
from anydml.kernels.opencl.calls import Workspace, store
from anydml.kernels.opencl.overlap import Copies
from anydml.kernels.opencl.platform import GROUP, UNITS
from anydml.kernels.opencl.recurrence import text
from anydml.kernels.opencl.recurrence.plan import ROWS, DirectionPlan
from anydml.kernels.recurrence.key import INPUT
from anydml.kernels.recurrence.undecided import StateDecisions

Arrays = Callable[[str], NDArray[Any]]
ONES = 1 << 12  # work items that go through a list


class StepLaunch(NamedTuple):
    """A launch of a kernel. units: of work for an item. stage: the stage that it computes, -1 for none."""

    name: str
    step: int
    items: int
    units: int
    many: int = 0
    stage: int = -1


class RecurrenceCall:
    """The kernels of a direction.

    The call's first count is the number of elements that first stages listed; the second one says where it has stopped: 1 more
    than the number of a stage, counted over all steps.
    """

    def __init__(self, workspace: Workspace, plan: DirectionPlan, stage: str, decisions: StateDecisions, own: Copies) -> None:
        self.workspace, self.opened, self.plan = workspace, workspace.opened, plan
        self._stage, self._decisions, self._own = stage, decisions, own
        self.number = workspace.call(0)
        self._kernels: dict[str, Any] = {}
        self._second: dict[int, list[str]] = {}  # the kernels that decide what a stage lists; none if there are none
        self._memory: Any = None

    def launch(self) -> None:
        """Enqueue all steps. What comes after undecided elements does nothing."""
        if self._memory is None:
            self._make()
        steps, _, sequences, units = self.plan.found.sizes
        key = self.plan.key
        self._launch(StepLaunch("begin", 0, max(sequences * units, 2 * steps * len(key.stages), sequences), 1))
        for n, source in enumerate(key.sources):
            self._launch(StepLaunch(f"pack{n}", 0, len(source.blocks) * units, 4 * self.plan.terms[n]))
        self._go_on(0, 0)

    def is_open(self, counts: NDArray[np.int32]) -> bool:
        """Whether it has stopped, by the counts of all calls after they have ended."""
        return bool(counts[self.number, 1])

    def settle(self, arrays: Arrays) -> tuple[int, int]:
        """Decide what it has stopped at, and go on, until the last step."""
        stages = len(self.plan.key.stages)
        left = 0
        while stopped := int(self.workspace.counts()[self.number, 1]):
            step, stage = divmod(stopped - 1, stages)
            if stage not in self._second:
                self._make_second(stage)
                if self._second[stage]:
                    self._resume()
                    self._decide(step, stage)
                    if not self.workspace.counts()[self.number, 1]:
                        self._go_on(step, stage + 1)
                    continue
            left += self._exactly(step, stage, self._own.arrays(arrays))
            self._resume()
            self._go_on(step, stage + 1)
        listed = int(self.workspace.counts()[self.number, 0])
        self.workspace.reset(self.number)
        return listed, left

    # --- launches ---

    def _go_on(self, step: int, stage: int) -> None:
        for one in self._sequence(step, stage):
            self._launch(one)
            if self._second.get(one.stage):
                self._decide(one.step, one.stage)

    def _sequence(self, step: int, stage: int) -> Iterator[StepLaunch]:
        """The launches from a stage of a step on."""
        steps, _, sequences, units = self.plan.found.sizes
        key, chunk, terms = self.plan.key, self.plan.chunk, self.plan.terms
        work = [
            sum(3 * len(blocks) * terms[n] for n, blocks in text.blocks_of(key, s).items() if key.sources[n].kind != INPUT)
            for s in range(len(key.stages))
        ]
        for t in range(step, steps):
            if t % chunk == 0 and (t > step or not stage):
                many = min(chunk, steps - t)
                for n, source in enumerate(key.sources):
                    if source.kind == INPUT:
                        rows = -(-many * sequences // ROWS)
                        yield StepLaunch(f"input{n}", t, rows * units, 2 * ROWS * len(source.blocks) * terms[n], many)
            for s in range(stage if t == step else 0, len(key.stages)):
                yield StepLaunch(f"stage{s}", t, sequences * units, 500 + work[s], stage=s)
        for n, (result, _) in enumerate(key.results):
            yield StepLaunch(f"result{n}", 0, (1 if result.last else steps) * sequences * units, 1)

    def _decide(self, step: int, stage: int) -> None:
        """Enqueue the second stage of a step's elements. It usually has nothing to do."""
        _, _, sequences, units = self.plan.found.sizes
        for name in self._second[stage]:
            items = min(sequences * units, ONES) if name == f"second{stage}" else sequences * units
            self._launch(StepLaunch(name, step, items, 1))

    def _launch(self, one: StepLaunch) -> None:
        kernel, most = self._kernels[one.name], max(GROUP, UNITS // one.units)
        first, stops = 0, one.stage >= 0 and not self._second.get(one.stage)
        kernel.set_arg(self._place, np.int32(one.step))
        kernel.set_arg(self._place + 1, np.int32(one.many))
        kernel.set_arg(self._place + 2, np.int32(stops))
        while first < one.items:
            past = min(one.items, first + most)
            kernel.set_arg(self._place + 3, np.int64(first))
            kernel.set_arg(self._place + 4, np.int64(past))
            self.opened.launch(kernel, past - first)
            self.opened.paced((past - first) * one.units)
            first = past

    def _make(self) -> None:
        plan, opened = self.plan, self.opened
        memory = opened.allocate(plan.nbytes)
        given = {**plan.numbers, "slot": 2 * self.number}
        for name, tensor in plan.places.items():
            given[name] += self._own.memory[tensor].offset
        table = np.array([given[name] for name in text.names(plan.key)], np.int64)
        numbers = opened.allocate(table.nbytes)
        opened.write(numbers, table)
        tensors = [self._own.memory[name].data for name in plan.names]
        self._given = [*tensors, memory, self.workspace.memory[0], numbers]
        self._place = len(self._given)
        self._add(text.first(plan.key, self._stage))
        self._memory = memory

    def _add(self, program: str) -> list[str]:
        """Make the kernels of a program, and return their names."""
        made = self.opened.program(program)
        names = [line.split("(")[0].split()[-1] for line in program.splitlines() if line.startswith("kernel void ")]
        for name in names:
            kernel = self.opened.kernel(made, name)
            kernel.set_args(*self._given, np.int32(0), np.int32(0), np.int32(0), np.int64(0), np.int64(0))
            self._kernels[name] = kernel
        return names

    def _make_second(self, stage: int) -> None:
        """Make the second stage, if there is one."""
        self._second[stage] = []
        if self._stage in (THIRD, EXACT):
            return
        try:
            self._second[stage] = self._add(text.second(self.plan.key, self._stage, stage))
        except Uncompilable:  # a function that does not exist in that precision
            return

    # --- the last decision ---

    def _resume(self) -> None:
        """Let kernels compute again."""
        self.opened.write(self.workspace.memory[0], np.zeros(1, np.int32), 8 * self.number + 4)

    def _exactly(self, step: int, stage: int, arrays: Arrays) -> int:
        """Decide the elements on a list, and return their number."""
        plan = self.plan
        _, _, sequences, units = plan.found.sizes
        state = plan.key.stages[stage].state
        assert state is not None
        which = int(bool(self._second[stage]))
        count = self._read(plan.numbers["listed"] + 4 * (2 * (step * len(plan.key.stages) + stage) + which), 1)[0]
        numbers = self._read(plan.numbers["kept" if which else "list"], count).astype(np.int64)
        histories = [self._history(n, step) for n in range(len(plan.key.starts))]
        known = {name: arrays(name) for name in plan.names if name not in {r.name for r in plan.found.results}}
        elements = numbers // units, numbers % units
        made = self._decisions.at(state, (step, plan.number, 0), elements, histories, known)
        size = plan.found.data_type.dtype.itemsize
        start = plan.numbers[f"history{state}"] + (step + 1) * sequences * units * size
        store(self.opened, DeviceMemory(self._memory, start), numbers * size, made, size)
        return len(numbers)

    def _history(self, state: int, step: int) -> NDArray[Any]:
        """A state before a step and after it; zeros in the places of others."""
        steps, _, sequences, units = self.plan.found.sizes
        dtype = self.plan.found.data_type.dtype
        found = np.zeros((steps + 1, sequences, units), dtype)
        at = self.plan.numbers[f"history{state}"] + step * found[0].nbytes
        self.opened.read(self._memory, found[step : step + 2], at)
        return found

    def _read(self, at: int, count: int) -> NDArray[np.int32]:
        found = np.empty(count, np.int32)
        self.opened.read(self._memory, found, at)
        return found
