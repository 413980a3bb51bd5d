"""A picture that shows itself: in notebooks, in terminals and in files."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from anydml.pictures.model import Block

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Picture:
    """A picture of a desc, which `picture` makes. It shows itself in notebooks and terminals; `save` writes a file."""

    title: str
    summary: str
    blocks: tuple[Block, ...]

    def _repr_html_(self) -> str:
        from anydml.pictures.html import fragment

        return fragment(self)

    def _repr_svg_(self) -> str:
        return self.svg()

    def __rich__(self) -> RenderableType:
        from anydml.pictures.terminal import renderable

        return renderable(self)

    def __repr__(self) -> str:
        """The picture as plain text, 110 columns wide."""
        from anydml.pictures.terminal import plain

        return plain(self)

    def show(self) -> None:
        """Print the picture, in colours where standard output is a terminal; in a notebook, display it."""
        from rich.console import Console

        console = Console(markup=False, highlight=False, emoji=False)
        if console.is_jupyter:
            from IPython.display import display

            display(self)
        else:
            console.print(self)

    def svg(self) -> str:
        """The picture as one SVG image, in light or dark colours as the reader's system asks for."""
        from anydml.pictures.svg import image

        return image(self)

    def html(self) -> str:
        """The picture as a page that loads nothing."""
        from anydml.pictures.html import page

        return page(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture to an .svg or .html file; ValueError for another name."""
        from pathlib import Path

        to = Path(path)
        made = {".svg": self.svg, ".html": self.html}.get(to.suffix.lower())
        if made is None:
            raise ValueError(f"a picture is saved as .svg or .html, not as {to.name!r}")
        to.write_text(made(), encoding="utf-8", newline="\n")
