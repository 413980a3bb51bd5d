"""Plants faults in the source, one at a time, and says which test finds each: `make mutants`, or `make mutants N=20`.

Outcomes are kept in .mutants/outcomes.jsonl, a line for each fault, so that an interrupted run goes on. A fault is tried again
where its file has changed, or with AGAIN=survived, where it had that outcome.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from typing import Any

from mutants import chosen, generated
from mutants.equivalents import EQUIVALENT
from mutants.mutant import Mutant
from mutants.trying import FOLDER, Tree

OUTCOMES = FOLDER / "outcomes.jsonl"


def kept() -> dict[str, dict[str, Any]]:
    """The last outcome of each fault."""
    if not OUTCOMES.exists():
        return {}
    return {line["name"]: line for line in map(json.loads, OUTCOMES.read_text().splitlines())}


def done(mutant: Mutant, outcomes: dict[str, dict[str, Any]], again: str) -> bool:
    """Whether a fault was tried in today's function; again: the status with which it is tried once more."""
    before = outcomes.get(mutant.name, {})
    return before.get("digest") == mutant.digest and before["status"] != again


def drawn(arguments: argparse.Namespace) -> list[Mutant]:
    """The faults that are asked for, in an order that mixes all families, and that stays when others are added."""
    kinds = arguments.kinds.split(",") if arguments.kinds else None
    every = [*generated.mutants(), *chosen.mutants()]
    found = [m for m in every if arguments.path in m.path and (kinds is None or m.kind in kinds)]
    found.sort(key=lambda m: hashlib.sha256(f"{arguments.seed} {m.name}".encode()).digest())
    return found[: arguments.count or None]


def table(asked: list[Mutant], outcomes: dict[str, dict[str, Any]]) -> None:
    """Print the counts by kind and by folder, and every fault that was not found."""
    for title, group in (("kind", lambda m: m.kind), ("folder", lambda m: "/".join(m.path.split("/")[:-1][:2]) or "anydml")):
        counts: dict[str, Counter[str]] = {}
        for m in asked:
            status = "equivalent" if m.name in EQUIVALENT else outcomes.get(m.name, {}).get("status", "not tried")
            counts.setdefault(group(m), Counter())[status] += 1
            counts.setdefault("all", Counter())[status] += 1
        names = ("caught", "late", "equivalent", "survived", "not tried")
        print(f"\n{title:24}" + "".join(f"{name:>12}" for name in names))
        for name, row in sorted(counts.items(), key=lambda item: (item[0] == "all", item[0])):
            print(f"{name:24}" + "".join(f"{row[status]:12}" for status in names))
    for m in asked:
        if m.name not in EQUIVALENT and outcomes.get(m.name, {}).get("status") == "survived":
            print(f"survived: {m.name}, line {m.line()}: {m.before!r} -> {m.after!r}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=0, metavar="N", help="so many, drawn at random; otherwise all")
    parser.add_argument("--seed", type=int, default=32, help="of the draw")
    parser.add_argument("--path", default="", metavar="TEXT", help='those in files whose path contains it: "kernels/scan"')
    parser.add_argument("--kinds", default="", metavar="NAMES", help='those of some kinds: "bound/16,bound*16"')
    parser.add_argument("--again", default="", metavar="STATUS", help="try those again that had this outcome")
    parser.add_argument("--limit", type=float, default=20, metavar="SECONDS", help="of the processor for the tests of a fault")
    parser.add_argument("--list", action="store_true", help="print what was found, and try nothing")
    arguments = parser.parse_args()
    asked, outcomes = drawn(arguments), kept()
    if not arguments.list:
        tree = Tree()
        waiting = [m for m in asked if m.name not in EQUIVALENT and not done(m, outcomes, arguments.again)]
        for at in range(len(waiting)):
            m = next(filter(tree.ready, waiting), waiting[0])
            waiting.remove(m)
            beside = [o["by"].split(" - ")[0] for o in outcomes.values() if o["name"].startswith(f"{m.path}:") and o["by"]]
            outcome = tree.try_(m, arguments.limit, beside[-5:])
            outcomes[m.name] = {"name": m.name, "digest": m.digest, **outcome._asdict()}
            with OUTCOMES.open("a") as file:
                file.write(json.dumps(outcomes[m.name]) + "\n")
            told = f"{outcome.status} in {outcome.seconds:.1f} s, {outcome.tests} tests {outcome.by}"
            print(f"{at + 1}/{at + 1 + len(waiting)} {m.name}: {told}", flush=True)
    table(asked, outcomes)
    return int(any(outcomes.get(m.name, {}).get("status") == "survived" for m in asked if m.name not in EQUIVALENT))


if __name__ == "__main__":
    sys.exit(main())
