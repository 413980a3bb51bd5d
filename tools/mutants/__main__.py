"""Plants faults in the source, one at a time, and says which test finds each: `make mutants`, or `make mutants N=20`.

Outcomes are kept in tools/mutants/outcomes.jsonl, a line for each fault, which is checked in: an interrupted run goes on, and
`--list` prints the table of all that were tried. A fault is tried again where the function around it has changed, or with
`--again survived`, where it had that outcome; the test that found it before comes first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from mutants import chosen, generated
from mutants.equivalents import is_equivalent
from mutants.mutant import Mutant
from mutants.trying import Tree

OUTCOMES = Path(__file__).with_name("outcomes.jsonl")


def kept() -> dict[str, dict[str, Any]]:
    """The last outcome of each fault."""
    if not OUTCOMES.exists():
        return {}
    return {line["name"]: line for line in map(json.loads, OUTCOMES.read_text().splitlines())}


def done(mutant: Mutant, outcomes: dict[str, dict[str, Any]], arguments: argparse.Namespace) -> bool:
    """Whether a fault was tried in today's function, by all tests if this is asked for."""
    before = outcomes.get(mutant.name, {})
    if before.get("digest") != mutant.digest or before["status"] == arguments.again:
        return False
    return not arguments.all or before.get("all", False) or before["status"] != "survived"


def store(outcomes: dict[str, dict[str, Any]]) -> None:
    """Write the last outcome of each fault, in the order of their names."""
    whole = OUTCOMES.with_suffix(".part")
    whole.write_text("".join(json.dumps(outcomes[name]) + "\n" for name in sorted(outcomes)))
    whole.replace(OUTCOMES)


def drawn(arguments: argparse.Namespace) -> list[Mutant]:
    """The faults that are asked for, in an order that mixes all families, and that stays when others are added."""
    kinds = arguments.kinds.split(",") if arguments.kinds else None
    every = [*generated.mutants(), *chosen.mutants()]
    found = [m for m in every if arguments.path in m.name and (kinds is None or m.kind in kinds)]
    if arguments.equivalent:
        found = [m for m in found if is_equivalent(m)]
    found.sort(key=lambda m: hashlib.sha256(f"{arguments.seed} {m.name}".encode()).digest())
    return found[: arguments.count or None]


def status(mutant: Mutant, outcomes: dict[str, dict[str, Any]]) -> str:
    """The status of a fault in today's source: also "equivalent", "not tried" and "changed since"."""
    outcome = outcomes.get(mutant.name, {})
    if is_equivalent(mutant):
        return "equivalent"
    if not outcome:
        return "not tried"
    return str(outcome["status"]) if outcome["digest"] == mutant.digest else "changed since"


def table(asked: list[Mutant], outcomes: dict[str, dict[str, Any]]) -> None:
    """Print the counts by kind and by folder, and every fault that was not found."""
    for title, group in (("kind", lambda m: m.kind), ("folder", lambda m: "/".join(m.path.split("/")[:-1][:2]) or "anydml")):
        counts: dict[str, Counter[str]] = {}
        for m in asked:
            for row in (group(m), "all"):
                counts.setdefault(row, Counter())[status(m, outcomes)] += 1
        names = ("caught", "equivalent", "late", "survived", "changed since", "not tried")
        print(f"\n| {title} | {' | '.join(names)} |\n|---|{'--:|' * len(names)}")
        for name, row in sorted(counts.items(), key=lambda item: (item[0] == "all", item[0])):
            print(f"| {name} | {' | '.join(str(row[one]) for one in names)} |")
    for m in asked:
        if status(m, outcomes) in ("survived", "late"):
            print(f"{status(m, outcomes)}: {m.name}, line {m.line()}: {m.before!r} -> {m.after!r}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=0, metavar="N", help="so many, drawn at random; otherwise all")
    parser.add_argument("--seed", type=int, default=32, help="of the draw")
    parser.add_argument("--path", default="", metavar="TEXT", help='those whose name contains it: "kernels/scan"')
    parser.add_argument("--kinds", default="", metavar="NAMES", help='those of some kinds: "bound/16,bound*16"')
    parser.add_argument("--again", default="", metavar="STATUS", help="try those again that had this outcome")
    parser.add_argument("--limit", type=float, default=20, metavar="SECONDS", help="of the processor for the tests of a fault")
    parser.add_argument("--tests", default="", metavar="NAMES", help="run these tests or files, not those that reach a fault")
    parser.add_argument("--all", action="store_true", help="run all of `make test` for a fault that its tests do not find")
    parser.add_argument(
        "--equivalent", action="store_true", help="try those that are said to be equivalent; none may be caught"
    )
    parser.add_argument("--list", action="store_true", help="print what was found, and try nothing")
    arguments = parser.parse_args()
    asked, outcomes = drawn(arguments), kept()
    if not arguments.list:
        tree = Tree()
        waiting = [m for m in asked if is_equivalent(m) == arguments.equivalent and not done(m, outcomes, arguments)]
        for at in range(len(waiting)):
            m = next(filter(tree.ready, waiting), waiting[0])
            waiting.remove(m)
            beside = [o["by"].split(" - ")[0] for o in outcomes.values() if o["name"].startswith(f"{m.path}:") and o["by"]]
            named = arguments.tests.split() or [outcomes.get(m.name, {}).get("by", "").split(" - ")[0]]
            outcome = tree.tried_by(m, named, arguments.limit)
            if outcome is None and arguments.tests:
                parser.error(f"no test of {arguments.tests} can be run")
            if outcome is None or (outcome.status == "survived" and not arguments.tests):
                outcome = tree.try_(m, arguments.limit, beside[-5:], everything=arguments.all)
            outcomes[m.name] = {"name": m.name, "digest": m.digest, **outcome._asdict(), "all": arguments.all}
            store(outcomes)
            told = f"{outcome.status} in {outcome.seconds:.1f} s, {outcome.tests} tests {outcome.by}"
            print(f"{at + 1}/{at + 1 + len(waiting)} {m.name}: {told}", flush=True)
    table(asked, outcomes)
    wrong = ("caught",) if arguments.equivalent else ("survived", "late")
    found = [outcomes[m.name] for m in asked if m.name in outcomes and is_equivalent(m) == arguments.equivalent]
    return int(any(outcome["status"] in wrong for outcome in found))


if __name__ == "__main__":
    sys.exit(main())
