"""The demo's output, and the truth of its statements about other libraries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import anydml as dml

EXAMPLES = Path(__file__).parents[1] / "examples"

# All hidden values and logits of the committed weights, computed once in rational arithmetic without anydml.
DIGITS_CHECKSUM = "e0ba894f4b639dd2"

# The logits of the committed models: exact, so the same on every machine and instruction set.
MODEL_CHECKSUMS = {
    "cnn": "b150ef4e0132f54c",
    "cnn-qlinear": "c62b6a0ebdbf2c10",
    "cnn-qdq": "c62b6a0ebdbf2c10",
    "encoder": "cb06c3676c3e473e",
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The demo's output, and the folder in which it ran."""
    pytest.importorskip("sklearn")
    pytest.importorskip("PIL")
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("demo")
    return run_script(EXAMPLES / "demo.py", folder), folder


def run_script(script: Path, folder: Path) -> str:
    package = str(Path(dml.__file__).parents[1])  # the anydml under test, installed or not
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_demo_has_seven_parts_each_with_its_code(demo: tuple[str, Path]) -> None:
    text, _ = demo
    parts = re.split(r"^(?=\d\. )", text, flags=re.MULTILINE)[1:]
    assert [part[:2] for part in parts] == ["1.", "2.", "3.", "4.", "5.", "6.", "7."]
    for part in parts:
        assert re.search(r"^    def \w+\(", part, flags=re.MULTILINE), part


def test_demo_part_1_explains_the_wrong_desc(demo: tuple[str, Path]) -> None:
    assert (
        "\nDirectML says 0x80070057; anydml says:\n"
        "Slice1.window_inside_input: input_window_offsets[3] is 2 and input_window_sizes[3] is 3; "
        "they must add up to at most input_tensor.sizes[3] (4): the window lies inside the input\n"
    ) in demo[0]


def test_demo_part_2_counts_the_usual_requantisation_s_errors(demo: tuple[str, Path]) -> None:
    counted = re.search(r"^float32 requantisation gets (\d+) of 262144 outputs wrong", demo[0], flags=re.MULTILINE)
    assert counted
    assert 0 < int(counted[1]) < 300  # 98 here; NumPy does not promise the same random numbers in every version


def test_demo_part_2_shows_a_near_tie_that_anydml_rounds_right(demo: tuple[str, Path]) -> None:
    shown = re.search(r"^such as .*: (-?\d+\.\d{12}) is (-?\d+) in float32 and (-?\d+) in anydml", demo[0], re.MULTILINE)
    assert shown
    assert round(float(shown[1])) == int(shown[3]) != int(shown[2])


def test_demo_part_3_writes_the_photograph_cropped_mirrored_and_thinned(demo: tuple[str, Path]) -> None:
    from PIL import Image
    from sklearn.datasets import load_sample_image

    text, folder = demo
    written = re.search(r"^(out/demo/\w+\.png): ", text, flags=re.MULTILINE)
    assert written
    with Image.open(folder / written[1]) as image:
        pixels = np.asarray(image)
    window = load_sample_image("china.jpg")[20:420, 40:400]
    np.testing.assert_array_equal(pixels, window[::2, ::-2])


def test_demo_part_4_classifies_alike_on_both_devices_and_nearly_as_well_as_float32(demo: tuple[str, Path]) -> None:
    accuracies = re.findall(r"^(float32|int8 reference|int8 cpu) +([\d.]+)% of 360 right", demo[0], flags=re.MULTILINE)
    assert [name for name, _ in accuracies] == ["float32", "int8 reference", "int8 cpu"]
    float32, reference, cpu = (float(percent) for _, percent in accuracies)
    assert reference == cpu >= float32 - 1
    assert float32 > 95
    there = re.findall(r"^int8 .*checksum ([0-9a-f]{16})$", demo[0], flags=re.MULTILINE)
    assert set(there) == {DIGITS_CHECKSUM}
    assert len(there) in (2, 3)  # an OpenCL device, if there is one


def test_demo_part_5_runs_a_program_from_the_command_line(demo: tuple[str, Path]) -> None:
    text, folder = demo
    assert re.search(r"^\$ anydml run .*/examples/programs/digits'? --output-path out/demo$", text, flags=re.MULTILINE)
    assert "\nout/demo/logits.npy: (32, 10), the same as in part 4: True\n" in text
    assert np.load(folder / "out" / "demo" / "logits.npy").shape == (32, 10)


