"""TensorFlow Lite models, run exactly: `load` reads a .tflite file, also of an int8 model for microcontrollers.

`compare` judges another runtime node by node, and `page` shows the outcome.

The extra `tflite` installs what it needs: `pip install "anydml[tflite]"`.
"""

try:
    import tflite as _schema  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name not in ("tflite", "flatbuffers"):
        raise
    raise ModuleNotFoundError(
        'TensorFlow Lite models need the package tflite: pip install "anydml[tflite]"', name=_error.name
    ) from None

from anydml.onnx.errors import ModelError, Refusal
from anydml.tflite.model import Model, load

__all__ = ["Model", "ModelError", "Refusal", "load"]
