"""Pictures of descs: every operator has one, and what it says is what the operator computes."""

import re
import sys
from fractions import Fraction
from math import prod
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest

import anydml as dml
from anydml import operators
from anydml.errors import DescError
from anydml.kernels.reference import elements_of
from anydml.pictures.model import Bars, Beside, Cell, Flow, Grid, Node, Rulers, Table, Text
from anydml.pictures.reads import reads_of
from anydml.pictures.shown import Picture
from anydml.pictures.terminal import plain
from anydml.schema.check import check
from anydml.schema.operator import Desc, example_desc, rejections
from anydml.schema.statement import stated

LARGEST = 200_000  # bytes of an image

SIXTEEN = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)


def block(picture: Picture, kind: type, title: str = "") -> object:
    return next(b for b in picture.blocks if isinstance(b, kind) and title in getattr(b, "title", ""))


def grids(picture: Picture) -> tuple[Grid, ...]:
    found = block(picture, Beside)
    assert isinstance(found, Beside)
    return found.grids


@pytest.mark.parametrize("operator", operators.every(), ids=lambda d: d.spec.name)
def test_every_operator_has_a_picture(operator: type[Desc]) -> None:
    for example in operator.spec.examples[:1]:
        picture = dml.picture(operator(**example.fields))
        image = picture.svg()
        ElementTree.fromstring(image)
        assert len(image.encode()) < LARGEST
        tensors, formula = block(picture, Table, "Tensors"), block(picture, Text)
        assert isinstance(tensors, Table)
        assert isinstance(formula, Text)
        assert len(tensors.rows) == len(list(operator(**example.fields).tensors()))
        assert formula.lines[0]


def test_large_descs_have_small_images() -> None:
    """Many tensors, many dimensions, and sums of many terms."""
    x = dml.TensorDesc("FLOAT32", (1, 2, 3, 4, 5, 6, 7, 8))
    descs = [
        dml.Join(input_tensors=(dml.TensorDesc("FLOAT32", (1, 1, 1, 2)),) * 3000,
                 output_tensor=dml.TensorDesc("FLOAT32", (1, 1, 1, 6000)), axis=3),
        dml.ElementWiseIdentity(input_tensor=x, output_tensor=x),
        dml.Gemm(a_tensor=dml.TensorDesc("FLOAT32", (1, 1, 4096, 65536)),
                 b_tensor=dml.TensorDesc("FLOAT32", (1, 1, 65536, 4096)),
                 output_tensor=dml.TensorDesc("FLOAT32", (1, 1, 4096, 4096))),
    ]  # fmt: skip
    for desc in descs:
        assert len(dml.picture(desc).svg().encode()) < LARGEST
    assert "the first and last terms" in dml.picture(descs[2]).svg()


def test_weights_times_elements_are_the_output() -> None:
    """Of each linear operator's examples, at every element of the first output, in fractions."""
    count = 0
    # of products, the weights of the first input are values of the second
    names = "AVERAGE_POOLING1 CONVOLUTION RESAMPLE3 GEMM MATRIX_MULTIPLY_INTEGER UPSAMPLE_2D FOLD DEPTH_TO_SPACE1"
    for name in names.split():
        operator = operators.find(name)
        if operator is None:
            continue
        for example in operator.spec.examples:
            desc = operator(**example.fields).as_newest()
            output, nest = next(iter(stated(desc).items()))
            arrays = elements_of(example.inputs, {f.name: f.desc for f in desc.tensors()})
            expected = example.outputs.get(output)
            if expected is None or expected.dtype.kind != "f" or getattr(desc, "fused_activation", None) is not None:
                continue
            for at in list(np.ndindex(*nest.sizes))[:16]:
                found = reads_of(nest, at, arrays)
                assert found.whole
                total = Fraction(0)
                for w in found.elements:
                    if w.inside and w.read.tensor in (next(iter(arrays)), "bias_tensor", "c_tensor"):
                        assert w.weight is not None
                        assert None not in w.read.at
                        total += Fraction(w.weight) * Fraction(arrays[w.read.tensor][w.read.at].item())
                assert np.float32(float(total)) == pytest.approx(expected[at], rel=1e-6, abs=1e-6), (name, example.title, at)
                count += 1
    assert count > 60


