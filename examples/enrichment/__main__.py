"""Payments, with the names and countries of their payers from another topic. See README.md."""

import json
import random
import subprocess
import sys
from pathlib import Path

from examples.story import fill, message, table, tell
from tidelog.wire.records.plain import Record

COUNTRIES = ("CZ", "JP", "NO", "PE")
PAYMENTS = 200


def payers() -> list[Record]:
    records = [
        message(0, f"p{number}", {"name": f"Payer {number}", "country": COUNTRIES[number % 4]}) for number in range(20)
    ]
    return [*records, message(1, "p7", {"name": "Payer 7 (moved)", "country": "NO"})]


def payments() -> list[Record]:
    chance = random.Random(7)
    records = []
    for number in range(PAYMENTS):
        payer = f"p{chance.randrange(22)}"
        country = COUNTRIES[chance.randrange(4)]
        value = {"payer": payer, "amount": chance.randrange(100, 90_000) / 100, "country": country}
        records.append(message(2 + number / 60, payer, value))
    records.append(message(9, "p1", {"payer": "p1", "amount": "much"}))
    return records


def write(bootstrap: str) -> None:
    fill(bootstrap, {"payers": payers(), "payments": payments()})


def show(_: Path, bootstrap: str) -> list[str]:
    command = [sys.executable, "-m", "tidelog", "consume", "enriched", "--from-beginning", "--max", str(PAYMENTS)]
    done = subprocess.run([*command, "--bootstrap", bootstrap], check=True, capture_output=True, text=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    marked = [each for each in found if "suspicion" in each]
    rows = sorted(
        (each["id"], each.get("name", "-"), each["country"], each["amount"], each["suspicion"]) for each in marked
    )
    return [
        f"{len(found)} payments on topic enriched, {len(marked)} of them suspicious; the first ten:",
        *table(("PAYER", "NAME", "COUNTRY", "AMOUNT", "REASON"), rows[:10]),
    ]


if __name__ == "__main__":
    tell(__file__, write, show)
