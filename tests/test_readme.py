"""What the README shows is what happens."""

import doctest
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_every_example_of_the_readme_gives_what_it_says() -> None:
    results = doctest.testfile(str(README), module_relative=False)
    assert results.attempted >= 12
    assert results.failed == 0


def test_the_readme_counts_the_operators_that_there_are() -> None:
    from anydml import operators

    text = README.read_text(encoding="utf-8")
    assert f"{len(operators.every())} of its 177 operators" in text
    assert all(f"`{operator.spec.name}`" in text for operator in operators.every())
