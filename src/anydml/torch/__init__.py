"""Modules of PyTorch, run exactly: `load` makes a model of one, and `compare` says which layer of it departs.

`torch.compile(module, backend="anydml")` runs modules so, too. The extra `torch` installs what it needs:
`pip install "anydml[torch]"`.
"""

try:
    import torch as _torch  # noqa: F401  # so that a missing one is named here
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError('anydml.torch needs PyTorch: pip install "anydml[torch]"', name="torch") from None

from anydml.onnx.compare_results import Deviation, ModelComparison, NodeComparison
from anydml.onnx.errors import ModelError, Refusal
from anydml.torch.comparing import compare
from anydml.torch.model import Model, load

__all__ = ["Deviation", "Model", "ModelComparison", "ModelError", "NodeComparison", "Refusal", "compare", "load"]
