"""Runs the tests of `make soak` at length, a file at a time: `make soak`, or `make soak PARTS="ties rows"`.

What each file gave is appended to .soak.jsonl, so that the whole is the sum of several sittings: a file that passed with the
same code is not run again, nor is a test that passed in a file that was stopped, which .soak.begun.jsonl has. `make soak
PARTS=--list` prints what was done: by part and processor, files, tests, cases, seconds and wrong ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / ".soak.jsonl"
BEGUN = ROOT / ".soak.begun.jsonl"
PASSED = "ANYDML_SOAK_PASSED"  # names a file for the processes of pytest: the tests that are left out
ELEMENTWISE, FLOATS = "tests/kernels/elementwise", "tests/kernels/contract/floats"


class Run(NamedTuple):
    """Tests of some files, by patterns. variables: of the environment, "NAME=value". chosen: as after pytest's -k."""

    variables: str
    files: str
    chosen: str = ""


PARTS: dict[str, tuple[str, tuple[Run, ...]]] = {
    "maps": (
        "element-wise operators: 10^7 transcendental and 10^8 rational outputs, every special value with every other",
        (
            Run("ANYDML_SOAK=100", f"{ELEMENTWISE}/test_elementwise.py"),
            Run(
                "ANYDML_SOAK=4",
                f"{ELEMENTWISE}/test_elementwise_*.py {ELEMENTWISE}/test_int4_maps.py tests/operators/test_two_inputs.py "
                "tests/operators/test_element_wise_unary.py tests/operators/test_moves_and_maps.py "
                "tests/operators/test_quantised_operators.py tests/operators/test_sums_and_selections.py",
            ),
        ),
    ),
    "rows": (
        "reductions of rows: 10^5 results beside ties of each function",
        (
            Run("ANYDML_SOAK=500", "tests/kernels/reduce/test_near_ties.py", "test_results_beside_ties"),
            Run(
                "ANYDML_SOAK=20",
                "tests/kernels/reduce/test_near_ties.py tests/kernels/reduce/test_reductions_of_layers.py",
                "not test_results_beside_ties",
            ),
        ),
    ),
    "ties": (
        "results steered to within 2^-50 of ties, or to ties: 10^6 in each family, on every instruction set",
        (Run("ANYDML_SOAK=100", "tests/kernels/test_steered_ties.py"),),
    ),
    "contractions": (
        "sums of products of floats: 10^7 outputs of up to 64 terms, 10^6 of longer sums, and every other way to sum",
        (
            Run("ANYDML_SOAK=100", f"{FLOATS}/test_float_contractions.py", "test_generated or test_long_sums"),
            Run(
                "ANYDML_SOAK=7",
                f"{FLOATS}/test_float_contractions.py tests/operators/test_contractions.py "
                f"{FLOATS}/few/test_direct_contractions.py {FLOATS}/winograd/test_winograd.py "
                "tests/kernels/windows/test_windows.py tests/operators/test_pooling.py tests/kernels/reduce/test_rows.py "
                "tests/kernels/reduce/test_staged.py tests/kernels/reduce/test_normalization.py "
                "tests/kernels/irregular/test_irregular.py tests/kernels/scan/test_scans.py "
                f"tests/kernels/numpy/test_float_sums.py {FLOATS}/test_block_sums.py {FLOATS}/slices/test_slices.py",
                "not test_generated and not test_long_sums",
            ),
        ),
    ),
    "products": (
        "products and convolutions of integers: 10^7 outputs of each kernel",
        (
            Run("ANYDML_MATMUL_OUTPUTS=10000000", "tests/kernels/contract/test_matmul_exact.py", "test_generated_products"),
            Run(
                "ANYDML_SOAK=2",
                "tests/kernels/contract/test_matmul_*.py tests/kernels/contract/panels/*.py tests/devices/test_memory.py "
                "tests/operators/test_slice_and_matmul.py tests/kernels/contract/*/test_convolutions_by*.py "
                "tests/kernels/contract/test_integer_*.py tests/kernels/contract/winograd/*.py "
                "tests/kernels/test_integer_sums.py",
                "not test_generated_products",
            ),
        ),
    ),
    "programs": ("a million mutated programs", (Run("ANYDML_FUZZ_EXAMPLES=1000000", "tests/program/test_program_fuzz.py"),)),
    "graphs": (
        "10^4 random graphs, 500 on each other instruction set; 3,600 maps of maps; 10^7 outputs of dequantised tensors",
        (
            Run("ANYDML_SOAK=85", f"tests/graphs/test_random_graphs.py {ELEMENTWISE}/test_maps_of_maps.py"),
            Run("ANYDML_SOAK=100", "tests/graphs/test_quantised_graphs.py tests/graphs/test_sixteen_bit_graphs.py"),
            Run("ANYDML_SOAK=10", "tests/graphs/test_quantised_graphs.py tests/onnx/test_onnx_compare.py"),
        ),
    ),
    "models": (
        "faults put into models, 100 in each of six; the suites of the onnx package; 10^4 quantised models; 10^5 .tflite files",
        (
            Run(
                "ANYDML_SOAK=34",
                "tests/onnx/test_onnx_compare.py tests/onnx/test_onnx_faults.py tests/onnx/test_onnx_report.py "
                "tests/onnx/test_onnx_precision.py tests/explain/test_bounds.py",
            ),
            Run("ANYDML_SOAK=4", "tests/onnx/test_onnx_suite.py tests/onnx/test_quantised_models.py"),
            Run("ANYDML_SOAK=25", "tests/tflite_models/test_*.py"),
        ),
    ),
    "operators": (
        "what every operator is tested for, on every instruction set",
        (
            Run(
                "ANYDML_SOAK=6",
                "tests/operators/test_operators.py tests/cases/test_hard_inputs.py tests/schema/test_rules.py "
                "tests/kernels/copy/test_copies.py tests/kernels/irregular/test_irregular.py tests/kernels/scan/test_scans.py "
                "tests/kernels/order/test_order.py tests/kernels/order/test_reversed_lines.py "
                "tests/kernels/copy/test_dilated_copies.py tests/devices/test_floating_point_state.py "
                "tests/devices/test_fork_safety.py tests/operators/test_few_values.py",
            ),
            Run(
                "ANYDML_SOAK=6",
                "tests/explain/test_compare.py tests/explain/test_deviations.py tests/cli/test_kit.py "
                "tests/devices/test_stages.py tests/devices/test_digests.py",
            ),
        ),
    ),
    "types": (
        "BFLOAT16 and 8-bit floats beside the oracle, 10^5 outputs in every family; FLOAT16 and BFLOAT16 of all arguments",
        (
            Run("ANYDML_SOAK=60", "tests/operators/test_bfloat16*.py"),
            Run("ANYDML_SOAK=4", "tests/operators/test_eight_bit_floats.py tests/kernels/elementwise/test_narrow_maps.py"),
        ),
    ),
    "weights": (
        "products of dequantised weights: 10^7 outputs, fused and unfused; 64 tokens of a decoder of 12 layers",
        (Run("ANYDML_SOAK=2", "tests/kernels/contract/weights/test_*.py tests/onnx/test_decoders.py"),),
    ),
    "bounds": (
        "searches for the largest error beside each bound, on every instruction set",
        (
            Run(
                "ANYDML_SOAK=4",
                f"tests/kernels/*/test_*bounds.py {FLOATS}/test_product_bounds.py {FLOATS}/winograd/test_winograd_bounds.py "
                "tests/kernels/recurrence/test_recurrence_elements.py",
            ),
        ),
    ),
    "instructions": (
        "the instructions of every kernel for every instruction set and system, and kernels for Arm by emulation",
        (Run("ANYDML_SOAK=4", "tests/kernels/code/test_instructions.py tests/**/test_arm*.py"),),
    ),
    "dask": (
        "500 random chunkings of each operator on threads and on two processes, one of which is killed; workers' memory",
        (Run("ANYDML_SOAK=1", "tests/dask/test_*.py tests/chunking/test_*.py"),),
    ),
    "opencl": (
        "every operator and the demo models on each OpenCL device, beside the CPU device: 10^7 outputs; and the stored digests",
        (
            Run("ANYDML_SOAK=2", "tests/devices/test_opencl*.py"),
            Run("ANYDML_SOAK=2", "tests/operators/test_operators.py", "on_opencl"),
        ),
    ),
}


