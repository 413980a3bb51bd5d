"""The table of devices: their kernel families in the order in which they are tried, each as a function that imports it."""

from collections.abc import Callable, Mapping
from functools import cache, partial

from anydml.fork_safety import guard
from anydml.kernels.kernel import Lower

Families = Mapping[str, Callable[[], Lower]]


@cache
def copy_compiled() -> Lower:
    with guard:
        from anydml.kernels.copy.family import lower
    return lower


@cache
def copy_of_any_size() -> Lower:
    with guard:
        from anydml.kernels.copy.family import lower
    return partial(lower, least=0)


@cache
def copy_numpy() -> Lower:
    with guard:
        from anydml.kernels.numpy.copy import lower
    return lower


@cache
def contract_compiled() -> Lower:
    with guard:
        from anydml.kernels.contract.family import lower
    return lower


@cache
def contract_numpy() -> Lower:
    with guard:
        from anydml.kernels.numpy.contract import lower
    return lower


@cache
def contract_floats() -> Lower:
    with guard:
        from anydml.kernels.contract.floats.family import lower
    return lower


@cache
def attention_compiled() -> Lower:
    with guard:
        from anydml.kernels.attention.family import lower
    return lower


@cache
def elementwise_compiled() -> Lower:
    with guard:
        from anydml.kernels.elementwise.family import lower
    return lower


@cache
def reduce_compiled() -> Lower:
    with guard:
        from anydml.kernels.reduce.family import lower
    return lower


@cache
def windows_compiled() -> Lower:
    with guard:
        from anydml.kernels.windows.family import lower
    return lower


@cache
def irregular_compiled() -> Lower:
    with guard:
        from anydml.kernels.irregular.family import lower
    return lower


@cache
def nests_compiled() -> Lower:
    with guard:
        from anydml.kernels.nests.family import lower
    return lower


@cache
def irregular_numpy() -> Lower:
    with guard:
        from anydml.kernels.numpy.irregular import lower
    return lower


@cache
def random_compiled() -> Lower:
    with guard:
        from anydml.kernels.random.family import lower
    return lower


@cache
def random_numpy() -> Lower:
    with guard:
        from anydml.kernels.numpy.random import lower
    return lower


@cache
def scan_compiled() -> Lower:
    with guard:
        from anydml.kernels.scan.family import lower
    return lower


@cache
def order_compiled() -> Lower:
    with guard:
        from anydml.kernels.order.family import lower
    return lower


@cache
def recurrence_compiled() -> Lower:
    with guard:
        from anydml.kernels.recurrence.family import lower
    return lower


@cache
def reference() -> Lower:
    with guard:
        from anydml.kernels.reference import lower
    return lower


@cache
def windows_quantised() -> Lower:
    with guard:
        from anydml.kernels.windows.quantised import lower
    return lower


@cache
def contract_weights() -> Lower:
    with guard:
        from anydml.kernels.contract.weights.family import lower
    return lower


@cache
def contract_quantised() -> Lower:
    with guard:
        from anydml.kernels.contract.quantised.family import lower
    return lower


@cache
def elementwise_opencl() -> Lower:
    with guard:
        from anydml.kernels.opencl.maps import lower
    return lower


@cache
def contract_opencl() -> Lower:
    with guard:
        from anydml.kernels.opencl.contract.family import lower
    return lower


@cache
def recurrence_opencl() -> Lower:
    with guard:
        from anydml.kernels.opencl.recurrence.family import lower
    return lower


@cache
def contract_integers_opencl() -> Lower:
    with guard:
        from anydml.kernels.opencl.contract.integers import lower
    return lower


@cache
def attention_opencl() -> Lower:
    with guard:
        from anydml.kernels.opencl.attention.family import lower
    return lower


@cache
def nests_opencl() -> Lower:
    with guard:
        from anydml.kernels.opencl.nests import lower
    return lower


