"""Graphs as tests write them: for each node those that follow it; the exit may stand behind the last."""

Graph = list[list[int]]


def reachable(graph: Graph, start: int, without: int | None = None) -> set[int]:
    """Return the nodes that can be reached, as if one node did not exist."""
    found: set[int] = set()
    waiting = [start] if start != without else []
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [s for s in (graph[node] if node < len(graph) else []) if s != without]
    return found
