"""A compiled operator, initialized and bound: DirectML's own sequence."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

from numpy import ndarray
from numpy.typing import NDArray

from anydml import fork_safety
from anydml.devices import verbose
from anydml.devices.binding import Near, Slot, identical, owned_copy, share_memory
from anydml.devices.judging import data_check
from anydml.devices.origin import Origin, again
from anydml.errors import BindingError, Fault
from anydml.kernels.evaluate.tally import Counted
from anydml.kernels.kernel import Built, Direct, Execute, Unfit, Views
from anydml.lazy import computed_once
from anydml.schema.check import Checked
from anydml.schema.constraint import DataRule
from anydml.schema.field import OUTPUT
from anydml.schema.operator import Desc
from anydml.tensor import TensorDesc, TensorFlags


class BindingProperties(NamedTuple):
    """DML_BINDING_PROPERTIES: the bytes of scratch of each bound operator, and the bytes that stay after initialize."""

    temporary_resource_size: int
    persistent_resource_size: int


class Counters(NamedTuple):
    """The numbers of elements: of one execute, left undecided by kernels in all executes, and decided exactly in Python.

    undecided: those that a call of machine code reported. Some kernels (products of floats, rows, attention) run their second
    stage themselves and report only what it leaves undecided. Of the elements that maps and recurrences report, another kernel
    decides most, and Python the rest.
    """

    elements: int
    undecided: int
    exact: int


class CompiledOperator:
    """A desc, compiled: `initialize` where an input is OWNED_BY_DML, then `bind`. Made by `Device.compile`."""

    desc: Any  # an operator's desc, or a graph's
    origin: Origin  # set by the device
    opencl = ""  # the OpenCL device whose memory the call uses; set by the device

    def __init__(self, checked: Checked[Desc], kernel_name: str, built: Built) -> None:
        self.desc = checked.desc
        self.wire_name = checked.desc.spec.wire_name
        self.kernel_name = kernel_name
        self.built = built
        spec = self.desc.spec
        self._fields = checked.fields
        self._outputs: list[str] = []
        self._in_place: set[str] = set()
        self._data_rules: list[tuple[str, DataRule]] = []
        owned = 0
        for name, field, tensor in self._fields.values():
            if field.role == OUTPUT:
                self._outputs.append(name)
            elif field.wire in spec.in_place:
                self._in_place.add(name)
            if tensor.flags:
                owned += tensor.element_bytes
            if spec.data_rules:
                self._data_rules += [(name, rule) for rule in spec.data_rules if field.wire in rule.tensors]
        self._begin(owned)

    def _begin(self, owned: int) -> None:
        """Set what follows from the kernel. owned: the bytes of the inputs that initialize copies."""
        self._properties = BindingProperties(
            self.built.temporary_resource_size + self.built.passing, owned + self.built.persistent_resource_size
        )
        self._persistent: dict[str, NDArray[Any]] | None = None if owned else {}
        self._initialized: dict[str, dict[str, NDArray[Any]]] = {}
        self.reports = verbose.level() > 0

    def __repr__(self) -> str:
        return f"<CompiledOperator {self.desc.spec.name} {self.kernel_name}>"

    def __copy__(self) -> CompiledOperator:
        """An operator with the same machine code and initialized tensors. Before initialize, each copy is initialized alone."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._initialized = dict(self._initialized)
        return made

    def __deepcopy__(self, memo: object) -> CompiledOperator:
        return self.__copy__()  # the other members are never changed, so both can share them

    def __reduce__(self) -> tuple[Any, ...]:
        """The device's settings, the desc, and what was initialized: a process compiles equal ones once."""
        owned = {name: self._persistent[name] for name in self._owned} if self._persistent and self._owned else None
        return again, (self.origin, pickle.dumps(self.desc), owned)

    @property
    def binding_properties(self) -> BindingProperties:
        """IDMLDispatchable::GetBindingProperties. Persistent: the owned inputs, copied and packed."""
        return self._properties

    @computed_once
    def _optional(self) -> frozenset[str]:
        return frozenset(f.name for f in self.desc.spec.tensors if getattr(self.desc, f.name) is None)

    @computed_once
    def _arrays_of(self) -> frozenset[str]:
        return frozenset(f.name for f in self.desc.spec.tensors if f.sized_by)

    @computed_once
    def _owned(self) -> dict[str, Slot]:
        """The tensors that initialize takes."""
        return self._slots_of(TensorFlags.OWNED_BY_DML)

    @computed_once
    def _slots(self) -> dict[str, Slot]:
        """The tensors that bind takes."""
        return self._slots_of(TensorFlags.NONE)

    def _slots_of(self, flags: TensorFlags) -> dict[str, Slot]:
        totals = {name: t.total_tensor_size_in_bytes for name, _, t in self.desc.tensors()}
        return {
            name: Slot(name, t, totals[name], writable=field.role == OUTPUT)
            for name, field, t in self._fields.values()
            if t.flags == flags
        }

    def tensors_by_role(self) -> tuple[dict[str, TensorDesc], list[str], frozenset[str]]:
        """All tensors by name, the outputs, and the tensors that initialize takes."""
        return {name: t for name, _, t in self._fields.values()}, self._outputs, frozenset(self._owned)

    @computed_once
    def on_devices(self) -> dict[Any, Any]:
        """The copies on an OpenCL device of tensors that initialize took."""
        return {}

    def counters(self) -> Counters:
        """The number of elements that an execute computes, and the numbers that all executes so far left undecided.

        The difference between the values after and before an execute are its own numbers. Counting costs nothing: the code
        that decides undecided elements counts them.
        """
        outputs = [t.sizes for _, field, t in self._fields.values() if field.role == OUTPUT]
        return counters_of(sum(map(prod, outputs)), [self.built.counted])

    @property
    def most_bytes(self) -> int:
        """The most memory, in bytes, that initialize or one bound operator takes, including the persistent memory."""
        temporary, persistent = self.binding_properties
        return persistent + max(temporary, self.built.initialize_resource_size)

    def initialize(self, **arrays: Any) -> None:
        """Copy the inputs that are OWNED_BY_DML, all of them and nothing else, exactly once, before the first bind.

        BindingError if they do not fit or initialize was called before; DataError if a value breaks a data rule. After an
        error nothing is kept, and initialize may be called again.
        """
        made: dict[str, NDArray[Any]] = {}
        if not self._initialized:
            views = self._views(arrays, self._owned, "is not OWNED_BY_DML: it is bound at bind, not at initialize")
            copies = {name: owned_copy(view) for name, view in views.items()}
            for judge in self.data_checks(copies):
                judge()
            packed = self.built.initialize(copies) if self.built.initialize else {}
            made = {**copies, **packed}
        # if several threads arrive here, the first one's arrays are kept; no lock, since a fork could copy it while it is held
        if self._initialized.setdefault("", made) is not made:
            raise BindingError([Fault("", "initialize has been called before, and is called exactly once")])
        self._persistent = made

    def bind(self, **arrays: Any) -> BoundOperator:
        """Bind arrays to every tensor that is not OWNED_BY_DML, by field name; optional inputs absent or None.

        An array has the desc's data type, sizes and strides, or is a one-dimensional buffer that holds such a tensor.
        BindingError lists everything that does not fit: sizes, strides, types, missing and unknown names, an output that
        is not writable or shares memory with an input, a missing initialize.
        """
        if self._persistent is None:
            owned = ", ".join(self._owned)
            raise BindingError([Fault("", f"initialize comes first: {owned} is OWNED_BY_DML")])
        views = self._views(arrays, self._slots, "is OWNED_BY_DML: it is bound at initialize, not at bind")
        if shared := list(self._shared(views)):
            raise BindingError(shared)
        return self.bind_described(views)

    def _in_place_of(self, output: str) -> Collection[str]:
        """The inputs that an output may be identical to."""
        return self._in_place

    def _shared(self, views: Mapping[str, NDArray[Any]]) -> Iterator[Fault]:
        """The outputs that share memory with another tensor, except for those that may be identical to an input."""
        names, near = [*views], Near(views.values())
        places = {name: k for k, name in enumerate(names)}
        done: set[str] = set()
        for output in self._outputs:
            own = views[output]
            done.add(output)
            for name in (names[k] for k in near.to(places[output])):
                if name in done or not (how := share_memory(own, view := views[name])):
                    continue
                if name not in self._in_place_of(output):
                    yield Fault(output, f"{how} {name}, and the operator does not work in place")
                elif not identical(own, view):
                    yield Fault(output, f"{how} {name}; in place, both are the same elements in the same layout")

    def bind_described(self, views: Mapping[str, NDArray[Any]]) -> BoundOperator:
        """Bind arrays without checks. The desc was made from them, so they fit, and the output is a new array."""
        return BoundOperator(self, {**self._persistent, **views} if self._persistent else views)

    def prepare(self, views: Mapping[str, NDArray[Any]]) -> Execute:
        """A call on arrays that fit, which checks the rules about values. Two threads must not run it at the same time."""
        checks = [] if self.built.judges else self.data_checks(views)
        run = self._bound(views)
        if checks and self.opencl:
            checks = [partial(_resident().fetch, views), *checks]
        return partial(self._judged, run, checks, views) if self._data_rules else run

    def _bound(self, views: Mapping[str, NDArray[Any]]) -> Execute:
        if not self.opencl:
            return self.built.bind(views)
        run: Execute = _resident().operator_call(self, views).execute
        return run

    def _judged(self, run: Execute, checks: Sequence[Execute], views: Mapping[str, NDArray[Any]]) -> None:
        for judge in checks:
            judge()
        try:
            run()
        except Unfit:
            for judge in self.data_checks(views):
                judge()
            raise

    def direct(self, names: Sequence[str], views: Views) -> Direct | None:
        """A call on any arrays that the desc could be made from, given in the order of names.

        None if calls are reported (ANYDML_VERBOSE), or if the operator has persistent arrays. names: the tensors; "" for an
        array that is no tensor. views: returns the arrays by tensor, in the tensors' layouts. The caller guarantees that the
        arrays fit and that outputs share no memory with inputs. Several threads may run the call at once.
        """
        if self.reports or self._persistent is None or self._persistent:
            return None
        if self.opencl and self.built.on_device is not None:
            return lambda arrays: self.prepare(views(arrays))()  # type: ignore[return-value]  # nobody uses the returned value
        if self.built.direct is None:
            bind = self.prepare if self._data_rules else self.built.bind
            return lambda arrays: bind(views(arrays))()  # type: ignore[return-value]  # nobody uses the returned value
        run = self.built.direct(names, views)
        return partial(self._judged_directly, run, views) if self._data_rules else run

    def _judged_directly(self, run: Direct, views: Views, arrays: Sequence[NDArray[Any]]) -> None:
        for judge in () if self.built.judges else self.data_checks(views(arrays)):
            judge()
        try:
            run(arrays)
        except Unfit:
            for judge in self.data_checks(views(arrays)):
                judge()
            raise

    def _views(self, arrays: dict[str, Any], slots: dict[str, Slot], elsewhere: str) -> dict[str, NDArray[Any]]:
        arrays, faults = self._one_by_one(arrays)
        views = {}
        for name, slot in slots.items():
            value = arrays.get(name)
            if value is None:
                faults.append(Fault(name, "is missing"))
                continue
            view = slot.view(value if isinstance(value, ndarray) else self._placed(name, value))
            if isinstance(view, Fault):
                faults.append(view)
            else:
                views[name] = view
        for name, value in arrays.items():
            if name in slots or (value is None and name in self._optional):
                continue
            if name in self._slots or name in self._owned:
                faults.append(Fault(name, elsewhere))
            elif name in self._optional:
                faults.append(Fault(name, "is bound, but the desc leaves this tensor out"))
            else:
                faults.append(Fault(name, f"is no tensor of this operator; it has {', '.join(slots)}"))
        if faults:
            raise BindingError(faults)
        return views

    def _placed(self, name: str, value: Any) -> Any:
        """The place of a buffer on the operator's own device; any other value unchanged."""
        return _resident().placed(self.opencl, value) if self.opencl else value

    def _one_by_one(self, arrays: dict[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
        """The arrays by tensor. For a field that is an array of tensors, the list of arrays becomes one entry for each."""
        if not self._arrays_of:
            return arrays, []
        found, faults = dict[str, Any](), []
        for name, value in arrays.items():
            if name not in self._arrays_of or value is None:
                found[name] = value
            elif not isinstance(value, (list, tuple)):
                faults.append(Fault(name, f"takes a list of arrays, not {type(value).__name__}"))
            else:
                wanted = len(getattr(self.desc, name) or ())
                if len(value) != wanted:
                    faults.append(Fault(name, f"has {len(value)} arrays where the desc has {wanted} tensors"))
                # at initialize, the caller gives None for tensors that bind takes, and the other way round
                found.update((f"{name}[{i}]", array) for i, array in enumerate(value[:wanted]) if array is not None)
        return found, faults

    @property
    def judges(self) -> bool:
        """Whether there are rules about data."""
        return bool(self._data_rules)

    @property
    def judged(self) -> set[str]:
        """The tensors that have rules about data."""
        return {name for name, _ in self._data_rules}

    def data_checks(self, views: Mapping[str, NDArray[Any]]) -> list[Callable[[], None]]:
        """The checks of the rules about the values of these inputs. Each raises DataError if a rule is broken."""
        if not self._data_rules:
            return []
        types = {t.name: t.desc.data_type for t in self.desc.tensors()}
        return [data_check(self.desc, name, rule, views[name], types[name]) for name, rule in self._data_rules if name in views]


def _resident() -> Any:
    with fork_safety.guard:  # imported here, since other devices do not need it
        from anydml.devices import resident
    return resident


def counters_of(elements: int, counted: Sequence[Counted | None]) -> Counters:
    found = {id(one): one for one in counted if one is not None}.values()  # equal calls share a kernel and its counts
    return Counters(elements, sum(one.undecided for one in found), sum(one.exact for one in found))


class BoundOperator:
    """A compiled operator with its arrays. Each `execute` reads the inputs again; a second thread waits for the first."""

    def __init__(self, compiled: CompiledOperator, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.compiled = compiled
        self.arrays = arrays
        self._make_ready()

    def __repr__(self) -> str:
        return f"<BoundOperator of {self.compiled!r}>"

    def __reduce__(self) -> str:
        raise TypeError("a bound operator holds the addresses of its arrays: bind `compiled` to others")

    def _make_ready(self) -> None:
        run = self.compiled.prepare(self.arrays)
        self._run = self._reporting(run) if self.compiled.reports else run
        self._lock = threading.Lock()
        self._generation = fork_safety.generation()
        if self.compiled.built.bare and not self.compiled.opencl and not (self.compiled.judges or self.compiled.reports):
            self.__dict__["execute"] = run  # nothing to check and no scratch to lock: skip the method below

    def _make_ready_again(self) -> None:
        """Replace the lock and the scratch in a child of a fork, since a thread of the parent may have been using them."""
        with fork_safety.guard:
            if self._generation != fork_safety.generation():
                self._make_ready()

    def execute(self) -> None:
        """Compute the output. DataError if a value breaks a data rule, before any byte of the output is written."""
        if self._generation != fork_safety.generation():
            self._make_ready_again()
        with self._lock:
            self._run()

    def _reporting(self, run: Callable[[], object]) -> Callable[[], None]:
        operator, kernel = self.compiled.wire_name, self.compiled.kernel_name

        def report() -> None:
            began = time.perf_counter()
            run()
            spent = round((time.perf_counter() - began) * 1e6, 1)
            verbose.write("execute", operator=operator, kernel=kernel, microseconds=spent)

        return report
