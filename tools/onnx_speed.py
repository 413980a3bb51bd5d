"""Times the kernels of each model of a folder on the model's own tensors and on normal numbers, to find data that are slow.

python tools/onnx_speed.py FOLDER [--only WORD] [--seconds 300] [--size N=4]

The data determine which elements a kernel decides in its first stage, so a model's own tensors may take longer than random
ones. Every model is run on one thread. Each call of its graphs is timed twice, by processor time, the best of several: on the
tensors that it has in the model, and with standard normal numbers in all float tensors that are not constant. The ratio of a
model is the sum of the first times divided by the sum of the second. Nodes that are not in graphs, such as NonZero, are not
timed.

Inputs resemble those that models read, by their shapes: photographs (from 0 to 1 and from 0 to 255), digits, voiced sounds
with pauses and their spectra, rounded numbers, states of 0; and inputs that are all 0. Sizes that a model does not give are 1;
those of images are 224.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sklearn.datasets import load_digits, load_sample_images

import anydml as dml
import anydml.onnx
from anydml.devices.graph import CompiledGraph
from anydml.onnx.compare_runtimes import drawn
from anydml.onnx.errors import ModelError
from onnx_folder import of_folder

Array = Any  # NumPy's
MOST = 5.0  # times the time of normal numbers, above which data are slow
SEEN = 100.0  # microseconds from which a slow call is listed
KINDS = ("as in use", "photograph 0 to 255", "zeros")
STEP = 0.01  # seconds for which a call is repeated, at least twice


def pixels(height: int, width: int, channels: int) -> Array:
    """A photograph from 0 to 1, whose rows and columns are selected or repeated to fill the sizes."""
    image = load_sample_images().images[0] / 255
    rows, columns = (np.arange(n) * have // n for n, have in ((height, image.shape[0]), (width, image.shape[1])))
    found = image[rows][:, columns]
    return found[..., np.arange(channels) % 3] if channels > 1 else found.mean(-1, keepdims=True)


def digit(length: int) -> Array:
    """A digit of 28 x 28 from 0 to 1, as a row, followed by zeros."""
    image = load_digits().images[3].repeat(4, 0).repeat(4, 1)[2:30, 2:30] / 16
    return np.pad(image.ravel(), (0, length - image.size))


def sound(length: int) -> Array:
    """A voice at 16 kHz: harmonics of a pitch that moves, in syllables with pauses between them."""
    at = np.arange(length) / 16_000
    pitch = 2 * np.pi * np.cumsum(120 + 30 * np.sin(4 * at)) / 16_000
    voiced = sum(np.sin(k * pitch) / k for k in range(1, 20))
    return 0.2 * voiced * np.maximum(np.sin(2 * np.pi * 3 * at + 0.5), 0)


def spectra(frames: int, length: int) -> Array:
    """The magnitudes of a voice's frequencies, in frames."""
    wave = sound(2 * length * frames + 2).reshape(-1)[: 2 * length * frames].reshape(frames, 2 * length)
    return np.abs(np.fft.rfft(wave * np.hanning(2 * length)))[:, :length]


