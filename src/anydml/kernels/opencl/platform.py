"""OpenCL devices: those that there are, why one is refused, and the queue, the programs and the memory of an opened one."""

from __future__ import annotations

import ctypes
import os
import time
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from anydml import fork_safety, optional
from anydml.errors import UnsupportedError
from anydml.fork_safety import guard
from anydml.kernels.code import cache, store
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.opencl import selftest

PREFIX = "opencl"
EXTRA = "pip install 'anydml[opencl]'"
FORMAT = 1  # to be changed if an old file could otherwise be taken for another program
OPTIONS = "-cl-std=CL1.2"
GROUP = 64  # work items of a group; all devices that are opened take as many
UNITS = 1 << 30  # units of work that any device does in less time than LONG
LONG = 0.25  # seconds of work in the queue: a display's watchdog ends a launch after 2 s, and signals wait for the queue
RESIDENT = 1 << 20  # bytes from which on memory is made resident when it is allocated


class Found(NamedTuple):
    """A device of a platform. refused: why it cannot compute exactly; None if nothing is known to prevent it."""

    number: int
    name: str
    platform: str
    driver: str
    is_gpu: bool
    refused: str | None
    device: Any

    @property
    def title(self) -> str:
        return f"{self.name} ({self.platform})"


def cl() -> Any:
    """The module pyopencl. UnsupportedError if it is missing, with the way to install it."""
    with guard:
        try:
            import pyopencl
        except ImportError as error:
            raise UnsupportedError(f"the device opencl needs pyopencl, which cannot be imported ({error}): {EXTRA}") from None
    return pyopencl


def found() -> list[Found]:
    """All devices, in the order of their numbers.

    UnsupportedError if there is no pyopencl or no platform, or if a parent process has listed them, too.
    """
    use = cl()
    _refuse_in_child()
    _used_in.add(fork_safety.generation())
    try:
        platforms = use.get_platforms()
    except use.Error as error:  # the loader found no driver
        raise UnsupportedError(f"OpenCL has no platform here: {error}") from None
    made: list[Found] = []
    for platform in platforms:
        try:
            devices = platform.get_devices()
        except use.Error:  # a platform without devices
            continue
        for device in devices:
            is_gpu = bool(device.type & use.device_type.GPU)
            driver = f"{platform.version.strip()}, driver {device.driver_version.strip()}"
            name, maker = device.name.strip(), platform.name.strip()
            made.append(Found(len(made), name, maker, driver, is_gpu, _missing(use, device), device))
    return made


def _missing(use: Any, device: Any) -> str | None:
    """The reason why a device cannot compute exactly, as far as it says so itself."""
    if not (device.available and device.compiler_available):
        return "it is not available, or has no compiler"
    if "cl_khr_fp64" not in device.extensions.split():
        return "it has no float64 (cl_khr_fp64)"
    wanted = use.device_fp_config
    needed = {"fma": wanted.FMA, "subnormal numbers": wanted.DENORM, "infinity and NaN": wanted.INF_NAN}
    needed["rounding to nearest"] = wanted.ROUND_TO_NEAREST
    lacking = [name for name, bit in needed.items() if not device.double_fp_config & bit]
    lacking += [f"{name} in float32" for name, bit in needed.items() if name != "fma" and not device.single_fp_config & bit]
    if lacking:
        return f"it has no {', '.join(lacking)}"
    if not device.endian_little or device.max_work_group_size < GROUP:
        return f"it is big-endian, or its groups have fewer than {GROUP} work items"
    return None


def wanted(name: str) -> Found:
    """The device of a name: "opencl", "opencl:1" by number, or "opencl:NAME" by a part of its name or its platform's.

    UnsupportedError if there is none, or if it is refused.
    """
    devices = found()
    _, _, which = name.partition(":")
    if which.isdecimal():
        some = [d for d in devices if d.number == int(which)]
    else:
        some = [d for d in devices if which.lower() in d.title.lower()]
    if not some:
        there = ", ".join(f"{PREFIX}:{d.number} {d.title}" for d in devices)
        raise UnsupportedError(f"there is no device {name!r}; OpenCL has {there or 'none'}")
    usable = [d for d in some if d.refused is None]
    if not usable:
        raise UnsupportedError("; ".join(f"{PREFIX}:{d.number} {d.title} is refused: {d.refused}" for d in some))
    return next((d for d in usable if d.is_gpu), usable[0])


