"""Pipelines on a real Spark, against real brokers: what they write, what they leave out, and how they go on (L1-L4)."""

import json
import shutil
import textwrap
import urllib.request
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import Row, SparkSession

from tidelog.jobs.pipeline import snapshots
from tidelog.jobs.pipeline.metrics import served
from tidelog.jobs.pipeline.parsing import load
from tidelog.jobs.pipeline.running import PipelineFailed, Run
from tidelog.jobs.pipeline.state import ENDED, FAILED, QueryState, RunState, StateFolder, folder_of
from tidelog.testing import Cluster

pytestmark = [pytest.mark.timeout(300)]

Topic = Callable[..., str]


class Pipelines:
    """Runs a file in the session of the tests, as the command does in one of its own."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.folder = folder
        self.batches: list[tuple[str, int]] = []
        # What the port of metrics said after each batch, where a pipeline has one.
        self.scraped: list[str] = []

    def run(self, text: str, *, once: bool = True, stop_after: int | None = None) -> RunState:
        file = self.folder / "p.toml"
        file.write_text(textwrap.dedent(text))
        pipeline = load(file, bootstrap=self.bootstrap)
        folder = StateFolder(folder_of(pipeline))
        self.batches = []

        def report(_: RunState, query: QueryState) -> None:
            self.batches.append((query.name, query.rows))
            if port is not None:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                    self.scraped.append(answer.read().decode())
            if len(self.batches) == stop_after:
                running.stop()

        with folder.held():
            running = Run(self.spark, pipeline, folder, report)
            with served(pipeline.metrics_port, lambda: asdict(running.state)) as port:
                return running.run(once=once)

    def rows(self, name: str, **options: str) -> list[Row]:
        return self.spark.read.options(**options).parquet(str(self.folder / name)).collect()

    def topic(self, name: str) -> list[Row]:
        reader = self.spark.read.format("tidelog").option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("subscribe", name).option("includeHeaders", "true").load().orderBy("offset").collect()


@pytest.fixture
def pipelines(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Pipelines:
    return Pipelines(spark, cluster.bootstrap, tmp_path)


def write(cluster: Cluster, topic: str, records: list[tuple[bytes | None, bytes | None]]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for number, (key, value) in enumerate(records):
        producer.produce(topic, key=key, value=value, partition=0, timestamp=1_700_000_000_000 + number)
    assert producer.flush(60) == 0


def objects(first: int, end: int) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (b"k%d" % number, json.dumps({"id": number, "name": f"n{number}"}).encode()) for number in range(first, end)
    ]


BAD: dict[bytes, str] = {
    b"garbage": "the value is not one JSON object",
    b"": "the value is not one JSON object",
    b'{"id": 1': "the value is not one JSON object",
    b'{"id": 1} and more': "the value is not one JSON object",
    b'{"id": 1}}': "the value is not one JSON object",
    b'{"id": 1},{"id": 2}': "the value is not one JSON object",
    b'{"id": 1}, "id": 2': "the value is not one JSON object",
    b'{"id": 1}],"end":1,"v":[{"id": 2}': "the value is not one JSON object",
    b"null": "the value is null in JSON",
    b'[{"id": 1}]': "the value does not fit its schema",
    b'{"id": "x", "name": "n"}': "the value does not fit its schema: id bigint",
    b'{"id": 1.5}': "the value does not fit its schema: id bigint",
    b'{"id": 1, "at": "soon"}': "the value does not fit its schema: at timestamp",
    b'{"id": 1, "at": 1767614400000}': "the value has a number for a timestamp: at",
    b'{"id": 1, "\\u0061t": 17}': "the value has a number for a timestamp: at",
    b'{"id": 1, "seen": ["2026-01-05T12:00:00Z", 17]}': "the value has a number for a timestamp: seen",
    b'{"id": 1, "deep": {"n": "x"}}': "the value does not fit its schema",
    b'{"name": "n"}': "the value has no id",
    b'{"id": 1, "name": "\xff"}': "the value is not UTF-8",
}
ORDERS = '''
    [pipeline]
    checkpoint = "checkpoint"

    [sources.orders]
    topics = ["{topic}"]
    value = {{ format = "json", schema = """
      id BIGINT NOT NULL, name STRING, at TIMESTAMP, seen ARRAY<TIMESTAMP>, deep STRUCT<n: INT>
    """ }}
    key = "string"
    options = {{ maxOffsetsPerTrigger = 50 }}

    [steps.named]
    sql = "select id, name, _key, _offset from orders"

    [sinks.table]
    from = "named"
    format = "parquet"
    path = "table"

    [dead_letters]
    {letters}
'''


def test_bad_records_go_to_dead_letters_and_the_rest_goes_on(
    pipelines: Pipelines, cluster: Cluster, topic: Topic
) -> None:
    """L4"""
    name = topic()
    write(
        cluster, name, [*objects(0, 20), *((None, value) for value in BAD), (b"\xff", b'{"id": 7}'), *objects(20, 40)]
    )
    write(cluster, name, [(b"gone", None)])
    state = pipelines.run(ORDERS.format(topic=name, letters='path = "dead"'))
    good = pipelines.rows("table")
    assert sorted(row.id for row in good if row._key != "gone") == list(range(40))
    # A record without a value is not a bad one: it says that its key is gone.
    assert [(row.id, row._offset) for row in good if row._key == "gone"] == [(None, 41 + len(BAD))]
    dead = sorted(pipelines.rows("dead/orders"), key=lambda row: row.offset)
    assert {bytes(row.value): row.reason for row in dead[:-1]} == BAD
    assert [(row.topic, row.partition, row.offset, row.key) for row in dead] == [
        *((name, 0, 20 + number, None) for number in range(len(BAD))),
        (name, 0, 20 + len(BAD), b"\xff"),
    ]
    assert dead[-1].reason == "the key is not UTF-8"
    assert dead[0].timestamp.timestamp() == 1_700_000_000.020
    assert sum(each.dead_letters for each in state.queries) == len(dead)
    assert (state.state, [each.backlog for each in state.queries]) == (ENDED, [{"orders": 0}, {"orders": 0}])
    assert [rows for query, rows in pipelines.batches if query == "table"] == [50, len(BAD) + 42 - 50]


def test_a_pipeline_stops_after_a_batch_and_goes_on_where_it_was(
    pipelines: Pipelines, cluster: Cluster, topic: Topic
) -> None:
    """L2, L3"""
    name = topic()
    write(cluster, name, objects(0, 200))
    text = ORDERS.format(topic=name, letters='path = "dead"')
    state = pipelines.run(text, once=False, stop_after=1)
    done = [each.total_batches for each in state.queries]
    assert state.state == ENDED and 0 < sum(done) < 8
    first = {row.id for row in pipelines.rows("table")} if done[0] else set()
    assert len(first) == 50 * done[0]
    write(cluster, name, objects(200, 240))
    pipelines.run(text)
    assert sorted(row.id for row in pipelines.rows("table")) == list(range(240))
    status = StateFolder(pipelines.folder / "checkpoint").read()
    assert status["queries"][0]["total_rows"] == 240 - len(first)
    # Spark would find the numbers of its first batches in the table's log, and leave them out.
    shutil.rmtree(pipelines.folder / "checkpoint")
    with pytest.raises(PipelineFailed, match=r"was written up to batch \d+ with a checkpoint other"):
        pipelines.run(text)


def test_a_directory_has_one_writer(
    pipelines: Pipelines, cluster: Cluster, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3: two that have done as many batches would each take the other's for their own, and leave out rows."""
    name = topic()
    write(cluster, name, objects(0, 10))
    text = ORDERS.format(topic=name, letters='path = "dead"')
    pipelines.run(text)
    other = text.replace('checkpoint = "checkpoint"', 'checkpoint = "other"').replace('path = "dead"', 'path = "dead2"')
    # As it is when both have done nothing yet.
    shutil.rmtree(pipelines.folder / "table" / "_spark_metadata")
    with pytest.raises(PipelineFailed, match=r"table belongs to table of \w+, not to table of \w+"):
        pipelines.run(other)
    # The same of whole tables: each would call its own the current one, and clear away the other's.
    whole = other.replace('path = "table"', 'path = "whole"\n    mode = "complete"').replace(
        "select id, name, _key, _offset from orders", "select count(*) as n from orders"
    )
    pipelines.run(whole)
    made = snapshots.current(pipelines.spark, str(pipelines.folder / "whole"))
    with pytest.raises(PipelineFailed, match=r"whole belongs to table of \w+, not to table of \w+"):
        pipelines.run(whole.replace('"other"', '"third"').replace('"dead2"', '"dead3"'))
    assert snapshots.current(pipelines.spark, str(pipelines.folder / "whole")) == made
    moved = pipelines.folder / "moved"
    shutil.move(pipelines.folder / "checkpoint", moved)
    pipelines.run(text.replace('checkpoint = "checkpoint"', 'checkpoint = "moved"'))


