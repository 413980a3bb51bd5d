"""Machine code kept on disk, so that the next process compiles nothing: what names it, and the folder where it is.

ANYDML_CACHE names the folder; 0 keeps nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from anydml.kernels.code import store

MOST = 256 << 20  # bytes of a disk
FORMAT = 1  # of what is kept: another one where the same name would mean another code


def folder() -> Path | str:
    """Where code is kept, or why none is."""
    asked = os.environ.get("ANYDML_CACHE", "").strip()
    if asked == "0":
        return "ANYDML_CACHE is 0"
    try:
        if asked:
            return Path(asked).expanduser().absolute()
        return _usual()
    except (OSError, RuntimeError) as error:  # there is no home folder, or no current one
        return str(error)


def _usual() -> Path | str:
    """The folder of this platform for what can be made again."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "anydml" / "cache"
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute() and sys.platform != "darwin":  # a relative one counts as none
        return given / "anydml"
    home = Path.home()
    if home.stat().st_uid != os.geteuid():  # sudo: what is made there would stand in its owner's way
        return f"{home} is another user's"
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "anydml"


def facts() -> dict[str, Any]:
    """The folder and what is in it, or why it is not used; JSON can hold it."""
    where = folder()
    if isinstance(where, str):
        return {"folder": None, "why": where}
    try:
        files, taken = store.held(where)
    except OSError as error:
        return {"folder": str(where), "why": error.strerror or str(error)}
    return {"folder": str(where), "files": files, "megabytes": taken / 2**20, "most": MOST / 2**20}
