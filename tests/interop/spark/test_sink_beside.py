"""What one connector writes the other reads, and what one refuses to write the other refuses too."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.interop.spark.beside import OURS, REFUSED, THEIRS, Beside
from tests.interop.spark.topics import CODECS, Topics

pytestmark = pytest.mark.timeout(300)

# Nulls, empty ones, keys that belong somewhere, headers of all sorts; every tenth says its partition.
ROWS = """
    select if(id % 5 = 0, null, concat('key-', id)) as key,
           if(id % 7 = 0, null, cast(repeat('v', cast(id % 300 as int)) as binary)) as value,
           if(id % 10 = 0, cast(id % 3 as int), null) as partition,
           if(id % 4 = 0, null, array(named_struct('key', 'a', 'value', cast(cast(id as string) as binary)),
                                      named_struct('key', 'a', 'value', cast(null as binary)))) as headers
    from range(400)
"""
BAD = (
    "select 'k' as key",
    "select 1 as value",
    "select 'v' as value, 1 as key",
    "select 'v' as value, 'x' as partition",
    "select 'v' as value, 'x' as headers",
    "select 'v' as value, 7 as topic",
    "select 'v' as value, cast(null as string) as topic",
    "select 'v' as value",
    "select 'v' as value, 9 as partition, 'TOPIC' as topic",
)


@pytest.fixture(scope="session")
def beside(spark: SparkSession, topics: Topics) -> Beside:
    return Beside(spark, topics)


def write(frame: DataFrame, kind: str, bootstrap: str, **options: str) -> None:
    writer = frame.write.format(kind).mode("append").option("kafka.bootstrap.servers", bootstrap)
    writer.options(**options).save()


@pytest.mark.parametrize("codec", CODECS)
def test_what_one_writes_the_other_reads(beside: Beside, codec: str) -> None:
    topics, found = beside.topics, {}
    for kind in (OURS, THEIRS):
        name = topics.new("written", 3)
        options = {"topic": name, "kafka.compression.type": codec}
        write(beside.spark.sql(ROWS), kind, topics.bootstrap, **options)
        both = beside.same_rows(subscribe=name, includeHeaders="true")
        assert len(both) == 400
        # Who has a key or says a partition goes there; the others may go anywhere.
        placed = [(row[0], row[1], row[3], row[7]) for row in both if row[0] is not None]
        anywhere = [(row[1], row[7]) for row in both if row[0] is None]
        found[kind] = sorted(placed, key=repr), sorted(anywhere, key=repr)
    assert found[OURS] == found[THEIRS]


@pytest.mark.quick
def test_a_row_says_its_topic_unless_the_option_does(beside: Beside) -> None:
    topics, found = beside.topics, {}
    for kind in (OURS, THEIRS):
        one, other = topics.new("one"), topics.new("other")
        frame = beside.spark.sql(
            f"select if(id % 2 = 0, '{one}', '{other}') as topic, cast(id as string) as value from range(9)"
        )
        write(frame, kind, topics.bootstrap)
        write(frame, kind, topics.bootstrap, topic=one)
        found[kind] = [sorted(row[1] for row in beside.same_rows(subscribe=name)) for name in (one, other)]
    assert found[OURS] == found[THEIRS]
    assert [len(each) for each in found[OURS]] == [14, 4]


def test_what_cannot_be_written_is_refused_by_both(beside: Beside) -> None:
    name = beside.topics.new("refused")
    taken = []
    for text in BAD:
        for kind in (OURS, THEIRS):
            # Kafka's producer waits a minute for a partition that is not there.
            options = {"kafka.max.block.ms": "2000"}
            try:
                write(beside.spark.sql(text.replace("TOPIC", name)), kind, beside.topics.bootstrap, **options)
                taken.append((kind, text))
            except REFUSED as error:
                assert str(error)
    assert taken == []
    assert beside.same_rows(subscribe=name) == []