def test_functions_tables_topics_and_whole_tables(pipelines: Pipelines, cluster: Cluster, topic: Topic) -> None:
    """L1, and L4 into a topic: the same bytes, with the reason in headers."""
    name, target, letters = topic(), topic(), topic()
    (pipelines.folder / "pipeline_steps.py").write_text(
        textwrap.dedent(
            """
            from pyspark.sql import functions as f

            def loud(text):
                return text.upper() + "!"

            def join(orders, countries):
                named = orders.join(countries, orders.id % 2 == countries.code)
                return named.withColumn("name", f.udf(loud, "string")("name"))
            """
        )
    )
    (pipelines.folder / "countries.csv").write_text("code,country\n0,France\n1,Japan\n")
    write(cluster, name, [*objects(0, 10), (b"k", b"bad")])
    text = f"""
        [pipeline]
        checkpoint = "checkpoint"
        [sources.orders]
        topics = "{name}"
        value = {{ format = "json", schema = "id BIGINT, name STRING" }}
        key = "string"
        [tables.countries]
        format = "csv"
        path = "countries.csv"
        schema = "code INT, country STRING"
        options = {{ header = true }}
        [steps.joined]
        function = "pipeline_steps:join"
        inputs = ["orders", "countries"]
        [steps.newest]
        sql = "select _key, max_by(name, _offset) as name, count(*) as changes from orders group by _key"
        [sinks.enriched]
        from = "joined"
        topic = "{target}"
        encode = "json"
        key = "country"
        [sinks.latest]
        from = "newest"
        format = "parquet"
        path = "latest"
        mode = "complete"
        [dead_letters]
        topic = "{letters}"
    """
    pipelines.run(text)
    [letter] = pipelines.topic(letters)
    assert (bytes(letter.key), bytes(letter.value)) == (b"k", b"bad")
    headers = {each.key: bytes(each.value).decode() for each in letter.headers}
    assert headers["tidelog.reason"] == "the value is not one JSON object"
    assert (headers["tidelog.topic"], headers["tidelog.partition"], headers["tidelog.offset"]) == (name, "0", "10")
    found = [(bytes(row.key).decode(), json.loads(bytes(row.value))) for row in pipelines.topic(target)]
    assert sorted((value["id"], value["name"], key) for key, value in found) == [
        (number, f"N{number}!", ("France", "Japan")[number % 2]) for number in range(10)
    ]

    def latest() -> dict[str, tuple[str, int]]:
        where = snapshots.current(pipelines.spark, str(pipelines.folder / "latest"))
        return {row._key: (row.name, row.changes) for row in pipelines.spark.read.parquet(where).collect()}

    assert latest() == {f"k{number}": (f"n{number}", 1) for number in range(10)}
    write(cluster, name, [(b"k3", b'{"id": 3, "name": "other"}')])
    pipelines.run(text)
    assert latest()["k3"] == ("other", 2) and len(latest()) == 10