class Opened:
    """A device with a context and a queue that runs commands in order. Made by `opened`, once in each process."""

    def __init__(self, device: Found) -> None:
        self.found, self.generation = device, fork_safety.generation()
        self.use = cl()
        self.context = self.use.Context([device.device])
        self.queue = self.use.CommandQueue(self.context)
        self._queued, self._most_queued = 0, UNITS  # units of work enqueued since the queue was last empty, and their limit
        # a core of its own for each group of work items, and a cache for its memory
        self.is_processor = bool(device.device.type & self.use.device_type.CPU) and device.device.local_mem_size >= 1 << 18
        exact = device.device.single_fp_config & self.use.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        self.options = f"{OPTIONS} -cl-fp32-correctly-rounded-divide-sqrt -DSINGLE_IS_EXACT" if exact else OPTIONS
        self.most_bytes = int(device.device.max_mem_alloc_size)
        self.units = int(device.device.max_compute_units)
        self._own: list[Any] = [self.context, self.queue]
        _inherited.add(self)
        self.program = lru_cache(maxsize=512)(self._program)

    def __repr__(self) -> str:
        return f"<{self.found.title}, {self.found.driver}>"

    def failures(self) -> list[str]:
        """The names of the self-test's checks that fail."""
        program = self.program(selftest.text())

        def run(name: str, given: NDArray[Any], made: NDArray[Any], items: int) -> None:
            x, y = self.allocate(max(given.nbytes, 8)), self.allocate(made.nbytes)
            if given.nbytes:
                self.write(x, given)
            self.write(y, made)
            memories = [x, y] if given.nbytes else [y]
            kernel = self.kernel(program, name)
            kernel.set_args(*memories)
            self.launch(kernel, items, group=1)  # checks have no work items to spare
            self.read(y, made)

        return selftest.failures(run)

    # --- programs ---

    def _program(self, text: str) -> Any:
        """The program of a text, from the disk if it is there. Uncompilable if the driver refuses it."""
        folder = cache.folder()
        name = ""
        if isinstance(folder, Path):
            made_of = (FORMAT, "opencl", self.found.name, self.found.platform, self.found.driver, self.options, text)
            name = store.name_of(repr(made_of).encode())
            binary = optional.attempted("A program on disk is", partial(store.read, folder, name), lambda _: None)
            if binary is not None and (program := self._of_binary(binary)) is not None:
                return program
        with guard:
            from pyopencl._cl import _Program  # the public class keeps programs on disk itself

            try:
                program = _Program(self.context, text)
                program._build(self.options.encode(), [self.found.device])
            except self.use.Error as error:
                reason = f"{self.found.title} does not take the code: {error}"
                optional.left_out("A kernel is", reason[:2000])
                raise Uncompilable(reason) from None
            if isinstance(folder, Path):
                made: Any = program.get_info(self.use.program_info.BINARIES)
                write = partial(store.write, folder, name, made[0], cache.MOST)
                optional.attempted("A program on disk is", write, lambda _: None)
        return self._public(program)

    def _of_binary(self, binary: bytes) -> Any:
        """The program of a file of the cache; None if the driver does not take it any more."""
        from pyopencl._cl import _Program

        with guard:
            try:
                program = _Program(self.context, [self.found.device], [binary])
                program._build(self.options.encode(), [self.found.device])
            except self.use.Error:
                return None
        return self._public(program)

    def _public(self, program: Any) -> Any:
        made = self.use.Program.from_int_ptr(program.int_ptr)
        self._own += [program, made]
        return made

    def kernel(self, program: Any, name: str) -> Any:
        """A kernel with arguments of its own."""
        with guard:
            return self.use.Kernel(program, name)

    def launch(self, kernel: Any, items: int, group: int = GROUP) -> None:
        """Enqueue at least so many work items, in whole groups."""
        self.use.enqueue_nd_range_kernel(self.queue, kernel, (-(-items // group) * group,), (group,))

    def paced(self, units: int) -> None:
        """Note work that was enqueued, and wait for the queue if it has so much that Ctrl-C would wait for long."""
        self._queued += units
        if self._queued >= self._most_queued:
            began = time.perf_counter()
            self.wait()
            spent = time.perf_counter() - began
            if spent < LONG / 4:
                self._most_queued *= 2
            elif spent > LONG:
                self._most_queued = max(UNITS, self._most_queued // 2)

    def wait(self) -> None:
        """Wait for all commands. An interrupt is raised when they have ended."""
        self.queue.finish()
        self._queued = 0

    # --- memory ---

    def allocate(self, nbytes: int) -> Any:
        """Memory on the device, freed with its last reference. MemoryError if there is not enough."""
        if nbytes > self.most_bytes:
            raise MemoryError(f"{nbytes} bytes are wanted on {self.found.title}, which gives at most {self.most_bytes} at once")
        try:
            memory = self.use.Buffer(self.context, self.use.mem_flags.READ_WRITE, max(nbytes, 8))
            if nbytes >= RESIDENT:  # many drivers allocate at the first use, where an error could not name the size
                flags = self.use.mem_migration_flags.CONTENT_UNDEFINED
                self.use.enqueue_migrate_mem_objects(self.queue, [memory], flags)
        except self.use.Error as error:
            raise self.failed(error, nbytes, allocating=True) from None
        return memory

    def write(self, memory: Any, array: NDArray[Any], offset: int = 0) -> None:
        """Copy contiguous bytes to the device. Returns when the array may change."""
        if array.nbytes:
            try:
                self.use.enqueue_copy(self.queue, memory, array, dst_offset=offset, is_blocking=True)
            except self.use.Error as error:
                raise self.failed(error, array.nbytes) from None

    def clear(self, memory: Any, nbytes: int) -> None:
        """Enqueue zeros for the first bytes of memory, a multiple of 4."""
        self.use.enqueue_fill_buffer(self.queue, memory, np.zeros(1, np.uint32), 0, nbytes)

    def read(self, memory: Any, array: NDArray[Any], offset: int = 0) -> None:
        """Copy contiguous bytes from the device, after all commands so far."""
        if array.nbytes:
            try:
                self.use.enqueue_copy(self.queue, array, memory, src_offset=offset, is_blocking=True)
            except self.use.Error as error:
                raise self.failed(error, array.nbytes) from None
            self._queued = 0

    def failed(self, error: Exception, nbytes: int, *, allocating: bool = False) -> Exception:
        """The exception to raise for one of pyopencl's. nbytes: of the memory that was being allocated or used."""
        status = self.use.status_code
        no_room = [status.MEM_OBJECT_ALLOCATION_FAILURE, status.OUT_OF_HOST_MEMORY, status.INVALID_BUFFER_SIZE]
        no_room += [status.OUT_OF_RESOURCES] if allocating else []  # else a sign of a lost device
        if getattr(error, "code", None) in no_room:
            return MemoryError(f"{self.found.title} has no room for {nbytes} bytes: {error}")
        return DeviceLost(f"{self.found.title} is lost, or a command on it failed: {error}; no array was written")


class DeviceLost(UnsupportedError):
    """Raised if a command on an OpenCL device fails. No array was written; buffers may have been, in part."""


_inherited: WeakSet[Opened] = WeakSet()
_used_in: set[int] = set()  # the generations of processes that listed devices: this one and those that it was forked from


def _refuse_in_child() -> None:
    """UnsupportedError if a process that this one was forked from has loaded drivers, were it only to list their devices.

    Drivers have threads and locks, which a fork does not copy: a child that goes on with them may wait for ever.
    """
    if _used_in - {fork_safety.generation()}:
        raise UnsupportedError(
            "the process that was forked had used OpenCL, and its drivers do not work in a child: start processes with "
            "multiprocessing's method spawn or forkserver, or fork before OpenCL devices are listed or opened"
        )


def _in_child() -> None:
    """Keep the objects of the parent's drivers: in a child of a fork, to release one could wait for a thread for ever."""
    for one in _inherited:
        for thing in (one, *one._own):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def opened(name: str) -> Opened:
    """The device of a name, opened and tested once. UnsupportedError if it is refused, or if a parent process used OpenCL."""
    with guard:
        _refuse_in_child()
        return _opened(name)


@lru_cache(maxsize=16)
def _opened(name: str) -> Opened:
    device = wanted(name)
    return _tested(device.platform, device.name, device.number)


@lru_cache(maxsize=16)
def _tested(platform: str, name: str, number: int) -> Opened:
    made = Opened(next(d for d in found() if d.number == number))
    try:
        failed = made.failures()
    except Uncompilable as error:
        raise UnsupportedError(str(error)) from None
    if failed:
        title = f"{PREFIX}:{number} {made.found.title}"
        raise UnsupportedError(f"{title} is refused: its self-test fails for {', '.join(failed)}")
    return made
