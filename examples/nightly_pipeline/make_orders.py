"""Makes order files of a day, one of them broken: python make_orders.py 2027-01-31."""

from __future__ import annotations

import json
import sys

from pipeline import DATA, write

FILES = 5


def make_orders(day: str, *, broken: int = 1) -> None:
    """Files with an order of a euro each, one of nothing, and `broken` files that are no JSON."""
    for number in range(FILES):
        write("orders", f"{day}-{number}.json", [{"id": number, "cents": 100}, {"id": -number, "cents": 0}])
    for number in range(broken):
        (DATA / "orders" / f"{day}-broken-{number}.json").write_text(json.dumps({"cents": 1})[:-1])


if __name__ == "__main__":
    make_orders(sys.argv[1])
