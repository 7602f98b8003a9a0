"""Decoding on a real Spark, without brokers: each record is parsed once, and a bad one has its reason."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f
from tests.spark.test_pipeline import BAD

from tidelog.jobs.pipeline import decoding
from tidelog.jobs.pipeline.ddl import fields
from tidelog.jobs.pipeline.model import JSON, STRING, Decoding, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.timeout(300)]

SEVEN = """
    id BIGINT NOT NULL, name STRING, price DOUBLE, qty INT, ok BOOLEAN, deep STRUCT<a: INT, b: STRING>, tags ARRAY<INT>
"""
TIMES = "id BIGINT NOT NULL, name STRING, at TIMESTAMP, seen ARRAY<TIMESTAMP>, deep STRUCT<n: INT>"


def json(schema: str) -> Decoding:
    found = fields(schema, is_json=True)
    return Decoding(format=JSON, schema=schema, required=tuple(each.name for each in found if each.required))


def source(schema: str, key: Decoding | None = None) -> Source:
    return Source(name="orders", options={}, value=json(schema), key=key or Decoding(format=STRING))


def records(spark: "SparkSession", *values: bytes | None) -> "DataFrame":
    rows = [(None, value, "orders", 0, number) for number, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "key binary, value binary, topic string, partition int, offset long")
    return frame.withColumn("timestamp", f.current_timestamp())


def optimized(frame: "DataFrame") -> str:
    jvm: Any = frame._jdf
    return str(jvm.queryExecution().optimizedPlan().toString())


def parses(frame: "DataFrame") -> int:
    """How many expressions of the plan parse JSON, each of them once per record."""
    plan = optimized(frame)
    return sum(plan.count(each) for each in ("from_json(", "jsonObjectKeys(", "get_json_object("))


QUERIES: dict[str, "Callable[[DataFrame], DataFrame]"] = {
    "everything": lambda view: view,
    "some columns": lambda view: view.select("name", "qty"),
    "a filter": lambda view: view.where("qty > 3 and name like 'a%' and deep.a < 5").select("id", "deep.b"),
    "an aggregate": lambda view: view.groupBy("name").agg(f.sum("price"), f.max("qty"), f.count_if("ok"), f.max("id")),
    "steps one after the other": lambda view: (
        view.selectExpr("id", "upper(name) as name", "price * qty as total", "_key")
        .where("total > 1 and name <> 'X'")
        .selectExpr("total + id as t", "concat(name, name) as n", "total * total as tt")
        .where("t > 2")
    ),
    "a list as rows": lambda view: view.select("id", "name", f.explode("tags").alias("tag")).where("tag > 1"),
    "a window": lambda view: view.selectExpr("id", "sum(qty) over (partition by name order by id) as running"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_parses_each_record_once(spark: "SparkSession", name: str) -> None:
    view = decoding.good(records(spark, b'{"id": 1}'), source(SEVEN))
    assert parses(QUERIES[name](view)) == 1


def test_a_key_of_json_is_one_more_and_a_union_reads_twice(spark: "SparkSession") -> None:
    view = decoding.good(records(spark, b'{"id": 1}'), source(SEVEN, json("customer INT")))
    assert parses(view.where("_key.customer > 1").select("id", "name", "_key")) == 2
    once = decoding.good(records(spark, b'{"id": 1}'), source(SEVEN))
    assert parses(once.where("id > 1").union(once.where("qty > 1"))) == 2


def test_only_a_record_with_what_may_be_a_number_for_a_timestamp_is_parsed_again(spark: "SparkSession") -> None:
    view = decoding.good(records(spark, b'{"id": 1}'), source(TIMES.replace("seen ARRAY<TIMESTAMP>,", "")))
    plan = optimized(view.select("id", "at"))
    assert plan.count("from_json(") == 2
    assert re.search(r"CASE WHEN \(*Contains\(cast\(value#\d+ as string\), .*? THEN .*from_json\(", plan), plan


NUMBERS = {
    b'{"id": 1, "at": "2026-01-05T12:00:00Z"}': False,
    b'{"id": 1, "at":\t\n                    "2026-01-05T12:00:00Z"}': False,
    b'{"id": 1, "at": null}': False,
    b'{"id": 17, "name": "at"}': False,
    b'{"id": 1, "at": "2026-01-05T12:00:00Z", "x": {"at": 17}}': False,
    b'{"id": 1, "name": "\\"at\\": 17"}': False,
    b'{"id": 1, "at":17}': True,
    b'{"id": 1, "at" :\n                        -17}': True,
    b"{'id': 1, 'at': 1767614400000000}": True,
    b'{"id": 1, "\\u0061t": 17}': True,
    b'{"id": 1, "name": "at", "at": 17}': True,
    b'{"at": "2026-01-05T12:00:00Z", "id": 1, "at": 17}': True,
    '{"name": "ÄÖÜ€", "id": 1, "at": 17, "x": "ß"}'.encode(): True,
}


def test_a_number_for_a_timestamp_is_found_wherever_it_is(spark: "SparkSession") -> None:
    found = decoding.bad(records(spark, *NUMBERS), source("id BIGINT NOT NULL, name STRING, at TIMESTAMP")).collect()
    assert {bytes(row.value) for row in found} == {value for value, is_number in NUMBERS.items() if is_number}
    assert {row.reason for row in found} == {"the value has a number for a timestamp: at"}


def test_reasons_and_what_is_good(spark: "SparkSession") -> None:
    good = [None, b'{"id": 1}', b' {"id": 2, "x": [[1]], "seen": ["2026-01-05T12:00:00Z"]}\n']
    frame = records(spark, *BAD, *good)
    found = decoding.bad(frame, source(TIMES)).collect()
    assert {bytes(row.value): row.reason for row in found} == BAD
    assert [row.id for row in decoding.good(frame, source(TIMES)).orderBy("_offset").collect()] == [None, 1, 2]


@pytest.mark.parametrize(
    "value",
    [
        b'{"id": 1}],[{"id": 2}',
        b'{"id": 1}],[{}]]} more',
        b'{"id": 1}],[{"_0": 1}]],"_0":[[{"id": 2}',
        b'{"id": 1}]],"v":[[{"id": 2}',
        b'{"id": 1}],"end":1} and more',
        b'{"id": 1}]]}',
    ],
)
def test_no_value_passes_for_a_record_by_closing_what_it_is_wrapped_in(spark: "SparkSession", value: bytes) -> None:
    frame = records(spark, value)
    assert decoding.good(frame, source(TIMES)).count() == 0
    assert [row.reason for row in decoding.bad(frame, source(TIMES)).collect()] == ["the value is not one JSON object"]
