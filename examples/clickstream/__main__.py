"""An hour of clicks, some of them late, counted in windows. See README.md."""

import random
from pathlib import Path

from examples.story import at, fill, message, parquet, table, tell
from tidelog.wire.records.plain import Record

PAGES = ("/", "/cart", "/search")


def clicks() -> list[Record]:
    """One every two seconds. Every tenth comes five minutes late, and near the end some come forty minutes late."""
    chance = random.Random(7)
    records = []
    for number in range(1800):
        minute = number / 30
        late = 5.0 if number % 10 == 0 and minute > 5 else 40.0 if number % 100 == 1 and minute > 45 else 0.0
        user = f"user-{chance.randrange(50)}"
        click = {"user": user, "page": PAGES[chance.randrange(3)], "at": at(minute - late)}
        records.append(message(minute, user, click))
    records[100] = message(4, "user-1", b"not JSON at all")
    records[101] = message(4, "user-2", {"user": "user-2", "page": "/", "at": "at noon"})
    records[102] = message(4, "user-3", {"user": "user-3", "at": at(4)})
    return records


def write(bootstrap: str) -> None:
    fill(bootstrap, {"clicks": clicks()})


def show(folder: Path, _: str) -> list[str]:
    rows = sorted(parquet(folder / "out" / "table"), key=lambda row: (row["begins"], row["page"]))
    dead = sorted(parquet(folder / "out" / "dead" / "clicks"), key=lambda row: str(row["reason"]))
    return [
        *table(("WINDOW", "PAGE", "CLICKS"), ((f"{row['begins']:%H:%M}", row["page"], row["clicks"]) for row in rows)),
        "",
        *table(("DEAD LETTER", "WHERE"), ((row["reason"], f"{row['topic']}-{row['partition']}") for row in dead)),
    ]


if __name__ == "__main__":
    tell(__file__, write, show)
