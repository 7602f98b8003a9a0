"""S10: each `kafka.*` key is honoured, ignored with a reason, or refused; a bad value is refused."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tools import spark_options

from tidelog.spark import options, sink_options
from tidelog.spark.errors import OptionError
from tidelog.spark.kafka_keys import KEYS, Key, Side, Use
from tidelog.spark.kafka_settings import KafkaSettings

ROOT = Path(__file__).parents[3]
BOOTSTRAP = {"bootstrap.servers": "127.0.0.1:9092"}
NO_VALUE = object()


def parsed(side: Side, given: Mapping[str, str]) -> tuple[str, ...]:
    """The warnings of a source or a sink with these keys."""
    kafka = {f"kafka.{name}": value for name, value in (BOOTSTRAP | dict(given)).items()}
    if side is Side.SOURCE:
        return options.parse(kafka | {"subscribe": "orders"}, streaming=True).warnings
    return sink_options.parse(kafka | {"topic": "orders"}, {"value": "string"}, overwrite=False).warnings


def used(use: Use) -> list[tuple[Side, Key]]:
    return [(side, key) for key in KEYS.values() for side in Side if key.rules[side].use is use]


def a_value(key: Key) -> str:
    candidates = (str(key.value).split(" or ")[0].removeprefix("one of ").split(", ")[0], "true", "5000", "9")
    return next(each for each in candidates if key.value.accepts(each))


def test_a_key_that_is_honoured_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only those are: `KafkaSettings` refuses to read others."""
    made: list[KafkaSettings] = []
    init = KafkaSettings.__init__

    def noted(self: KafkaSettings, given: Mapping[str, str], side: Side) -> None:
        init(self, given, side)
        made.append(self)

    monkeypatch.setattr(KafkaSettings, "__init__", noted)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    secured = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="a" password="b";',
    }
    stores = {"ssl.truststore.location": "t.pem", "ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}
    for side in Side:
        made.clear()
        parsed(side, secured | stores | {"ssl.keystore.location": "k.pem"})
        read = set().union(*(each.read for each in made))
        honoured = {key.name for at, key in used(Use.HONOURED) if at is side}
        assert {name for name in read if name in KEYS and KEYS[name].rules[side].use is Use.HONOURED} == honoured


@pytest.mark.parametrize(("side", "key"), used(Use.REFUSED), ids=lambda each: getattr(each, "name", None))
def test_a_key_is_refused_with_its_reason(side: Side, key: Key) -> None:
    with pytest.raises(OptionError) as caught:
        parsed(side, {key.name: "x"})
    assert str(caught.value) == f"kafka.{key.name} cannot be set: {key.rules[side].note}"


@pytest.mark.parametrize(("side", "key"), used(Use.IGNORED), ids=lambda each: getattr(each, "name", None))
def test_a_key_is_ignored_with_its_reason(side: Side, key: Key) -> None:
    [line] = parsed(side, {key.name: a_value(key)})
    assert line.startswith(f"kafka.{key.name} is ignored: ")


@pytest.mark.parametrize("key", [key for key in KEYS.values() if not key.value.accepts("\n")], ids=lambda key: key.name)
def test_a_bad_value_is_refused(key: Key) -> None:
    for side in Side:
        if key.rules[side].use is not Use.REFUSED:
            with pytest.raises(OptionError) as caught:
                parsed(side, {key.name: "no such value"})
            assert str(caught.value) == f"kafka.{key.name}='no such value' is not {key.value}"


@pytest.mark.parametrize("value", ["-1", "2147483648", "1.5", ""])
def test_numbers_have_bounds(value: str) -> None:
    with pytest.raises(OptionError, match="is not a whole number from 0 to 2147483647"):
        parsed(Side.SOURCE, {"fetch.max.wait.ms": value})


@pytest.mark.parametrize("side", Side)
def test_an_unknown_key_is_refused_with_the_nearest(side: Side) -> None:
    with pytest.raises(OptionError) as caught:
        parsed(side, {"isolation.levl": "read_committed"})
    assert str(caught.value) == (
        "kafka.isolation.levl is not a setting of Kafka's clients: did you mean kafka.isolation.level?"
    )
    with pytest.raises(OptionError, match=r"kafka\.zzz is not a setting of Kafka's clients \(docs/spark-options.md"):
        parsed(side, {"zzz": "1"})


def test_keys_of_tls_and_sasl_need_a_protocol_that_has_them() -> None:
    [line] = parsed(Side.SOURCE, {"ssl.truststore.location": "t.pem"})
    assert line == "kafka.ssl.truststore.location does nothing: kafka.security.protocol=PLAINTEXT"
    given = {"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "", "sasl.mechanism": "PLAIN"}
    assert parsed(Side.SINK, given) == ("kafka.sasl.mechanism does nothing: kafka.security.protocol=SSL",)


def test_the_docs_have_the_table() -> None:
    page = (ROOT / "docs" / "spark-options.md").read_text(encoding="utf-8")
    assert page == spark_options.with_tables(page), "run: python tools/spark_options.py"


def test_the_docs_have_every_option() -> None:
    page = (ROOT / "docs" / "spark-options.md").read_text(encoding="utf-8")
    for known, heading in ((options.KNOWN, "## The source"), (sink_options.KNOWN, "## The sink")):
        section = page.split(heading, 1)[1].split("\n## ", 1)[0]
        rows = [
            line.split("|")[1].replace("`", "").replace("+", "")
            for line in section.splitlines()
            if line.startswith("| `")
        ]
        named = {name.strip().lower() for row in rows for name in row.split(",")}
        # Spark adds these by itself.
        assert named == set(known) - {"path", "checkpointlocation", "queryname"}
