"""Customers that change and are deleted, and a table of the current ones. See README.md."""

import random
from pathlib import Path

from examples.story import fill, message, parquet, table, tell
from tidelog.wire.records.plain import Record

CITIES = ("Brno", "Kyoto", "Lima", "Oslo")


def changes() -> list[Record]:
    chance = random.Random(7)
    records = []
    for number in range(400):
        customer = chance.randrange(8)
        value = {"name": f"customer {customer}", "city": CITIES[chance.randrange(4)]}
        records.append(message(number / 60, str(customer), value if number % 40 else None))
    # The last records of two customers.
    records.append(message(7, "3", None))
    records.append(message(7, "5", {"name": "customer 5", "city": "Quito"}))
    return records


def write(bootstrap: str) -> None:
    fill(bootstrap, {"customers": changes()})


def show(folder: Path, _: str) -> list[str]:
    whole = folder / "out" / "customers"
    rows = sorted(parquet(whole / (whole / "_current").read_text()), key=lambda row: str(row["id"]))
    return table(
        ("ID", "NAME", "CITY", "CHANGES"), ((row["id"], row["name"], row["city"], row["changes"]) for row in rows)
    )


if __name__ == "__main__":
    tell(__file__, write, show)
