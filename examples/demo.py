"""Seven uses of anydml. The code of each is printed, followed by its output: python examples/demo.py"""

from __future__ import annotations

import inspect
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import anydml as dml
from anydml.config import config

try:
    import onnxruntime
    from PIL import Image
    from sklearn.datasets import load_sample_image

    from anydml.onnx import compare, load, page
except ImportError as missing:
    needed = "scikit-learn pillow onnx onnxruntime"
    print(f"The demo needs scikit-learn, Pillow, onnx and onnxruntime ({missing}): pip install {needed}", file=sys.stderr)
    raise SystemExit(2) from None

from digits.classify import accuracy, checksum, classify, float_accuracy, held_out


def wrong_desc() -> None:
    desc = dml.Slice1(
        input_tensor=dml.TensorDesc(dml.DataType.FLOAT32, (1, 1, 4, 4)),
        output_tensor=dml.TensorDesc(dml.DataType.FLOAT32, (1, 1, 2, 2)),
        input_window_offsets=(0, 0, 0, 2),
        input_window_sizes=(1, 1, 4, 3),
        input_window_strides=(1, 1, 2, 2),
    )
    try:
        dml.check(desc)
    except dml.DescError as error:
        print(f"DirectML says 0x{error.hresult:08X}; anydml says:\n{error}")


def per_row_scales() -> None:
    random = np.random.default_rng(0)
    a = random.integers(-128, 128, (512, 64), np.int8)
    b = random.integers(0, 256, (64, 512), np.uint8)
    # decimal scales put many values next to a tie, where float32 may round the wrong way; random scales hardly any
    sa = random.choice([0.02, 0.03, 0.05], 512).astype(np.float32)  # per row of A
    sy = random.choice([1.0, 1.5, 2.0], 512).astype(np.float32)  # per row of the output
    sb = np.float32(0.05)
    exact = dml.quantized_linear_matrix_multiply(a, sa, 0, b, float(sb), 128, sy, 0)

    sums = a.astype(np.int32) @ (b.astype(np.int32) - 128)
    usual = np.rint(sums.astype(np.float32) * (sa * sb / sy)[:, np.newaxis]).clip(-128, 127)
    wrong = np.argwhere(usual != exact)
    print(f"float32 requantisation gets {len(wrong)} of {exact.size} outputs wrong,")

    m, n = wrong[0]
    value = int(sums[m, n]) * Fraction(float(sa[m])) * Fraction(float(sb)) / Fraction(float(sy[m]))
    print(f"such as [{m}, {n}]: {float(value):.12f} is {usual[m, n]:.0f} in float32 and {exact[m, n]} in anydml")