def alike(name: str, sizes: tuple[int, ...], scale: float) -> Array:
    """Data that resemble a model's input of these sizes."""
    last = sizes[-1] if sizes else 1
    if "state" in name or name.startswith("h0") or name in ("input_3", "input_5"):
        return np.zeros(sizes)
    if len(sizes) == 4 and sizes[1] in (1, 3, 4) and (sizes[2], last) == (28, 28):
        return digit(784).reshape(28, 28) * scale + np.zeros(sizes)
    if len(sizes) == 4 and sizes[1] in (1, 3, 4) and not (sizes[1] == 1 and last % 2 and last > 99):
        return pixels(sizes[2], last, sizes[1]).transpose(2, 0, 1) * scale + np.zeros(sizes)
    if len(sizes) == 4 and last in (1, 3, 4):
        return pixels(sizes[1], sizes[2], last) * scale + np.zeros(sizes)
    total = int(np.prod(sizes))
    if 784 <= total < 800:
        return digit(total).reshape(sizes)
    if len(sizes) > 1 and last > 99 and len(sizes) > 2:
        return spectra(total // last, last).reshape(sizes)
    if total > 256 and total == last:
        return sound(total).reshape(sizes)
    return np.rint(np.random.default_rng(0).normal(size=sizes) * 2)


def opened(model: Any, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The sizes of a model's inputs."""
    found = {}
    for name, signature in model.inputs.items():
        given = list(signature.sizes or ())
        places = () if len(given) != 4 else (2, 3) if given[1] in (1, 3, 4) else (1, 2) if given[3] in (1, 3, 4) else ()
        found[name] = tuple(
            n if isinstance(n, int) else sizes.get(n or "", 224 if i in places else 1) for i, n in enumerate(given)
        )
    return found


def inputs(model: Any, sizes: Mapping[str, int]) -> Iterator[tuple[str, dict[str, Array]]]:
    """The inputs of a model, of each kind that it has."""
    random = drawn(model, 0, sizes)
    shapes = opened(model, sizes)
    floats = [name for name, x in random.items() if x.dtype.kind == "f"]
    made: list[dict[str, Array]] = []
    for kind in KINDS:
        given = dict(random)
        for name, shape in shapes.items():
            dtype = random[name].dtype
            if name in floats:
                own = np.zeros(shape) if kind == "zeros" else alike(name, shape, 255 if kind.endswith("255") else 1)
                given[name] = np.ascontiguousarray(own.astype(dtype))
        if not made or any(given[name].tobytes() != made[0][name].tobytes() for name in floats):
            made.append(given)
            yield kind, given


def graphs(model: Any, given: Mapping[str, Array], device: dml.Device) -> list[tuple[CompiledGraph, dict[str, Array]]]:
    """The graphs that a run computes, each with its last arrays."""
    found: list[tuple[CompiledGraph, dict[str, Array]]] = []
    plain = CompiledGraph.bind

    def noting(self: CompiledGraph, *args: Any, **arrays: Any) -> Any:
        found.append((self, arrays))
        return plain(self, *args, **arrays)

    with mock.patch.object(CompiledGraph, "bind", noting):
        model.run(given, device=device)
    return found


def best(run: Callable[[], object], restore: Callable[[], None]) -> float:
    """The least processor time of some calls, in microseconds."""
    least, spent, rounds = float("inf"), 0.0, 0
    while rounds < 2 or (spent < STEP and rounds < 20):
        restore()
        began = time.thread_time()
        run()
        took = time.thread_time() - began
        least, spent, rounds = min(least, took), spent + took, rounds + 1
    return least * 1e6


def put(values: Mapping[str, Array], into: Mapping[str, Array]) -> None:
    for name, x in values.items():
        if into[name].flags.writeable:
            into[name][...] = x


def calls(compiled: CompiledGraph, arrays: Mapping[str, Array]) -> Iterator[tuple[str, str, float, float]]:
    """Every call of a graph: its nodes, its kernel, and its time on its own tensors and on normal numbers."""
    random = np.random.default_rng(0)
    for run in compiled.call.runs(compiled.bind(**arrays).arrays):
        own = {name: x.copy() for name, x in run.changing.items()}
        normal = {
            name: np.asarray(random.standard_normal(x.shape), x.dtype) if x.dtype.kind == "f" else x for name, x in own.items()
        }
        if run.part is None:
            run.execute()
            continue
        with np.errstate(all="ignore"):
            of_normal, of_own = (best(run.execute, partial(put, values, run.changing)) for values in (normal, own))
        yield run.part.title, run.part.kernel_name, of_own, of_normal


def timed(file: Path, sizes: Mapping[str, int]) -> dict[str, Any]:
    """A model's times by kind of input, and its slow calls."""
    device = dml.Device("cpu", threads=1)
    found: dict[str, Any] = {}
    slow = []
    model = anydml.onnx.load(file)
    for kind, given in inputs(model, sizes):
        rows = [row for graph, arrays in graphs(anydml.onnx.load(file), given, device) for row in calls(graph, arrays)]
        own, normal = sum(row[2] for row in rows), sum(row[3] for row in rows)
        found[kind] = (own, normal)
        slow += [(kind, *row) for row in rows if row[2] > MOST * row[3] and row[2] > SEEN]
    return {"times": found, "slow": slow}


def tried(file: Path, sizes: Mapping[str, int]) -> dict[str, Any]:
    """A model's times, or the reason why it is refused."""
    try:
        return timed(file, sizes)
    except ModelError as error:
        return {"refused": str(error)[:200]}


def main() -> int:
    ratios: list[float] = []
    for title, found, printed in of_folder(__doc__, tried, lambda reason: {"refused": reason}, 300):
        if "refused" in found or not any(normal for _, normal in found["times"].values()):
            continue
        kind = max(found["times"], key=lambda k: found["times"][k][0] / max(found["times"][k][1], 1e-9))
        own, normal = found["times"][kind]
        ratios.append(own / normal)
        if not printed:
            print(f"| {title} | {own / 1000:.3f} ms | {ratios[-1]:.1f} | {kind} |", flush=True)
            for at, nodes, kernel, of_own, of_normal in found["slow"]:
                print(f"    {at}: {nodes} ({kernel}): {of_own:.0f} us, {of_own / of_normal:.1f} times", flush=True)
    within = sum(ratio <= MOST for ratio in ratios)
    print(f"{within} of {len(ratios)} models take at most {MOST:g} times the time of normal numbers", end="", file=sys.stderr)
    if ratios:
        print(f"; the median is {statistics.median(ratios):.2f}, the largest {max(ratios):.1f}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
