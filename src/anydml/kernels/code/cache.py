"""Machine code on disk, so that the next process compiles nothing: its keys, and its folder.

ANYDML_CACHE names the folder; 0 keeps nothing. It is an absolute path: "off" or "1" must not make a folder where one works.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from anydml.kernels.code import store

MOST = 256 << 20  # bytes on disk
FORMAT = 1  # to be changed if an old file could otherwise be taken for other code


def folder() -> Path | str:
    """The folder where code is kept, or the reason why none is."""
    asked = os.environ.get("ANYDML_CACHE", "").strip()
    if asked == "0":
        return "ANYDML_CACHE is 0"
    try:
        if asked:
            given = Path(asked).expanduser()
            return given if given.is_absolute() else f"ANYDML_CACHE is {asked!r}, which is neither 0 nor an absolute path"
        return _usual()
    except (OSError, RuntimeError) as error:  # there is no home folder
        return str(error)


def _usual() -> Path | str:
    """This platform's folder for caches."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "anydml" / "cache"
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute() and sys.platform != "darwin":  # a relative path is ignored
        return given / "anydml"
    home = Path.home()
    if home.stat().st_uid != os.geteuid():  # under sudo, files made there would belong to another user
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