def test_a_whole_table_stays_whole_however_batches_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    """With a checkpoint made anew they are counted from 0 again, and one that was not committed runs again."""
    path = str(tmp_path)
    seen: list[str] = []
    for batch_id in (7, 8, 9, 0, 0, 0):
        snapshots.write(spark.range(batch_id + 1).coalesce(1), batch_id, path, "parquet", {})
        seen.append(snapshots.current(spark, path))
        assert spark.read.parquet(seen[-1]).count() == batch_id + 1
        # Readers of the one before stay, and nothing that was ever named is written again.
        assert all(spark.read.parquet(each).count() > 0 for each in seen[-2:])
    assert len(set(seen)) == len(seen)
    assert len(list(tmp_path.glob("batch-*"))) == 2


def test_a_database_and_files_get_each_batch_and_numbers_are_served_meanwhile(
    pipelines: Pipelines, cluster: Cluster, topic: Topic
) -> None:
    """L1 and L2: formats that have no streaming writer. The database is Derby, which comes with Spark."""
    name = topic()
    write(cluster, name, objects(0, 80))
    database = {
        "url": f"jdbc:derby:{pipelines.folder}/database;create=true",
        "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "dbtable": "orders",
    }
    options = ", ".join(f'{key} = "{value}"' for key, value in database.items())
    pipelines.run(
        f"""
        [pipeline]
        checkpoint = "checkpoint"
        metrics_port = 0
        [sources.orders]
        topics = "{name}"
        value = {{ format = "json", schema = "id BIGINT, name STRING" }}
        options = {{ maxOffsetsPerTrigger = 50 }}
        [steps.named]
        sql = "select id, name from orders"
        [sinks.database]
        from = "named"
        format = "jdbc"
        options = {{ {options} }}
        [sinks.files]
        from = "named"
        format = "json"
        path = "files"
        each_batch = true
        [dead_letters]
        path = "dead"
        """
    )
    for reader in (
        pipelines.spark.read.format("jdbc").options(**database),
        pipelines.spark.read.format("json").option("path", str(pipelines.folder / "files")),
    ):
        assert sorted((row[0], row[1]) for row in reader.load().select("id", "name").collect()) == [
            (number, f"n{number}") for number in range(80)
        ]
    written = [batch for batch in sorted(pipelines.batches) if batch[0] in ("database", "files")]
    assert written == [("database", 30), ("database", 50), ("files", 30), ("files", 50)]
    assert all('tidelog_pipeline_up{pipeline="p"} 1\n' in text for text in pipelines.scraped)
    assert 'tidelog_pipeline_rows_total{pipeline="p",query="database"} 80\n' in pipelines.scraped[-1]
    assert 'tidelog_pipeline_backlog_records{pipeline="p",query="files",source="orders"} 0\n' in pipelines.scraped[-1]


