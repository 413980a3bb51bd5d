"""Memory of two workers: 2 GB of a Zarr array mirrored and thinned, and 100,000 images classified.

Beside anydml, Dask's own slicing and onnxruntime do the same in the same workers. It takes some minutes, and runs in `make
soak-dask`.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if not os.environ.get("ANYDML_SOAK"):
    pytest.skip("make soak-dask starts clusters", allow_module_level=True)

import dask
import dask.array as da
import zarr
from dask.distributed import Client, LocalCluster

import anydml.dask as lazily
import anydml.onnx

MOST = 400 << 20  # bytes above an idle worker
GIGABYTES = 2
IMAGES = 100_000
DIGITS = Path(__file__).parents[2] / "examples" / "digits"

pytestmark = pytest.mark.filterwarnings("ignore")


def resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) << 10
    return 0


@pytest.fixture
def client() -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit="4GiB"
        ) as cluster,
        Client(cluster) as made,
    ):
        made.run(lambda: __import__("anydml.dask") and __import__("anydml.onnx") and None)
        yield made


def measured(client: Client, act: Callable[[], Any]) -> tuple[Any, float, int]:
    """The result, the seconds, and the largest number of bytes by which a worker grew above what it had before."""
    pids = list(client.run(os.getpid).values())
    idle = {pid: resident(pid) for pid in pids}
    most, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            most[0] = max(most[0], *(resident(pid) - idle[pid] for pid in pids))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    try:
        result = act()
    finally:
        spent = time.perf_counter() - began
        done.set()
        watcher.join()
    return result, spent, most[0]


def test_two_gigabytes_are_mirrored_and_thinned(client: Client, tmp_path: Path) -> None:
    side = 1024
    shape = (GIGABYTES * 512, side, side)  # float16
    rng = np.random.default_rng(0)
    stored = zarr.open(str(tmp_path / "in.zarr"), mode="w", shape=shape, chunks=(8, side, side), dtype="f2")
    block = rng.normal(size=(8, side, side)).astype(np.float16)
    for k in range(0, shape[0], 8):
        block[0, 0, 0] = k
        stored[k : k + 8] = block
    x = da.from_zarr(str(tmp_path / "in.zarr"))
    ours = lazily.slice1(x, (0, 0, 0), shape, (1, -1, -2))
    theirs = x[:, ::-1, ::-2]
    figures = []
    for name, lazy in (("anydml", ours), ("Dask", theirs)):
        store = partial(lazy.to_zarr, str(tmp_path / f"{name}.zarr"), overwrite=True)
        _, seconds, most = measured(client, store)
        figures.append(f"{name}: {seconds:.1f} s, at most {most >> 20} MB per worker above an idle one")
        assert name != "anydml" or most <= MOST
    one, other = (zarr.open(str(tmp_path / f"{name}.zarr"), mode="r") for name in ("anydml", "Dask"))
    assert one.shape == other.shape == (shape[0], side, side // 2)
    for k in range(0, shape[0], 64):
        assert one[k : k + 64].tobytes() == other[k : k + 64].tobytes()
    print(f"{x.nbytes / 1e9:.1f} GB of a Zarr array mirrored and thinned:", *figures, sep="\n  ")
    shutil.rmtree(tmp_path / "in.zarr")


class Session:
    """A task that classifies with onnxruntime; each process has one session."""

    made: Any = None

    def __call__(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        import onnxruntime

        if Session.made is None:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            Session.made = onnxruntime.InferenceSession(str(DIGITS / "cnn-qdq.onnx"), options)
        found: np.ndarray[Any, Any] = Session.made.run(None, {"image": block})[0]
        return found


def test_a_hundred_thousand_images_are_classified(client: Client) -> None:
    model = anydml.onnx.load(DIGITS / "cnn-qdq.onnx")
    x = da.random.default_rng(0).random((IMAGES, 1, 8, 8), chunks=(2000, 1, 8, 8), dtype=np.float32) * np.float32(16)
    ours = model.map_blocks(x)
    theirs = x.map_blocks(
        Session(), dtype=np.float32, chunks=(x.chunks[0], (10,)), drop_axis=(2, 3), meta=np.empty((0, 0), "f4")
    )
    figures, found = [], []
    for name, lazy in (("anydml", ours), ("onnxruntime", theirs)):
        result, seconds, most = measured(client, lazy.compute)
        found.append(result)
        figures.append(f"{name}: {seconds:.1f} s, at most {most >> 20} MB per worker above an idle one")
        assert name != "anydml" or most <= MOST
    with dask.config.set(scheduler="synchronous"):
        some = x[:3000].compute()
    assert found[0][:3000].tobytes() == model.run({"image": some})["logits"].tobytes()
    differ = int((found[0].argmax(1) != found[1].argmax(1)).sum())
    figures.append(f"{differ} of {IMAGES} images are of another class for onnxruntime")
    print(f"{IMAGES} images classified:", *figures, sep="\n  ")
