"""The plugin of anydml for pytest. It lies outside of the package, so that pytest starts without importing anydml."""

from typing import Any


def pytest_configure(config: Any) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", "anydml_cases(operator, n=50, seed=0, level='6_4'): run a test, which takes `case`, for an operator's cases"
    )


def pytest_generate_tests(metafunc: Any) -> None:
    """Parametrise the tests that `anydml.testing.anydml_cases` decorates."""
    marker = metafunc.definition.get_closest_marker("anydml_cases")
    if marker is None:
        return
    if "case" not in metafunc.fixturenames:
        raise ValueError(f"{metafunc.definition.nodeid}: a test with anydml_cases takes an argument named case")
    from anydml.testing import cases

    given = {**dict(zip(("operator", "n", "seed", "level"), ("", 50, 0, "6_4"), strict=True)), **marker.kwargs}
    given |= dict(zip(("operator", "n"), marker.args, strict=False))
    found = cases(given["operator"], given["n"], given["seed"], given["level"])
    metafunc.parametrize("case", found, ids=[f"{i}-{case}" for i, case in enumerate(found)])
