"""The interface of pydirectml 1.0.0, Microsoft's Python binding of DirectML, on anydml's graphs.

`python -m anydml.pydirectml script.py arguments` runs a script that imports `pydirectml` without changes. The module also has
the operators of DirectMLX that the binding lacks. Sources: Python/src/module.cpp, Libraries/DirectMLX.h of microsoft/DirectML.
"""

from typing import TYPE_CHECKING, Any

from anydml.pydirectml.activations import FusedActivation as FusedActivation
from anydml.pydirectml.binding import *  # noqa: F403  # all that its `__all__` lists, as do the next two
from anydml.pydirectml.device import Device as Device
from anydml.pydirectml.device import Model as Model
from anydml.pydirectml.directmlx import *  # noqa: F403  # as above
from anydml.pydirectml.enumerations import *  # noqa: F403  # as above
from anydml.pydirectml.enumerations import EXPORTED as _EXPORTED
from anydml.pydirectml.expressions import Expression as Expression
from anydml.pydirectml.expressions import GraphBuilder as GraphBuilder
from anydml.pydirectml.tensors import Binding as Binding
from anydml.pydirectml.tensors import Dimensions as Dimensions
from anydml.pydirectml.tensors import TensorData as TensorData
from anydml.pydirectml.tensors import TensorDesc as TensorDesc
from anydml.pydirectml.tensors import TensorPolicy as TensorPolicy
from anydml.pydirectml.tensors import TensorProperties as TensorProperties
from anydml.schema.kinds import ScaleBias as ScaleBias

for _enumeration in _EXPORTED:
    globals().update(_enumeration.__members__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