def test_a_database_has_the_whole_result_and_nothing_else_however_often_a_batch_runs(
    pipelines: Pipelines, cluster: Cluster, topic: Topic
) -> None:
    """L1: appended, each batch of mode `complete` would add all that the ones before have written."""
    name = topic()
    write(cluster, name, objects(0, 30))
    database = {
        "url": f"jdbc:derby:{pipelines.folder}/database;create=true",
        "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "dbtable": "sums",
    }
    options = ", ".join(f'{key} = "{value}"' for key, value in database.items())
    text = f'''
        [pipeline]
        checkpoint = "checkpoint"
        [sources.orders]
        topics = "{name}"
        value = {{ format = "json", schema = "id BIGINT, name STRING" }}
        options = {{ maxOffsetsPerTrigger = 100 }}
        [steps.counted]
        sql = """
          select odd, if(n > 30, raise_error('too many'), n) as n
          from (select id % 2 as odd, count(*) as n from orders group by 1)
        """
        [sinks.database]
        from = "counted"
        format = "jdbc"
        mode = "complete"
        options = {{ {options} }}
        [dead_letters]
        path = "dead"
    '''

    def counts() -> list[tuple[int, int]]:
        found = pipelines.spark.read.format("jdbc").options(**database).load()
        return sorted((row[0], row[1]) for row in found.collect())

    pipelines.run(text)
    write(cluster, name, objects(30, 60))
    pipelines.run(text)
    assert counts() == [(0, 30), (1, 30)]
    # As it is when a run is killed after it has written and before Spark has noted that.
    commits = pipelines.folder / "checkpoint" / "queries" / "database" / "commits"
    for file in (commits / "1", commits / ".1.crc"):
        file.unlink(missing_ok=True)
    pipelines.run(text)
    assert counts() == [(0, 30), (1, 30)]
    # What cannot be worked out takes nothing away.
    write(cluster, name, objects(60, 200))
    with pytest.raises(PipelineFailed, match="too many"):
        pipelines.run(text)
    assert counts() == [(0, 30), (1, 30)]


