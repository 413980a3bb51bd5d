"""No module imports itself by way of others, imports within functions included."""

from __future__ import annotations

import grimp


def test_there_are_no_circles() -> None:
    graph = grimp.build_graph("anydml", exclude_type_checking_imports=True)
    left = {module: graph.find_modules_directly_imported_by(module) - {module} for module in graph.modules}
    while ready := [module for module, imported in left.items() if not imported & left.keys()]:
        for module in ready:
            del left[module]
    assert not left, sorted(left)  # those in circles, and those that import them
