"""What editors show of the eager functions, compared with what Python shows at run time, for all of them.

    python tools/editors.py [--pyright node_modules/.bin]

Signatures in functions.pyi are compared with `inspect.signature`, and the beginnings of docstrings with `help`. With the folder
of pyright's commands (`npm install pyright`), its language server must complete every function and show its signature, and
pyright must refuse a wrong argument of each call, and nothing else.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import pydoc
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anydml as dml
from anydml.catalog import FUNCTIONS
from anydml.functional import functions

STUB = Path(functions.__file__).with_suffix(".pyi")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pyright", type=Path, help="the folder with pyright and pyright-langserver")
    arguments = parser.parse_args()
    wrong = differing()
    print(f"{len(FUNCTIONS)} functions: {len(FUNCTIONS) - len(wrong)} have the same signature and docstring in functions.pyi")
    if arguments.pyright is not None:
        wrong += _checked(arguments.pyright / "pyright", stubs())
        wrong += _served(arguments.pyright / "pyright-langserver")
    if wrong:
        sys.exit(f"differ: {', '.join(dict.fromkeys(wrong))}")


def stubs() -> dict[str, ast.FunctionDef]:
    """The functions in functions.pyi, by name."""
    return {node.name: node for node in ast.parse(STUB.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}


def differing() -> list[str]:
    """The functions that Python shows otherwise than functions.pyi."""
    written = stubs()
    return [name for name in FUNCTIONS if not same(name, written)]


def same(name: str, written: dict[str, ast.FunctionDef]) -> bool:
    """Whether a function has the parameters, defaults and result of its stub, and `help` shows the stub's sentence."""
    function, stub = getattr(dml, name), written[name]
    shown_as = ast.parse(f"def {name}{inspect.signature(function)}: ...").body[0]
    assert isinstance(shown_as, ast.FunctionDef)
    told = inspect.getdoc(function) or ""
    said = ast.get_docstring(stub) or ""
    shown = pydoc.plain(pydoc.render_doc(function))
    return _signature(shown_as) == _signature(stub) and told.startswith(said.split("\n")[0]) and said.split("\n")[0] in shown


def _signature(node: ast.FunctionDef) -> list[Any]:
    """Names, kinds, types and defaults of the parameters, and the result's type, as text. Strings are read as types."""

    def text(e: ast.expr | None) -> str:
        return "" if e is None else e.value if isinstance(e, ast.Constant) and isinstance(e.value, str) else ast.unparse(e)

    a = node.args
    positional = [(x.arg, text(x.annotation)) for x in (*a.posonlyargs, *a.args)]
    keyword = [(x.arg, text(x.annotation)) for x in a.kwonlyargs]
    defaults = [ast.unparse(x) for x in a.defaults], [x and ast.unparse(x) for x in a.kw_defaults]
    return [positional, keyword, defaults, text(node.returns)]


def _checked(pyright: Path, written: dict[str, ast.FunctionDef]) -> list[str]:
    """The functions of which pyright accepts a wrong argument, or refuses a call with all that is required."""
    lines = ["from typing import Any", "import anydml as dml", "x: Any = None"]
    meant: dict[int, tuple[str, bool]] = {}
    for name in FUNCTIONS:
        a = written[name].args
        required = [x.arg for x in a.args[: len(a.args) - len(a.defaults)]]
        required += [x.arg for x, default in zip(a.kwonlyargs, a.kw_defaults, strict=True) if default is None]
        given = ", ".join(f"{x}=x" for x in required)
        for right, more in ((True, ""), (False, ", no_such_argument=1")):
            meant[len(lines)] = name, right
            lines.append(f"dml.{name}({given}{more})")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "calls.py")
        file.write_text("\n".join(lines) + "\n", "utf-8")
        command = [pyright, "--outputjson", "--pythonpath", sys.executable, file]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    found = [d for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"]
    errors = {d["range"]["start"]["line"] for d in found}
    wrong = [name for line, (name, right) in meant.items() if right == (line in errors)]
    print(f"pyright: {len(meant)} calls, of which it refuses {len(errors)}; {len(wrong)} are not as meant")
    return wrong + [f"line {n}" for n in errors - meant.keys()]


def _served(server: Path) -> list[str]:
    """The functions that the language server does not complete, or without a signature."""
    with tempfile.TemporaryDirectory() as folder:
        text = "import anydml as dml\ndml.\ndml.slice1(\n"
        file = Path(folder, "program.py")
        file.write_text(text, "utf-8")
        Path(folder, "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(STUB.parents[2])]}), "utf-8")
        client = _Client(server, Path(folder))
        client.tell(
            "textDocument/didOpen", textDocument={"uri": file.as_uri(), "languageId": "python", "version": 1, "text": text}
        )
        place = {"textDocument": {"uri": file.as_uri()}}
        made = client.ask("textDocument/completion", **place, position={"line": 1, "character": 4})
        shown = client.ask("textDocument/signatureHelp", **place, position={"line": 2, "character": 11})
        client.ask("shutdown")
        client.tell("exit")
    labels = {item["label"] for item in made["items"]}
    missing = [name for name in FUNCTIONS if name not in labels]
    label = shown["signatures"][0]["label"]
    print(f"pyright-langserver completes {len(FUNCTIONS) - len(missing)} of {len(FUNCTIONS)}; slice1{label}")
    first = [p.name for p in inspect.signature(dml.slice1).parameters.values()]
    return missing + ["slice1"] * any(name not in label for name in first)


class _Client:
    """A client of a language server, which answers one request after the other."""

    def __init__(self, server: Path, folder: Path) -> None:
        self.server = subprocess.Popen([str(server), "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.count = 0
        folders = [{"uri": folder.as_uri(), "name": "program"}]
        self.ask("initialize", processId=None, rootUri=folder.as_uri(), capabilities={}, workspaceFolders=folders)
        self.tell("initialized")

    def tell(self, method: str, **parameters: Any) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": parameters})

    def ask(self, method: str, **parameters: Any) -> Any:
        self.count += 1
        self._send({"jsonrpc": "2.0", "id": self.count, "method": method, "params": parameters or None})
        while True:
            said = self._read()
            if "method" in said and "id" in said:  # the server asks for settings; it gets none
                asked = said["params"].get("items", []) if said["method"] == "workspace/configuration" else None
                result = None if asked is None else [{"pythonPath": sys.executable} for _ in asked]
                self._send({"jsonrpc": "2.0", "id": said["id"], "result": result})
            elif said.get("id") == self.count:
                return said["result"]

    def _send(self, message: dict[str, Any]) -> None:
        assert self.server.stdin is not None
        body = json.dumps(message).encode()
        self.server.stdin.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.server.stdin.flush()

    def _read(self) -> Any:
        assert self.server.stdout is not None
        size = 0
        while line := self.server.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        return json.loads(self.server.stdout.read(size))


if __name__ == "__main__":
    main()