DEVICES: Mapping[str, Families] = {
    "cpu": {
        "copy:compiled": copy_compiled,
        "copy:numpy": copy_numpy,
        "elementwise:compiled": elementwise_compiled,
        "contract:compiled": contract_compiled,
        "contract:numpy": contract_numpy,
        "contract.floats:compiled": contract_floats,
        "attention:compiled": attention_compiled,
        "reduce:compiled": reduce_compiled,
        "windows:compiled": windows_compiled,
        "irregular:compiled": irregular_compiled,
        "scan:compiled": scan_compiled,
        "order:compiled": order_compiled,
        "recurrence:compiled": recurrence_compiled,
        "random:compiled": random_compiled,
        "irregular:numpy": irregular_numpy,
        "random:numpy": random_numpy,
        "nests:compiled": nests_compiled,
        "reference": reference,
    },
    "reference": {"reference": reference},
}

# for operators of a graph: small copies are compiled, too, since they are steps of the graph's call
IN_GRAPHS: Mapping[str, Families] = {**DEVICES, "cpu": {**DEVICES["cpu"], "copy:compiled": copy_of_any_size}}
# families for fused statements: they need only the statement and its tensors, and no operator
FUSED: Mapping[str, Families] = {
    "cpu": {"contract.floats:compiled": contract_floats, "elementwise:compiled": elementwise_compiled},
    "reference": {},
}
# families for products with dequantised weights, which are constants
WEIGHTS: Families = {"contract.weights:compiled": contract_weights}
# families for fused regions between 8-bit tensors, with constants
BETWEEN: Families = {
    "contract.quantised:compiled": contract_quantised,
    "windows.quantised:compiled": windows_quantised,
    "windows:compiled": windows_compiled,
}


@cache
def reduce_opencl() -> Lower:
    with guard:
        from anydml.kernels.opencl.rows import lower
    return lower


@cache
def irregular_opencl() -> Lower:
    with guard:
        from anydml.kernels.opencl.scatters import lower
    return lower


@cache
def order_opencl() -> Lower:
    with guard:
        from anydml.kernels.opencl.order import lower
    return lower


@cache
def random_opencl() -> Lower:
    with guard:
        from anydml.kernels.opencl.random import lower
    return lower


@cache
def scan_opencl() -> Lower:
    with guard:
        from anydml.kernels.opencl.scans import lower
    return lower


@cache
def staged_opencl() -> Lower:
    with guard:
        from anydml.kernels.opencl.staged import lower
    return lower


CPU = "cpu/"  # before the names of families that serve another device
OPENCL: Families = {
    "elementwise:opencl": elementwise_opencl,
    "contract.floats:opencl": contract_opencl,
    "contract:opencl": contract_integers_opencl,
    "attention:opencl": attention_opencl,
    "reduce:opencl": reduce_opencl,
    "staged:opencl": staged_opencl,
    "irregular:opencl": irregular_opencl,
    "scan:opencl": scan_opencl,
    "order:opencl": order_opencl,
    "random:opencl": random_opencl,
    "nests:opencl": nests_opencl,
    "recurrence:opencl": recurrence_opencl,
}


def kind_of(device: str) -> str:
    """The kind of a device by its name: "opencl" of "opencl:1"."""
    return device.partition(":")[0]


def families_of(device: str) -> Families:
    """The families of a device by its name. What an OpenCL device has no kernel for runs on the processor."""
    return DEVICES.get(device) or _beside(DEVICES["cpu"])


def families_in_graphs(device: str) -> Families:
    """`families_of` for the operators of a graph."""
    return IN_GRAPHS.get(device) or _beside(IN_GRAPHS["cpu"])


def families_of_fused(device: str) -> Families:
    """The families that take fused statements. An OpenCL device computes what has no kernel there unfused, if it can."""
    return FUSED.get(device, OPENCL)


def _beside(others: Families) -> Families:
    return {**OPENCL, **{f"{CPU}{name}": family for name, family in others.items()}}
