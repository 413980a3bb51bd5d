"""Networks of PyTorch as `anydml.torch.load` runs them, beside eager torch: one thread.

`make bench-torch` runs this part in an environment with torch; it is not one of the parts that `make bench` runs.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.timing import best

SIZE = 224


def run(seconds: float = 2.0) -> list[dict[str, Any]]:
    import torch

    import anydml.torch
    from anydml.devices.device import Device

    sys.path.append(str(Path(__file__).parents[1] / "tests" / "pytorch"))
    import networks

    torch.set_num_threads(1)
    image = torch.randn(1, 3, SIZE, SIZE)
    cases = {
        "ResNet-18": (networks.ResNet18(), image),
        "MobileNetV2": (networks.MobileNetV2(), image),
        "LSTM, 64 steps, two layers of 256 both ways": (
            networks.Reader(width=256, hidden=256), torch.randint(0, 100, (1, 64))
        ),
        "encoder, 6 layers of 256, 128 words": (
            networks.Encoder(width=256, heads=8, depth=6, length=128), torch.randint(0, 100, (1, 128))
        ),
    }  # fmt: skip
    device = Device("cpu", threads=1)
    print(f"\nnetworks of plain modules, one thread, torch {torch.__version__}: milliseconds of a call, of the processor")
    print(f"{'':46}{'anydml':>10}{'torch':>10}{'x torch':>10}{'load, s':>10}")
    rows = []
    for name, (module, x) in cases.items():
        made = networks.ready(module)
        began = time.perf_counter()
        model = anydml.torch.load(made, (x,), device=device)
        model(x)
        loading = time.perf_counter() - began
        calls = {"anydml": partial(model, x), "torch": partial(made, x)}
        with torch.no_grad():
            found = best(calls, seconds=seconds, clock=time.thread_time)
        ours, theirs = found["anydml"], found["torch"]
        print(f"{name:46}{1e3 * ours:10.2f}{1e3 * theirs:10.2f}{theirs / ours:10.2f}{loading:10.1f}")
        rows.append({"what": name, "anydml": ours, "torch": theirs, "load": loading})
    return rows
