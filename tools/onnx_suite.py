"""Runs ONNX's own tests on anydml, and reports how many pass, which are refused and why, and which fail.

python tools/onnx_suite.py [--suite node] [--only WORD] [--without WORD] [--type NAME] [--failures]
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.backend.test.loader as loader
from onnx import numpy_helper

import anydml.onnx
from anydml import DataType
from anydml.onnx.errors import ModelError, Refusal
from anydml.tensor import of_ml_dtypes

PASSED, REFUSED, FAILED = "passed", "refused", "failed"


class Outcome(NamedTuple):
    name: str
    kind: str
    reason: str
    seconds: float
    refusals: tuple[Refusal, ...] = ()


def cases(suite: str) -> list[Any]:
    """The tests of a suite: "node", "simple", "pytorch-operator", "pytorch-converted", or "real": nine networks of images."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests' own arithmetic
        return sorted(loader.load_model_tests(kind=suite), key=lambda c: str(c.name))


def data_sets(case: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """The inputs and the outputs of each data set of a test."""
    if case.data_sets is None and case.model_dir is None:
        yield _network(Path(_file(case)))
        return
    if case.model_dir is None:
        for given, wanted in case.data_sets:
            yield [*map(_array, given)], [*map(_array, wanted)]
        return
    for data in sorted(Path(case.model_dir).glob("test_data_set_*")):
        files = {role: len([*data.glob(f"{role}_*.pb")]) for role in ("input", "output")}
        given, wanted = ([tensor(data / f"{role}_{i}.pb") for i in range(count)] for role, count in files.items())
        yield given, wanted


def _file(case: Any) -> Any:
    """The file of a test's model, or the model itself."""
    if case.model is not None:
        return case.model
    if case.model_dir is not None:
        return Path(case.model_dir) / "model.onnx"
    return Path(onnx.__file__).parent / str(case.url).removeprefix("onnx/")


def _network(file: Path) -> tuple[list[Any], list[Any]]:
    """The input that onnx's runner makes for a network, and the output beside the model."""
    signature = next(iter(anydml.onnx.load(file).inputs.values()))
    sizes = [n for n in signature.sizes or () if isinstance(n, int)]
    x = np.arange(np.prod(sizes)).reshape(sizes).astype(np.float32) / np.prod(sizes)
    return [x.astype(np.float32)], [tensor(file.with_name(f"{file.stem}_output_0.pb"))]


def _array(x: Any) -> Any:
    return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def tensor(file: Path) -> Any:
    """The array of a data file; None if it holds no tensor."""
    proto = onnx.TensorProto()
    try:
        proto.ParseFromString(file.read_bytes())
        return numpy_helper.to_array(proto)
    except Exception:  # sequences and maps are other messages, which this parser reads as broken ones
        return None


def outcome(case: Any) -> Outcome:
    """The outcome of one test, on each of its data sets."""
    begin = time.perf_counter()
    try:
        model = anydml.onnx.load(_file(case))
        for given, wanted in data_sets(case):
            found = model.run(dict(zip(model.inputs, given, strict=False)))
            for (name, y), expected in zip(found.items(), wanted, strict=True):
                _compare(name, y, expected, case)
    except ModelError as error:
        kinds = {r.kind for r in error.refusals}
        failed = FAILED if "invalid" in kinds else REFUSED
        return Outcome(
            case.name, failed, "; ".join(sorted(map(str, error.refusals))), time.perf_counter() - begin, error.refusals
        )
    except Exception:  # any other error is a failure, which the table shows
        return Outcome(case.name, FAILED, traceback.format_exc(limit=-4), time.perf_counter() - begin)
    return Outcome(case.name, PASSED, "", time.perf_counter() - begin)


def _compare(name: str, y: Any, expected: Any, case: Any) -> None:
    assert expected is not None, f"{name}: the expected output cannot be read"
    assert y.dtype == expected.dtype, f"{name}: {y.dtype}, not {expected.dtype}"
    assert y.shape == expected.shape, f"{name}: sizes {y.shape}, not {expected.shape}"
    if of_ml_dtypes(y.dtype) in (DataType.INT4, DataType.UINT4):
        y, expected = y.astype(np.int8), expected.astype(np.int8)
    elif of_ml_dtypes(y.dtype) is not None:  # of floats: the same numbers and NaN, and the same sign of 0
        nan = np.isnan(y.astype(np.float32)) & np.isnan(expected.astype(np.float32))
        y, expected = (np.where(nan, 0, x.view(f"u{x.itemsize}")) for x in (y, expected))
    np.testing.assert_allclose(y, expected, rtol=case.rtol, atol=case.atol)


def has_type(case: Any, name: str) -> bool:
    """Whether a test has inputs, outputs or constants of an element type whose name begins so, FLOAT8 for instance."""
    model = onnx.load(_file(case)) if isinstance(_file(case), Path) else _file(case)
    kinds = {v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output, *model.graph.value_info)}
    kinds |= {a.t.data_type for n in model.graph.node for a in n.attribute if a.HasField("t")}
    kinds |= {a.i for n in model.graph.node for a in n.attribute if a.name == "to"}
    return any(onnx.TensorProto.DataType.Name(k).startswith(name) for k in kinds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="node")
    parser.add_argument("--only", default="")
    parser.add_argument("--without", default="-", help="leave out tests with this word in their names")
    parser.add_argument("--type", default="", help="only tests with an element type whose name begins so, such as FLOAT8")
    parser.add_argument("--failures", action="store_true", help="print failures only")
    arguments = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    slow: list[tuple[float, str]] = []
    for case in cases(arguments.suite):
        if arguments.only not in case.name or arguments.without in case.name:
            continue
        if arguments.type and not has_type(case, arguments.type):
            continue
        result = outcome(case)
        counts[result.kind] += 1
        slow.append((result.seconds, result.name))
        if result.kind == FAILED:
            print(f"FAILED {result.name}: {result.reason}", flush=True)
        elif result.kind == REFUSED:
            for r in result.refusals[:1]:
                reasons[f"{r.kind}: {r.operator}: {r.reason[:100]}"] += 1
            if arguments.only or arguments.type:
                print(f"refused {result.name}: {result.reason}")
    if not arguments.failures:
        for reason, count in reasons.most_common():
            print(f"{count:5}  {reason}")
    print(dict(counts), f"{sum(s for s, _ in slow):.0f} s; slowest:", sorted(slow)[-5:])
    return 1 if counts[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
