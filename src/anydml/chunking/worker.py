"""The device that computes parts of a call where other threads or processes compute other parts."""

from __future__ import annotations

import os
from functools import cache

from anydml.devices.device import Device, named


@cache
def _of_one_thread() -> Device:
    return Device("cpu", threads=1)


def device_of_worker() -> Device:
    """The cpu with one thread; with as many as ANYDML_NUM_THREADS says, if it is set."""
    return named("cpu") if os.environ.get("ANYDML_NUM_THREADS") else _of_one_thread()
