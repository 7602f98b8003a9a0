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

This page lists every config key of a broker and of a topic, its default, and whether Tidelog honours it. Keys have
Kafka's names and meanings.

Keys go into a file in the style of Kafka's `server.properties` (`tidelog node --config FILE`). They also work as
`--set key=value` of `tidelog up` and `tidelog node`, and as `Cluster(config=…)` in a test. `tidelog configs alter`
changes keys of a running cluster.

The column *honoured*:

- **yes**: every valid value has its effect.
- **only …**: these values are accepted, because they describe what Tidelog does. Any other value is refused.
- **refused**: leave the key out.

The column *changes*:

- **at start**: the node reads the key once.
- **per-broker**, **cluster-wide**: a running broker takes a new value, for itself or for all brokers.

Mistakes:

- An unknown key in `--set` or `Cluster(config=…)` is refused, with the nearest known key.
- An unknown key in `server.properties` is ignored with a warning, as in Kafka.
- A malformed or unsupported value is refused with one line and the reason. At start, the exit status is 2; a running
  broker answers INVALID_CONFIG.

This page is generated (`python tools/config_table.py > docs/configuration.md`), and a test compares it with the code.
"""

_TOPIC_INTRO = """\
## Topic keys

Set topic keys with `tidelog topics create --config` or `tidelog configs alter`. They never need a restart. A topic
without its own value uses the first of its broker keys that is set.
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
    yield "| key | type | default | allowed | honoured | changes | meaning |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        changes = "at start" if row.update is UpdateMode.READ_ONLY else row.update.value
        yield _line(row, changes)


def _topic_table(rows: Iterable[ConfigKey]) -> Iterator[str]:
    yield "| key | type | default | allowed | honoured | broker keys | meaning |"
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