class Unit(NamedTuple):
    """A file of tests in a part."""

    part: str
    run: Run
    file: str

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.part, self.run.variables, self.file, self.run.chosen)))


def units() -> list[Unit]:
    """All of them, in the order of the parts; each file of a run once."""
    found = []
    for part, (_, runs) in PARTS.items():
        for run in runs:
            paths = {p.relative_to(ROOT).as_posix() for pattern in run.files.split() for p in ROOT.glob(pattern)}
            found += [Unit(part, run, path) for path in sorted(paths) if Path(path).name.startswith("test_")]
    return found


def code() -> str:
    """A digest of the source and of the tests."""
    files = sorted(path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def processor() -> str:
    """The processor's name, as the system tells it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def kept() -> list[dict[str, Any]]:
    """Results of files of tests, in the order of the sittings."""
    return [*map(json.loads, RESULTS.read_text().splitlines())] if RESULTS.exists() else []


def begun(unit: str, digest: str) -> list[dict[str, Any]]:
    """The tests of a file that passed before it was stopped."""
    lines = [*map(json.loads, BEGUN.read_text().splitlines())] if BEGUN.exists() else []
    return [line for line in lines if (line["unit"], line["code"]) == (unit, digest)]


class Counting:
    """A plugin of pytest that counts tests, and the cases that they report. Each test that passes is written down at once."""

    def __init__(self, unit: str, digest: str, before: list[dict[str, Any]]) -> None:
        self.line = {"unit": unit, "code": digest}
        self.counts: Counter[str] = Counter()
        for passed in before:
            self.counts.update(passed["counts"])
        self.wrong: list[str] = []
        self.last = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.wrong.append(report.nodeid)
        elif report.when == "call" and report.passed:
            counts = Counter(tests=1)
            for name, number in report.user_properties:
                counts[name] += int(str(number))
            self.counts.update(counts)
            now = time.monotonic()
            line = {**self.line, "test": report.nodeid, "seconds": now - self.last, "counts": counts}
            self.last = now
            with BEGUN.open("a") as file:
                file.write(json.dumps(line) + "\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.wrong.append(report.nodeid)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has passed: this module is a plugin of pytest and of its workers."""
    passed = {*json.loads(Path(os.environ[PASSED]).read_text())}
    left: list[pytest.Item] = []
    out: list[pytest.Item] = []
    for item in items:
        group = item.get_closest_marker("xdist_group")  # workers append it to a test's name
        names = {item.nodeid, *(f"{item.nodeid}@{name}" for name in (group.args if group else ()))}
        (out if names & passed else left).append(item)
    config.hook.pytest_deselected(items=out)
    items[:] = left


def tested(unit: Unit, told: Path, digest: str) -> int:
    """Run a unit's tests in this process, and write down what they gave."""
    for item in unit.run.variables.split():
        name, _, value = item.partition("=")
        os.environ[name] = value
    before = begun(unit.name, digest)
    passed = told.with_suffix(".passed")
    passed.write_text(json.dumps([line["test"] for line in before]))
    os.environ[PASSED] = str(passed.absolute())
    counting = Counting(unit.name, digest, before)
    workers = ["--numprocesses", "auto", "--dist", "loadgroup"] if unit.part != "dask" else []
    chosen = ("-k", unit.run.chosen) if unit.run.chosen else ()
    status = pytest.main(["--quiet", "-p", "soak", *workers, unit.file, *chosen], [counting])
    passed.unlink()
    told.write_text(json.dumps({"wrong": counting.wrong, "counts": counting.counts}))
    return int(status)


def sit(unit: Unit, digest: str) -> dict[str, Any]:
    """Run a unit in a process of its own, and append what it gave to the results."""
    told, start = RESULTS.with_suffix(".told"), time.monotonic()
    told.unlink(missing_ok=True)
    before = sum(line["seconds"] for line in begun(unit.name, digest))
    command = [sys.executable, __file__, "--unit", unit.name, str(told), digest]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    found: dict[str, Any] = {"wrong": [f"ended with status {status}"], "counts": {}}
    if told.exists():
        found = json.loads(told.read_text())
        told.unlink()
        if BEGUN.exists() and not found["wrong"]:
            others = [line for line in BEGUN.read_text().splitlines(keepends=True) if json.loads(line)["unit"] != unit.name]
            BEGUN.write_text("".join(others))
    seconds = round(before + time.monotonic() - start, 1)
    result = {"unit": unit.name, "part": unit.part, "code": digest, "processor": processor(), "seconds": seconds, **found}
    with RESULTS.open("a") as file:
        file.write(json.dumps(result) + "\n")
    return result


def table(every: list[Unit], asked: set[str]) -> None:
    """Print what was done: the last result of each file, summed by part, processor and whether the code is today's."""
    last = {result["unit"]: result for result in kept()}
    count = Counter(unit.part for unit in every)
    sums: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    today = code()
    for unit in every:
        if (result := last.get(unit.name)) is not None:
            sums[unit.part, result["processor"] + ("" if result["code"] == today else ", older code")].append(result)
    print("| part | processor | files | tests | counted | seconds | wrong |\n|---|---|--:|--:|---|--:|--:|")
    for part in PARTS:
        if part in asked:
            for (_, where), found in sorted((item for item in sums.items() if item[0][0] == part), key=lambda item: item[0]):
                counts: Counter[str] = Counter()
                for result in found:
                    counts.update(result["counts"])
                tests = counts.pop("tests", 0)
                counted = ", ".join(f"{n:,} {name}" for name, n in counts.most_common())
                seconds, wrong = sum(r["seconds"] for r in found), sum(len(r["wrong"]) for r in found)
                print(
                    f"| {part} | {where} | {len(found)} of {count[part]} | {tests:,} | {counted} | {seconds:,.0f} | {wrong} |"
                )
            if not any(key[0] == part for key in sums):
                print(f"| {part} | | 0 of {count[part]} | | | | |")
    for result in last.values():
        for name in result["wrong"]:
            print(f"wrong: {name} ({result['unit']})")
    for unit in every:
        if unit.part in asked and (passed := begun(unit.name, today)):
            print(f"stopped after {len(passed)} tests: {unit.name}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument("--list", action="store_true", help="print what was done, and run nothing")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no file after so many seconds")
    parser.add_argument("--again", action="store_true", help="run also what has passed with the same code")
    parser.add_argument("--unit", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    every = units()
    if options.unit:
        name, told, digest = options.unit
        return tested(next(unit for unit in every if unit.name == name), Path(told), digest)
    if unknown := {*options.parts} - PARTS.keys():
        parser.error(f"there are no parts {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    asked, digest, start = {*options.parts} or {*PARTS}, code(), time.monotonic()
    done = {r["unit"] for r in kept() if r["code"] == digest and not r["wrong"]} if not options.again else set()
    wrong = 0
    for unit in every if not options.list else ():
        if unit.part in asked and unit.name not in done and time.monotonic() - start < options.seconds:
            print(f"--- {unit.name}", flush=True)
            wrong += len(sit(unit, digest)["wrong"])
    table(every, asked)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
