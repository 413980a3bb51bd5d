"""The order of a graph's nodes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def ordered(count: int, edges: Sequence[tuple[int, int]]) -> tuple[int, ...] | list[int]:
    """The nodes 0 to count - 1 in topological order, the lowest numbers first, as a tuple; or a cycle of nodes, as a list.

    edges: pairs (from, to). In a cycle an edge leads from each node to the next one, and from the last to the first.
    """
    after: list[list[int]] = [[] for _ in range(count)]
    before = [0] * count
    for a, b in edges:
        after[a].append(b)
        before[b] += 1
    ready = [node for node in range(count) if not before[node]]
    found: list[int] = []
    while ready:
        node = heapq.heappop(ready)
        found.append(node)
        for follower in after[node]:
            before[follower] -= 1
            if not before[follower]:
                heapq.heappush(ready, follower)
    if len(found) == count:
        return tuple(found)
    left = {node for node in range(count) if before[node]}
    into = {b: a for a, b in edges if a in left and b in left}
    path = {min(into): 0}  # the nodes so far, with their positions in the path
    while (node := into[next(reversed(path))]) not in path:  # go backwards, since each remaining node has a predecessor
        path[node] = len(path)
    cycle = [*path][path[node] :][::-1]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]