def test_a_slice_as_grids_and_rulers() -> None:
    picture = dml.picture(dml.slice1, SIXTEEN, (0, 0, 0, 1), (1, 1, 4, 3), (1, 1, -2, 2))
    given, copied = grids(picture)
    numbered = {int(c.order): c.text for row in given.cells for c in row if c.order}
    assert numbered == {1: "14", 2: "16", 3: "6", 4: "8"}
    assert {int(c.order): c.text for row in copied.cells for c in row} == numbered
    assert given.frame == (0, 3, 1, 3)
    rulers = block(picture, Rulers)
    assert isinstance(rulers, Rulers)
    assert [r.picked for r in rulers.rulers] == [(0,), (0,), (3, 1), (1, 3)]


def test_a_ruler_shows_what_a_smaller_output_leaves_out() -> None:
    operator = operators.find("SLICE1")
    assert operator is not None
    rulers = block(dml.picture(operator(**operator.spec.examples[2].fields)), Rulers)
    assert isinstance(rulers, Rulers)
    assert [(r.picked, r.left) for r in rulers.rulers] == [((0,), ()), ((0,), ()), ((3,), (1,)), ((1,), (3,))]
    assert "left out: 3" in rulers.rulers[3].said


@pytest.mark.parametrize("name", ["SLICE1", "SLICE", "CONVOLUTION", "QUANTIZED_LINEAR_MATRIX_MULTIPLY", "PADDING1"])
def test_a_broken_desc_is_drawn_with_its_places_marked(name: str) -> None:
    operator = operators.find(name)
    assert operator is not None
    count = 0
    for breaking in rejections(operator):
        desc = example_desc(operator, breaking.fields)
        try:
            check(desc)
        except DescError as error:
            picture = dml.picture(desc)
            text = plain(picture)
            squeezed = re.sub(r"\s+", "", text)
            for violation in error.violations:
                assert re.sub(r"\s+", "", str(violation)) in squeezed
            ElementTree.fromstring(picture.svg())
            cells: list[Cell] = [c for b in picture.blocks if isinstance(b, Table) for row in b.rows for c in row]
            assert any(c.tone == "fault" for c in cells), breaking.constraint
            count += 1
    assert count > 5


def test_saturation_and_ties_are_counted() -> None:
    """Against fractions, one output at a time."""
    random = np.random.default_rng(3)
    a, b = random.integers(0, 16, (6, 8), np.uint8), random.integers(-8, 8, (8, 9), np.int8)
    picture = dml.picture(dml.quantized_linear_matrix_multiply, a, 0.5, 3, b, 0.5, None, 0.5, 10)
    bars = block(picture, Bars)
    assert isinstance(bars, Bars)
    sums = (a.astype(int) - 3) @ b.astype(int)
    real = [Fraction(int(q), 2) for q in sums.ravel()]
    low, high = sum(round(x) + 10 < 0 for x in real), sum(round(x) + 10 > 255 for x in real)
    ties = sum(x.denominator == 2 for x in real)
    assert low
    assert ties
    assert f"{low} saturate below, {high} above, {ties} are ties, of all 54" in bars.said
    assert sum(bar.count for bar in bars.bars) == 54
    table = block(picture, Table, "Scales")
    assert isinstance(table, Table)
    assert [row[-1].text for row in table.rows] == ["-1.5 to 126", "-64 to 63.5", "-5 to 122.5"]


