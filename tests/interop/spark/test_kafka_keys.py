"""The table of `kafka.*` keys (S10) beside the list of Kafka's own clients."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.interop.kafka_jars import java

from tidelog.spark.kafka_keys import KEYS


@pytest.mark.quick
def test_the_table_has_every_key_of_kafkas_clients(jars: Path) -> None:
    found: set[str] = set()
    for client in ("consumer.ConsumerConfig", "producer.ProducerConfig"):
        # Prints the documentation of its keys as HTML, without internal ones.
        command = [java(), "-cp", f"{jars}/*", f"org.apache.kafka.clients.{client}"]
        page = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
        found |= set(re.findall(r'<a id="\w+configs_([\w.]+)"', page))
    assert len(found) > 100
    assert found == set(KEYS)
