"""Files that are no models, damaged files, and mutated ones: each is refused with ModelError, or read, in bounded time."""

from __future__ import annotations

import struct
from functools import lru_cache

import numpy as np
import pytest

import anydml.tflite
from anydml.tflite.read import read
from every_kernel import SOAK, Ran
from lite_cases import CASES
from lite_models import Writer
from lite_networks import network


@lru_cache
def files() -> list[bytes]:
    return [network(np.random.default_rng(0)), *(case.made(0)[0] for case in CASES[::9])]


def mutated(data: bytes, random: np.random.Generator) -> bytes:
    """A file with some bytes, words, offsets or lengths replaced, or a part removed, repeated or cut off."""
    made = bytearray(data)
    for _ in range(int(random.choice([1, 1, 2, 3]))):
        at = int(random.integers(0, len(made)))
        kind = random.choice(6, p=[0.25, 0.15, 0.25, 0.15, 0.1, 0.1])
        if kind == 0:
            made[at] = int(random.integers(0, 256))
        elif kind == 1 and at + 4 <= len(made):
            words = [0, 1, 4, 2**31 - 1, 2**31, 2**32 - 1, len(made), len(made) - at, int(random.integers(2**32))]
            word = words[random.integers(len(words))]
            made[at : at + 4] = struct.pack("<I", int(word))
        elif kind == 2:
            made[at] ^= 1 << int(random.integers(8))
        elif kind == 3 and at + 4 <= len(made):  # an offset that leads elsewhere in the file
            made[at : at + 4] = struct.pack("<i", int(random.integers(-at, len(made) - at)))
        elif kind == 4:
            del made[at : at + int(random.integers(1, 9))]
        else:
            made[at:at] = made[max(at - 8, 0) : at]
        if len(made) < 8:
            break
    return bytes(made[: int(random.integers(len(made)))]) if random.integers(20) == 0 else bytes(made)


def test_mutated_files_are_refused_or_read(ran: Ran) -> None:
    random = np.random.default_rng(11)
    cases = taken = 0
    resource = pytest.importorskip("resource")  # of POSIX
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(4000 * SOAK):
        data = mutated(files()[int(random.integers(len(files())))], random)
        try:
            model = anydml.tflite.load(data)
            taken += 1
            model.check()
        except anydml.tflite.ModelError:
            pass
        cases += 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most < 1 << 20  # in kB
    assert taken > cases / 20
    ran(cases, 4000 * SOAK)


def test_mutated_models_that_are_read_run_or_are_refused(ran: Ran) -> None:
    random = np.random.default_rng(12)
    cases = 0
    for _ in range(4000):
        data = mutated(files()[int(random.integers(len(files())))], random)
        try:
            model = anydml.tflite.load(data)
            if sum(t.data is None and np.prod(t.sizes) > 10_000 for t in model.read.tensors) or model.check():
                continue
            inputs = {n: np.ones(model.tensors[n].sizes, s.dtype) for n, s in model.inputs.items()}
            model.run(inputs)
        except (anydml.tflite.ModelError, anydml.DataError):
            continue
        cases += 1
        if cases == 12 * SOAK:
            break
    ran(cases, 12)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not a .tflite file"),
        (b"\x08\x00\x00\x00ONNX" + bytes(40), "not a .tflite file"),
        (b"\x08\x00\x00\x00TFL3", "beyond its end"),
        (b"\xff\xff\xff\x7fTFL3" + bytes(40), "beyond its end"),
    ],
)
def test_what_is_no_model_is_said(data: bytes, said: str) -> None:
    with pytest.raises(anydml.tflite.ModelError, match=said):
        anydml.tflite.load(data)


def test_a_vector_longer_than_the_file_is_refused() -> None:
    data = bytearray(network(np.random.default_rng(0)))
    at = data.index(b"spectrum") - 4
    data[at : at + 4] = struct.pack("<I", 2**31)
    with pytest.raises(anydml.tflite.ModelError, match="a vector ends beyond the file"):
        anydml.tflite.load(bytes(data))


def one(dtype: str, sizes: tuple[int, ...], data: bytes | None = None, **more: object) -> bytes:
    writer = Writer()
    x = writer.tensor("x", dtype, sizes, data=data, **more)  # type: ignore[arg-type]
    return writer.model([x], [x])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (one("int8", (3,), b"12"), "take 3 bytes, and it has 2"),
        (one("bool", (2,), b"\x01\x02"), "neither 0 nor 1"),
        (one("INT4", (3,), b"1"), "of INT4 take 2 bytes"),
        (one("int8", (-1,)), "its sizes are"),
        (one("int8", (2,) * 9), "9 dimensions"),
        (one("int8", (2**16,) * 3), "too many elements"),
        (one("int8", (3,), scale=[0.1, 0.2]), "2 scales along dimension 0"),
        (one("int8", (3,), scale=-1.0), "a scale is -1.0"),
        (one("int8", (3,), scale=1.0, zero_point=300), "zero point 300"),
        (one("STRING", (3,)), "elements of STRING"),
        (one("COMPLEX64", (3,)), "elements of COMPLEX64"),
    ],
)
def test_a_tensor_that_is_not_valid_says_why(data: bytes, said: str) -> None:
    with pytest.raises(anydml.tflite.ModelError, match=said):
        anydml.tflite.load(data)


def test_a_node_of_tensors_that_are_not_there() -> None:
    writer = Writer()
    x = writer.tensor("x", "int8", (3,))
    writer.node("RELU", [x], [7])
    with pytest.raises(anydml.tflite.ModelError, match="names a tensor that the file lacks"):
        anydml.tflite.load(writer.model([x], [x]))


def test_an_absent_input_is_refused_but_for_a_bias() -> None:
    writer = Writer()
    x, y = writer.tensor("x", "float32", (2, 3)), writer.tensor("y", "float32", (2, 2))
    z = writer.tensor("z", "float32", (2, 4))
    writer.node("FULLY_CONNECTED", [x, writer.constant("w", np.ones((2, 3)), "float32"), -1], [y], "FullyConnectedOptions")
    writer.node("CONCATENATION", [y, -1], [z], "ConcatenationOptions", Axis=1)
    (refused,) = anydml.tflite.load(writer.model([x], [z])).check()
    assert (refused.operator, refused.reason) == ("CONCATENATION", "its input 1 is absent, and is not optional")


def test_constants_of_4_bits_are_unpacked() -> None:
    found = read(one("INT4", (3,), b"\x2f\x08", scale=0.5))
    data = found.tensors[0].data
    assert data is not None
    assert data.tolist() == [-1, 2, -8]


def test_names_that_are_used_twice_are_told_apart() -> None:
    writer = Writer()
    x, y = writer.tensor("same", "float32", (3,)), writer.tensor("same", "float32", (3,))
    writer.node("RELU", [x], [y])
    model = anydml.tflite.load(writer.model([x], [y]))
    assert [*model.inputs, *model.outputs] == ["same", "same#1"]
    assert model.run({"same": np.array([-1, 0, 2], np.float32)})["same#1"].tolist() == [0, 0, 2]