def test_the_flow_of_attention_names_its_parts() -> None:
    operator = operators.find("MULTIHEAD_ATTENTION1")
    assert operator is not None
    flow = block(dml.picture(example_desc(operator)), Flow)
    assert isinstance(flow, Flow)
    assert {"Query", "Scores", "Weights", "Output"} <= {n.text for n in flow.nodes}
    assert all(i < place for place, n in enumerate(flow.nodes) for i in n.reads)


def test_pictures_show_and_save_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = dml.picture(dml.activation_softmax, np.zeros((2, 3), np.float32))
    picture.show()
    assert "ACTIVATION_SOFTMAX" in capsys.readouterr().out
    assert "softmax" in repr(picture).lower()
    assert "<svg" in picture._repr_html_()
    for name in ("x.svg", "x.html"):
        picture.save(tmp_path / name)
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text == (picture.svg() if name == "x.svg" else picture.html())
        assert not re.search(r'(src|href)="(?!data:)|url\(', text)
    with pytest.raises(ValueError, match=r"as \.svg or \.html"):
        picture.save(tmp_path / "x.png")


def test_in_a_notebook_only_show_displays(monkeypatch: pytest.MonkeyPatch) -> None:
    """rich displays what it prints in a notebook, even what it captures."""
    shown: list[object] = []
    module = ModuleType("IPython.display")
    module.display = shown.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    picture = dml.picture(dml.activation_softmax, np.zeros((2, 3), np.float32))
    assert repr(picture).startswith("ACTIVATION_SOFTMAX\n")
    assert not shown
    picture.show()
    assert shown == [picture]


def test_weights_stand_beside_values_that_are_known() -> None:
    picture = dml.picture(dml.average_pooling1, SIXTEEN, (2, 2), window_size=(2, 2))
    given, _ = grids(picture)
    assert [(c.text, c.order) for row in given.cells for c in row if c.tone == "read"] == [
        ("11", "×1/4"), ("12", "×1/4"), ("15", "×1/4"), ("16", "×1/4"),
    ]  # fmt: skip
    assert "11×1/4" in plain(picture)
    assert {c.text for g in grids(dml.picture(example_desc(dml.AveragePooling1))) for row in g.cells for c in row} == {
        "",
        "1/4",
    }


def test_a_chain_runs_from_left_to_right() -> None:
    nodes = tuple(Node(f"node {i}", "", (i - 1,) if i else ()) for i in range(20))
    image = Picture("a chain", "", (Flow("the flow", nodes),)).svg()
    tree = ElementTree.fromstring(image)
    assert float(tree.attrib["width"]) <= 960
    assert float(tree.attrib["height"]) < 350
    assert all(f">node {i}<" in image for i in range(20))


def test_what_does_not_fit_is_refused() -> None:
    operator = operators.find("SLICE1")
    assert operator is not None
    desc = example_desc(operator)
    with pytest.raises(dml.BindingError, match="is no tensor of the desc"):
        dml.picture(desc, imput_tensor=SIXTEEN)
    with pytest.raises(dml.BindingError, match="input_tensor"):
        dml.picture(desc, input_tensor=SIXTEEN[0])
    with pytest.raises(dml.BindingError, match="is not an element of an output of sizes"):
        dml.picture(desc, at=(0, 0, 5, 5))
    with pytest.raises(TypeError, match="neither a desc nor an eager function"):
        dml.picture(SIXTEEN)


def test_a_bound_operator_is_drawn_with_its_arrays() -> None:
    operator = operators.find("AVERAGE_POOLING")
    assert operator is not None
    example = operator.spec.examples[0]
    desc = operator(**example.fields)
    compiled = dml.Device("cpu").compile(desc)
    out = {name: np.empty_like(x) for name, x in example.outputs.items()}
    picture = dml.picture(compiled.bind(**example.inputs, **out))
    weights = [c for g in grids(picture) for row in g.cells for c in row if c.tone == "read"]
    assert len(weights) == prod(desc.window_size)  # type: ignore[attr-defined]
