"""An element of the output by its row and column: its index in three dimensions, and its elements of the streams."""

from __future__ import annotations

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.epilogue import OWN, EpilogueKey


def split(body: Body, c: str, n1: str, n2: str) -> tuple[str, str, str]:
    """The index of column c in three dimensions, whose two inner sizes are n1 and n2."""
    x, line = body.op(f"urem i64 {c}, {n2}"), body.op(f"udiv i64 {c}, {n2}")
    return body.op(f"udiv i64 {line}, {n1}"), body.op(f"urem i64 {line}, {n1}"), x


def streams(body: Body, key: EpilogueKey, lanes: int, row: str, c: str) -> tuple[dict[int, Value], str]:
    """The streams' elements for a row and a column, in every lane, and the address of the output's element."""
    s, at = key.stored, split(body, c, "%f1", "%f2")
    found = []
    for k in range(OWN, OWN + len(key.layouts)):
        offset = body.op(f"mul i64 {row}, %r{k}")
        for value, stride in zip(at, "zys", strict=True):
            offset = body.op(f"add i64 {offset}, {body.op(f'mul i64 {value}, %{stride}{k}')}")
        found.append(body.at(f"%p{k}", offset))
    places = zip(s.others, found, strict=False)
    read = {k: body.splat(body.loaded(Kind(f"i{s.types[k].element_bits}"), place), lanes) for k, place in places}
    return read, found[-1]