def test_demo_part_6_runs_the_models_exactly(demo: tuple[str, Path]) -> None:
    pattern = r"^([\w-]+) +([\d.]+)% of 360 right, checksum ([0-9a-f]{16}), reference alike: (\w+)$"
    found = re.findall(pattern, demo[0], flags=re.MULTILINE)
    assert {name: checksum for name, _, checksum, _ in found} == MODEL_CHECKSUMS
    for _, percent, _, same in found:
        assert float(percent) > 97
        assert same == "True"
    differing = re.search(r"forms differ on (\d+) digits and (\d+) of 20000 random images", demo[0])
    assert differing
    assert int(differing[1]) == 0
    assert 0 < int(differing[2]) < 100  # 8 here; NumPy does not promise the same random numbers in every version


def test_demo_part_7_judges_onnxruntime_node_by_node(demo: tuple[str, Path]) -> None:
    text, folder = demo
    rows = re.findall(r"^(\w+) +(equal|rounding|beyond rounding) +own error: ", text, flags=re.MULTILINE)
    assert [name for name, _ in rows] == ["quantized", "conv1", "pool1", "conv2", "pool2", "flat", "classify", "logits"]
    page = (folder / "out" / "demo" / "cnn-qlinear.html").read_text(encoding="utf-8")
    assert f"the page with the graph: {folder}" in text
    assert page.count('<rect class="box"') == 8
    assert "http" not in page


def test_classify_is_a_script(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    assert run_script(EXAMPLES / "digits" / "classify.py", tmp_path).count(DIGITS_CHECKSUM) == 2


def test_demo_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "sklearn.py").write_text("raise ModuleNotFoundError('No module named sklearn')\n", encoding="utf-8")
    package = str(Path(dml.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), package])}
    command = [sys.executable, str(EXAMPLES / "demo.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"The demo needs .*pip install scikit-learn pillow onnx onnxruntime\n", done.stderr)


def test_digits_weights_are_small_and_of_the_promised_types() -> None:
    path = EXAMPLES / "digits" / "weights.npz"
    assert path.stat().st_size < 20_000
    with np.load(path) as weights:
        assert {name: (array.shape, array.dtype.name) for name, array in weights.items()} == {
            "w1": ((65, 33), "int8"),
            "w1_scale": ((33,), "float32"),
            "hidden_scale": ((1, 1), "float32"),
            "w2": ((33, 10), "int8"),
            "w2_scale": ((10,), "float32"),
            "logits_scale": ((1, 1), "float32"),
            "logits_zero_point": ((1, 1), "int8"),
            "float_w1": ((64, 32), "float32"),
            "float_b1": ((32,), "float32"),
            "float_w2": ((32, 10), "float32"),
            "float_b2": ((10,), "float32"),
        }


# The demo's statements about onnxruntime. Each case changes one thing that onnxruntime then refuses.
ACCEPTED = {"a": "int8", "b": "int8", "y": "int8", "a_scale": (), "y_scale": ()}


def qlinearmatmul(case: dict[str, Any]) -> npt.NDArray[Any]:
    """A 4 x 8 by 8 x 3 QLinearMatMul of ones by onnxruntime; zero points per tensor, scales as given by the case."""
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    feeds = {
        "a": np.ones((4, 8), case["a"]),
        "a_scale": np.ones(case["a_scale"], np.float32),
        "a_zero_point": np.zeros((), case["a"]),
        "b": np.ones((8, 3), case["b"]),
        "b_scale": np.ones((), np.float32),
        "b_zero_point": np.zeros((), case["b"]),
        "y_scale": np.ones(case["y_scale"], np.float32),
        "y_zero_point": np.zeros((), case["y"]),
    }

    def value_info(name: str, array: npt.NDArray[Any]) -> Any:
        return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    node = onnx.helper.make_node("QLinearMatMul", list(feeds), ["y"])
    inputs = [value_info(name, array) for name, array in feeds.items()]
    graph = onnx.helper.make_graph([node], "matmul", inputs, [value_info("y", np.ones((4, 3), case["y"]))])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # the refusal is an exception, and need not be logged
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    result: npt.NDArray[Any] = session.run(None, feeds)[0]
    return result


def test_onnxruntime_takes_what_the_refused_cases_start_from() -> None:
    np.testing.assert_array_equal(qlinearmatmul(ACCEPTED), np.full((4, 3), 8, np.int8))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"b": "uint8"}, "NOT_IMPLEMENTED", id="int8 x uint8"),
        pytest.param({"a_scale": (4,)}, "scale must be a scalar", id="a_scale per row"),
        pytest.param({"y_scale": (4,)}, "scale must be a scalar", id="y_scale per row"),
        pytest.param({"b": "uint8", "a_scale": (4,), "y_scale": (4,)}, "NOT_IMPLEMENTED", id="the demo's"),
    ],
)
def test_onnxruntime_refuses(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        qlinearmatmul({**ACCEPTED, **change})