def test_latest_is_looked_up_once_for_all_queries(pipelines: Pipelines, cluster: Cluster, topic: Topic) -> None:
    """A run that ended before its first batch does not lose what came meanwhile."""
    name = topic()
    write(cluster, name, objects(0, 10))
    text = ORDERS.format(topic=name, letters='path = "dead"').replace("topics", 'starting = "latest"\n    topics')
    pipelines.run(text)
    for name_of_old in ("checkpoint/queries", "table", "dead"):
        (pipelines.folder / name_of_old).rename(pipelines.folder / f"old-{Path(name_of_old).name}")
    write(cluster, name, [*objects(10, 15), (None, b"bad")])
    pipelines.run(text)
    assert sorted(row.id for row in pipelines.rows("table")) == list(range(10, 15))
    assert [bytes(row.value) for row in pipelines.rows("dead/orders")] == [b"bad"]


def test_what_comes_behind_the_watermark_is_counted(pipelines: Pipelines, cluster: Cluster, topic: Topic) -> None:
    """L2: Spark drops it without a word. A number that it would take for a time of the far future moves nothing."""
    name = topic()
    times: list[object] = [*(f"2026-01-05T{hour}:00:00Z" for hour in (12, 12, 16, 16, 13, 18, 18, 14)), 1767614400000]
    write(cluster, name, [(None, json.dumps({"at": time}).encode()) for time in (*times, "2026-01-05T20:00:00Z")])
    text = f"""
        [pipeline]
        checkpoint = "checkpoint"
        metrics_port = 0
        [sources.orders]
        topics = "{name}"
        value = {{ format = "json", schema = "at TIMESTAMP NOT NULL" }}
        watermark = {{ column = "at", delay = "10 minutes" }}
        options = {{ maxOffsetsPerTrigger = 1 }}
        [steps.hours]
        sql = "select window(at, '1 hour').start as hour, count(*) as n from orders group by window(at, '1 hour')"
        [sinks.table]
        from = "hours"
        format = "parquet"
        path = "table"
        [dead_letters]
        path = "dead"
    """
    state = pipelines.run(text)
    assert sorted((row.hour.hour, row.n) for row in pipelines.rows("table")) == [(12, 2), (16, 2), (18, 2)]
    assert {each.name: each.late_rows for each in state.queries} == {"table": 2, "dead_letters.orders": 0}
    assert 'tidelog_pipeline_late_rows_total{pipeline="p",query="table"} 2\n' in pipelines.scraped[-1]
    [query, _] = StateFolder(pipelines.folder / "checkpoint").read()["queries"]
    assert (query["late_rows"], query["dead_letters"]) == (2, 0)
    [letter] = pipelines.rows("dead/orders")
    assert letter.reason == "the value has a number for a timestamp: at"


def test_a_failure_is_one_line(pipelines: Pipelines, topic: Topic) -> None:
    text = ORDERS.format(topic=topic(), letters='path = "dead"')
    with pytest.raises(PipelineFailed, match=r"^\[UNRESOLVED_COLUMN.*nothing") as caught:
        pipelines.run(text.replace("select id", "select nothing, id"))
    assert "\n" not in str(caught.value)
    assert StateFolder(pipelines.folder / "checkpoint").read()["state"] == FAILED
    with pytest.raises(PipelineFailed, match=r"^table: .*column value is bigint, and must be string or binary$"):
        pipelines.run(
            text.replace("select id, name", "select id as value")
            .replace('format = "parquet"', 'topic = "x"')
            .replace('path = "table"', "")
        )
