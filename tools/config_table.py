"""Writes docs/configuration.md from the table of keys: `python tools/config_table.py > docs/configuration.md`.

`--unread` lists instead the honoured keys whose typed attribute no code outside the config package reads: a key that
claims to be honoured and is not.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidelog.core.config.key import ConfigKey, UpdateMode
from tidelog.core.config.keys import BROKER_KEYS, TOPIC_KEYS
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig

SOURCE = Path(__file__).resolve().parent.parent / "src" / "tidelog"

_INTRO = """\
# Configuration

A node reads a Kafka-style `server.properties` (`tidelog node --config FILE`); every key also works as
`--set key=value`. This page is generated (`python tools/config_table.py > docs/configuration.md`); a test keeps it so.

**Honoured** says what a key does here:

- *yes*: every valid value has its effect;
- *only …*: these values are accepted because they describe what happens anyway; any other value is refused at start
  (exit 2) or when it is altered (INVALID_CONFIG), with the reason in the message;
- *refused*: the key must be left out.

`tidelog up --set`, `tidelog node --set` and `tidelog.testing.Cluster(config=…)` refuse a key that is not on this page,
and name the nearest key that is. In `server.properties` such a key is ignored with a warning, as in Kafka. A value that
is malformed or out of range is refused with one line. **Changes** says whether a running broker takes a new value: for
one broker, or for the whole cluster.
"""

_TOPIC_INTRO = """\
## Topic keys

Set with `tidelog topics create --config` or `tidelog configs alter`, always without a restart. A topic without its own
value takes the broker's, from the first of the broker keys named here that is set.
"""


def page() -> str:
    own = {name: row for name, row in BROKER_KEYS.items() if name.startswith("tidelog.")}
    kafka = {name: row for name, row in BROKER_KEYS.items() if name not in own}
    honoured = [row for row in kafka.values() if row.honoured]
    limited = [row for row in kafka.values() if not row.honoured]
    parts = [
        _INTRO,
        f"{len(kafka)} keys of a Kafka 4.3 broker ({len(honoured)} honoured in full), "
        f"{len(TOPIC_KEYS)} topic keys, {len(own)} keys of our own.\n",
        "## Broker keys honoured in full\n",
        *_broker_table(honoured),
        "\n## Broker keys of Tidelog\n",
        *_broker_table(own.values()),
        "\n" + _TOPIC_INTRO,
        *_topic_table(TOPIC_KEYS.values()),
        "\n## Broker keys honoured in part\n",
        *_broker_table(limited),
    ]
    return "\n".join(parts) + "\n"


def _broker_table(rows: Iterable[ConfigKey]) -> Iterator[str]:
    yield "| key | type | default | allowed | honoured | changes | what it does |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        changes = "at start" if row.update is UpdateMode.READ_ONLY else row.update.value
        yield _line(row, changes)


def _topic_table(rows: Iterable[ConfigKey]) -> Iterator[str]:
    yield "| key | type | default | allowed | honoured | broker keys | what it does |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        yield _line(row, ", ".join(f"`{name}`" for name in row.synonyms) or "none")


def _line(row: ConfigKey, last: str) -> str:
    words = f"{row.doc} ({row.why[0].upper()}{row.why[1:]}.)" if row.why else row.doc
    allowed = "" if row.check is None else str(row.check)
    cells = (f"`{row.name}`", row.type.name.lower(), _default(row), allowed, _honoured(row), last, words)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(row: ConfigKey) -> str:
    if row.required:
        return "required"
    if row.default is None:
        return "none"
    return f"`{row.default}`" if row.default else "empty"


def _honoured(row: ConfigKey) -> str:
    if row.only is None:
        return "yes"
    if not row.only:
        return "refused"
    return "only " + " or ".join(f"`{value}`" if value else "empty" for value in row.only)


def unread() -> list[str]:
    """Honoured keys whose attribute is read nowhere outside the config package."""
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py")) if "config" not in path.parts
    )
    words = set(re.findall(r"\.([a-z][a-z0-9_]*)", text))
    found = []
    for table, owner in ((BROKER_KEYS, NodeConfig), (TOPIC_KEYS, TopicConfig)):
        for name, row in table.items():
            attribute = name.replace(".", "_")
            inherited = owner is NodeConfig and any(name in topic.synonyms for topic in TOPIC_KEYS.values())
            if row.honoured and attribute in owner.__slots__ and attribute not in words and not inherited:
                found.append(name)
    return found


if __name__ == "__main__":
    sys.stdout.write("\n".join(unread()) + "\n" if "--unread" in sys.argv else page())