def photograph() -> None:
    image = load_sample_image("china.jpg")
    # a window of 400 rows and 360 columns; every second row, and every second column from the right
    pagoda = dml.slice1(image, (20, 40, 0), (400, 360, 3), (2, -2, 1))
    path = Path("out/demo/pagoda.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pagoda).save(path)
    print(f"{path.as_posix()}: {image.shape} -> {pagoda.shape}, {path.stat().st_size} bytes")


def digits() -> None:
    images, labels = held_out()
    print(f"float32         {float_accuracy(images, labels):.2%} of {len(images)} right")
    for name in ("reference", "cpu"):
        predicted, logits, hidden = classify(images, dml.Device(name))
        right = accuracy(predicted, labels)
        print(f"int8 {name:10} {right:.2%} of {len(images)} right, checksum {checksum([hidden, logits])}")

    print(opencl_devices())
    try:
        device = dml.Device("opencl")
    except dml.UnsupportedError:
        return
    predicted, logits, hidden = classify(images, device)
    print(f"int8 opencl     {accuracy(predicted, labels):.2%} of {len(images)} right, checksum {checksum([hidden, logits])}")


def opencl_devices() -> str:
    found = config()["opencl"]
    names = [one["device"] + " " + one["name"] + (", refused" if one["refused"] else "") for one in found["devices"]]
    return f"OpenCL devices: {'; '.join(names) or found['why']}"


def program() -> None:
    folder = Path(sys.argv[0]).with_name("programs") / "digits"  # program.json and its .npy files
    command = ["run", folder.as_posix(), "--output-path", "out/demo"]
    print("$", shlex.join(["anydml", *command]), flush=True)
    subprocess.run([sys.executable, "-m", "anydml.cli.main", *command], check=True)
    logits = np.load("out/demo/logits.npy")
    images, _ = held_out()
    same = np.array_equal(logits, classify(images[: len(logits)], dml.Device())[1])
    print(f"out/demo/logits.npy: {logits.shape}, the same as in part 4: {same}")


MODELS = Path(sys.argv[0]).with_name("digits")


def networks() -> None:
    pixels, labels = held_out()
    logits = {}
    for name in ("cnn", "cnn-qlinear", "cnn-qdq", "encoder"):
        model = load(MODELS / f"{name}.onnx")
        shape = (-1, 8, 8) if name == "encoder" else (-1, 1, 8, 8)  # rows are the encoder's tokens
        images = (pixels / 16).astype(np.float32).reshape(shape)
        logits[name] = model.run(image=images)["logits"]
        few = model.run(image=images[:2], device="reference")["logits"]
        same = few.tobytes() == logits[name][:2].tobytes()
        right = accuracy(logits[name].argmax(axis=1), labels)
        print(f"{name:11} {right:.2%} of {len(images)} right, checksum {checksum([logits[name]])}, reference alike: {same}")
    noise = (np.random.default_rng(0).integers(0, 17, (20000, 1, 8, 8)) / 16).astype(np.float32)
    of_noise = [load(MODELS / f"{name}.onnx").run(image=noise)["logits"] for name in ("cnn-qlinear", "cnn-qdq")]
    on_digits, on_noise = ((a != b).any(axis=1).sum() for a, b in ((logits["cnn-qlinear"], logits["cnn-qdq"]), of_noise))
    print(f"the integer network's two forms differ on {on_digits} digits and {on_noise} of 20000 random images: two functions")


def node_by_node() -> None:
    images = (held_out()[0] / 16).astype(np.float32).reshape(-1, 1, 8, 8)

    def run(model: Any, inputs: Any) -> Any:
        session = onnxruntime.InferenceSession(model.SerializeToString())
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, inputs), strict=True))

    found = compare(MODELS / "cnn-qlinear.onnx", {"image": images}, run)
    for node in found.nodes:
        print(f"{node.name:10} {node.verdict:16} own error: {node.own}")
    print(found)
    written = Path("out/demo/cnn-qlinear.html")
    written.write_text(page(found, "cnn-qlinear.onnx", "onnxruntime"), encoding="utf-8")
    print(f"the page with the graph: {written.resolve()}")


def show(title: str, *functions: Callable[..., Any]) -> None:
    """Print the source of functions, then run the last one, so that the code that is shown is the code that runs."""
    print(title)
    for function in functions:
        print("\n" + textwrap.indent(inspect.getsource(function).rstrip(), "    "))
    print()
    functions[-1]()
    print("\n")


if __name__ == "__main__":
    show("1. A SLICE1 whose window leaves its input", wrong_desc)
    show(
        "2. int8 x uint8 with scales per row of A and of the output: onnxruntime refuses each of the three",
        per_row_scales,
    )
    show("3. A photograph cropped, mirrored and thinned by one SLICE1", photograph)
    show("4. Handwritten digits, classified by two quantised matmuls", classify, digits)
    show("5. The same network as a program in DxDispatch's JSON format, run from the command line", program)
    show("6. ONNX models, exactly: a convolutional network in float32 and in two integer forms, and a transformer", networks)
    show("7. onnxruntime judged node by node, on the inputs that each node had there", node_by_node)
