"""Programs in DxDispatch's JSON format: resources, dispatchables, commands. See README.md in this folder."""

from anydml.program.program import Program, load, of
from anydml.program.text import ProgramFault

__all__ = ["Program", "ProgramFault", "load", "of"]
