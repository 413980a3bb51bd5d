"""Two worker processes on loopback: the bits of the whole, and of a worker that was killed nothing is missing.

A cluster takes some seconds to start: these tests run in `make soak-dask`.
"""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml
from dask_cases import CASES, random_chunks

if not os.environ.get("ANYDML_SOAK"):
    pytest.skip("make soak-dask starts clusters", allow_module_level=True)

import dask.array as da
from dask.distributed import Client, LocalCluster

import anydml.dask as lazily
from anydml.devices.device import Device

CHUNKINGS = 500
AT_A_TIME = 50  # chunkings that are computed at a time
DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None) as cluster,
        Client(cluster) as made,
    ):
        yield made


@pytest.mark.filterwarnings("ignore")  # of the cluster
@pytest.mark.parametrize("name", CASES)
def test_random_chunks_on_two_workers_have_the_bits_of_the_whole(name: str, client: Client) -> None:
    rng = np.random.default_rng([zlib.crc32(name.encode()), 1])
    count = 0
    while count < CHUNKINGS:
        lazy: list[Any] = []
        wanted: list[Any] = []
        case = CASES[name](rng)
        whole = getattr(dml, case.function)(*case.arrays, **case.arguments)
        for _ in range(AT_A_TIME):
            arrays = [
                da.from_array(x, chunks=random_chunks(rng, x.shape)) if isinstance(x, np.ndarray) else x for x in case.arrays
            ]
            made = getattr(lazily, case.function)(*arrays, **case.arguments)
            lazy += made if isinstance(made, tuple) else [made]
            wanted += whole if isinstance(whole, tuple) else [whole]
        for got, expected in zip(client.compute(lazy, sync=True), wanted, strict=True):
            assert got.tobytes() == expected.tobytes(), name
        count += AT_A_TIME
    print(f"{name}: {count} chunkings on {len(client.scheduler_info()['workers'])} workers")


def compiled_here(compiled: Any, x: np.ndarray[Any, Any]) -> tuple[int, int, np.ndarray[Any, Any]]:
    result = np.empty_like(x)
    compiled.bind(input_tensor=x, output_tensor=result).execute()
    return os.getpid(), id(compiled.built), result


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_operator_is_compiled_once_in_each_worker(client: Client) -> None:
    t = dml.TensorDesc("FLOAT32", (100,))
    compiled = Device("cpu", threads=1).compile(dml.ElementWiseExp(input_tensor=t, output_tensor=t))
    xs = [np.full(100, k, np.float32) for k in range(20)]
    found = client.gather([client.submit(compiled_here, compiled, x, pure=False) for x in xs])
    assert len({pid for pid, _, _ in found}) == len({(pid, built) for pid, built, _ in found}) <= 2
    for x, (_, _, result) in zip(xs, found, strict=True):
        assert result.tobytes() == dml.element_wise_exp(x).tobytes()


@pytest.mark.filterwarnings("ignore")
def test_nothing_is_missing_of_a_worker_that_was_killed(client: Client) -> None:
    pytest.importorskip("onnx")
    import anydml.onnx

    rng = np.random.default_rng(5)
    images = rng.random((4000, 1, 8, 8)).astype(np.float32) * 16
    model = anydml.onnx.load(DIGITS / "cnn-qdq.onnx")
    wanted = model.run({"image": images})["logits"]
    a, b = rng.normal(size=(300, 2000)).astype(np.float32), rng.normal(size=(2000, 200)).astype(np.float32)

    def slowly(block: Any) -> Any:
        time.sleep(0.02)
        return block

    lazy = model.map_blocks(da.from_array(images, chunks=(25, 1, 8, 8)).map_blocks(slowly, dtype=np.float32))
    product = lazily.gemm(
        da.from_array(a, chunks=(100, 70)).map_blocks(slowly, dtype=np.float32), da.from_array(b, chunks=(90, 80))
    )
    before = set(client.run(os.getpid).values())
    futures = client.compute([lazy, product])
    time.sleep(1.0)
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    got, multiplied = client.gather(futures)
    assert got.tobytes() == wanted.tobytes()
    assert multiplied.tobytes() == dml.gemm(a, b).tobytes()
    assert victim not in client.run(os.getpid).values()
    print(f"worker {victim} was killed while {len(product.dask) + len(lazy.dask)} tasks ran")
