"""The table of devices: the kernel families of each, in the order in which they are tried, with their modules."""

from collections.abc import Mapping

REFERENCE = {"reference": "anydml.kernels.reference"}
DEVICES: Mapping[str, Mapping[str, str]] = {
    "cpu": {
        "copy:compiled": "anydml.kernels.copy.family",
        "copy:numpy": "anydml.kernels.numpy.copy",
        "contract:compiled": "anydml.kernels.contract.family",
        "contract:numpy": "anydml.kernels.numpy.contract",
        "elementwise:compiled": "anydml.kernels.elementwise.family",
        **REFERENCE,
    },
    "reference": REFERENCE,
}
