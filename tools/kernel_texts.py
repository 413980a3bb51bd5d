"""Digests of the LLVM text of every kernel that a fixed set of calls and graphs compiles, to compare two versions of anydml.

python tools/kernel_texts.py > before.txt; then, with the other version, > after.txt, and diff. [--texts FOLDER] [--part 2/8]

If only names in Python change, both files are the same. Each line describes a text: digest, length, instruction set, and the
first call that uses it. The calls are those of tests/support/digest_cases.py, on generic x86-64 or Arm and on the best
instruction set of this machine. They are executed, since some kernels are compiled only when elements need them.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import numpy as np

import anydml as dml
import digest_cases
import fitting_graphs
import map_chains
import quantised_graphs
from anydml.devices.device import usual
from anydml.kernels.call import pool
from anydml.kernels.code import engine, processor, sources
from anydml.kernels.code.targets import Target, targets
from random_graphs import random_net
from wired_graphs import EXAMPLES, Wired

NETS, FITTING, CHAINS, QUANTISED = 24, 24, 12, 24  # graphs


class Made(NamedTuple):
    """A text, and the first call that used it."""

    digest: str
    text: str
    isa: str
    asked_by: str


class Texts:
    """The texts of kernels, each once for each instruction set."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Made] = {}
        self.call = ""

    def note(self, emit: Callable[..., str], target: Target, *arguments: Any) -> str:
        text = emit(target, *arguments)
        digest = hashlib.blake2b(text.encode(), digest_size=10).hexdigest()
        self.found.setdefault((digest, target.name), Made(digest, text, target.name, self.call))
        return text


def calls(part: int, parts: int) -> Iterator[tuple[str, Callable[[dml.Device], None]]]:
    """The names of calls, and functions that compile and execute them on a device. part, parts: a share of all calls."""
    for case in digest_cases.cases(part, parts):
        yield case.name, partial(_one, case)
    for k in range(part, NETS, parts):
        yield f"net {k}", partial(_net, k)
    for k in range(part, FITTING, parts):
        names = random.Random(k).sample([*EXAMPLES], 3)
        yield f"fitting {k}", partial(_drawn, fitting_graphs.fitting_graph, f"fitting {k}", names)
    for k in range(part, CHAINS, parts):
        yield f"chain {k}", partial(_drawn, map_chains.chain_of_maps, f"chain {k}", None)
    for k in range(part, QUANTISED, parts):
        yield f"quantised {k}", partial(_quantised, k)


def _one(case: digest_cases.Case, device: dml.Device) -> None:
    digest_cases.result(case, device)


def _net(k: int, device: dml.Device) -> None:
    net = random_net(random.Random(f"net {k}"))
    made = dml.graph(net.run, **{name: dml.TensorDesc.of(net.values[at]) for name, at in net.inputs.items()})
    outputs = {name: np.empty(t.sizes, t.data_type.dtype) for name, t in made.outputs.items()}
    device.compile(made.desc).bind(**{name: net.values[at] for name, at in net.inputs.items()}, **outputs).execute()


def _drawn(make: Callable[..., Wired], seed: str, names: Sequence[str] | None, device: dml.Device) -> None:
    """A random graph, whose nodes are also computed alone while it is drawn."""
    rng = random.Random(seed)
    drawn = make(rng, device) if names is None else make(rng, device, names)
    compiled = device.compile(drawn.desc)
    if drawn.owned:
        compiled.initialize(**drawn.owned)
    compiled.bind(**drawn.inputs, **{name: np.zeros(x.nbytes, np.uint8) for name, x in drawn.outputs.items()}).execute()


def _quantised(k: int, device: dml.Device) -> None:
    case = quantised_graphs.make(quantised_graphs.random_recipe(random.Random(f"quantised {k}")), k)
    device.compile(case.desc).bind(**case.inputs, y=np.zeros(case.sizes, case.dtype)).execute()


def collected(part: int, parts: int) -> list[Made]:
    """The texts of a part of all calls, sorted."""
    texts, made = Texts(), engine._made

    def noted(emit: Callable[..., str], target: Target, *rest: Any) -> Any:
        return made(partial(texts.note, emit), target, *rest)

    devices = [
        dml.Device(isa=isa, threads=1 + at, feature_level="EXTENDED")
        for at, isa in enumerate(dict.fromkeys(("generic", targets()[-1].name)))
    ]
    # code on disk is found by its text: if the text is unchanged, LLVM does not compile it again
    with patch.object(engine, "_made", noted), patch.object(sources, "identity", lambda *_: None):
        for name, work in calls(part, parts):
            for device in devices:
                texts.call = name
                with usual(device):
                    work(device)
    return sorted(texts.found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, metavar="FOLDER", help="write each text to a file, named by its digest, too")
    parser.add_argument("--part", default="1/1", help="only the calls of a part, such as 2/8")
    asked = parser.parse_args()
    part, _, parts = asked.part.partition("/")
    warnings.simplefilter("error", dml.OptimizationWarning)
    found = collected(int(part) - 1, int(parts))
    versions = f"Python {sys.version.split()[0]}, NumPy {np.__version__}"
    print(f"# {processor.caches()}, {pool.processors()} processors; {versions}")  # plans depend on these
    if asked.texts:
        asked.texts.mkdir(parents=True, exist_ok=True)
    for one in found:
        print(one.digest, len(one.text), one.isa, one.asked_by)
        if asked.texts:
            (asked.texts / f"{one.digest}.ll").write_text(one.text)
    print(f"{len(found)} texts", file=sys.stderr)


if __name__ == "__main__":
    main()
