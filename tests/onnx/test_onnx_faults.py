"""One fault in a real model, among tensors that onnxruntime has computed: it is the worst node, with the right cause."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from anydml.onnx.compare_results import BEYOND
from anydml.onnx.comparing import compare
from every_kernel import SOAK, Ran
from model_faults import MODELS, Known

FEW = {"squeezenet": 1, "encoder, QDQ": 1}  # of the larger models in `make test`; of others 2


@pytest.mark.parametrize("name", MODELS)
def test_a_fault_is_the_worst_node_with_its_cause(name: str, ran: Ran) -> None:
    random = np.random.default_rng([19, *name.encode()])
    known = Known(*MODELS[name](random), random)
    wanted = 100 if SOAK > 1 else FEW.get(name, 2)
    seen: Counter[str] = Counter()
    missed = []
    for node, faulty in known.faults():
        found = compare(known.proto, known.inputs, actual=known.followed(node, faulty.output))
        beyond = [row.name for row in found.nodes if row.verdict == BEYOND]
        worst = found.worst
        if beyond != [node] or worst is None or worst.deviation.split(",")[0] not in faulty.causes:
            cause = "" if worst is None else f"{worst.deviation}: {worst.cause}"
            missed.append(f"{node}: {faulty.fault}; beyond rounding: {beyond}; {cause}")
        seen[faulty.fault] += 1
        if seen.total() == wanted:
            break
    assert missed == [], "\n".join([f"{len(missed)} of {wanted}", *missed])
    ran(seen.total(), wanted)
