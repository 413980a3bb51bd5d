"""Proves compiled functions on all inputs: `make prove FUNCTIONS="exp log add"`, or all of them.

A name selects all proofs of it: of a function in float64 (`prove_float64`), of one in pairs of float32 (`prove_pairs`), of an
operator on every pair of FLOAT16 (`prove_halves`). A state file records finished parts, so that an interrupted run continues
there. It is only valid for the code that was proven.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import prove_float64
import prove_halves
import prove_pairs
from anydml.kernels.code.targets import Target, named
from anydml.kernels.code.values import Body
from anydml.kernels.numbers.functions import paired, wide
from soak import processor

ROOT = Path(__file__).parent.parent
STATE = ROOT / ".prove.json"
SAVED = 5  # seconds after which the state is written
SHOWN = 8  # wrong inputs that are shown


class Proof(NamedTuple):
    """A function, and the parts of its proof. Each part gives counts, `wrong` among them, and examples of wrong inputs."""

    name: str
    kind: str
    parts: int
    part: Callable[[int], dict[str, Any]]


def proofs(target: Target) -> Iterator[Proof]:
    for name in wide.UNARY:
        yield Proof(name, "float64", prove_float64.BLOCKS + 1, partial(prove_float64.part, name, target))
    for name in prove_pairs.NAMES if paired.serves(Body(target)) else ():
        yield Proof(name, "pairs of float32", prove_pairs.PARTS, partial(prove_pairs.part, name, target))
    for name in prove_halves.EXPECTED:
        yield Proof(name, "pairs of FLOAT16", prove_halves.PARTS, partial(prove_halves.part, name, target.name))


def code() -> str:
    """A digest of the files that make the proven code, and of those that prove it."""
    folders = ("code", "elementwise", "numbers")
    files = sorted(path for folder in folders for path in (ROOT / "src/anydml/kernels" / folder).rglob("*.py"))
    files += sorted((ROOT / "tools").glob("prove*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def run(proof: Proof, done: dict[str, Any], save: Callable[[], None], every: int) -> None:
    """Run the parts that are not done yet, one of `every`, and keep the counts in `done`."""
    last = time.process_time()
    for at in range(done.get("next", 0), proof.parts, every):
        for key, found in proof.part(at).items():
            done[key] = done[key] + found if key in done else found
        done["examples"] = done["examples"][:SHOWN]
        done["next"] = at + every
        if (now := time.process_time()) - last > SAVED:
            done["seconds"] = done.get("seconds", 0.0) + now - last
            last = now
            save()
    done["seconds"] = done.get("seconds", 0.0) + time.process_time() - last
    save()


def told(proof: Proof, done: dict[str, Any]) -> str:
    if not done:
        return f"{proof.name} in {proof.kind}: not begun"
    counts = ", ".join(f"{found} {key}" for key, found in done.items() if key not in ("next", "seconds", "examples"))
    examples = f" ({', '.join(done['examples'])})" if done["wrong"] else ""
    rest = f", {done['next']} of {proof.parts} parts" if done["next"] < proof.parts else ""
    return f"{proof.name} in {proof.kind}: {counts}{examples}{rest}; {done['seconds']:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description="Proves compiled functions on all inputs.")
    parser.add_argument("functions", nargs="*", help="their names; all of them by default")
    parser.add_argument("--state", type=Path, default=STATE, help="the file that keeps what was done")
    parser.add_argument("--target", help="the name of an instruction set; the widest by default")
    parser.add_argument("--list", action="store_true", help="print what was done, and prove nothing")
    parser.add_argument("--every", type=int, default=1, help="prove one of N parts of the inputs, and keep no state")
    options = parser.parse_args()
    target = named(options.target)
    assert target is not None, "no code can be made for this target"
    known = list(proofs(target))
    if unknown := set(options.functions) - {proof.name for proof in known}:
        parser.error(f"there are no proofs of {', '.join(sorted(unknown))}; there are {', '.join({p.name: 0 for p in known})}")
    state: dict[str, Any] = {}
    if options.every == 1 and options.state.exists():
        state = json.loads(options.state.read_text())
    if state.get("code") != code():
        state = {"code": code()}

    def save() -> None:
        if options.every == 1:
            options.state.write_text(json.dumps(state))

    print(f"{processor()}, {target.name}")
    wrong = False
    for proof in known:
        if not options.functions or proof.name in options.functions:
            done = state.setdefault(f"{proof.name} in {proof.kind}, {target.name}", {})
            if not options.list:
                run(proof, done, save, options.every)
            print(told(proof, done), flush=True)
            wrong = wrong or bool(done.get("wrong"))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
