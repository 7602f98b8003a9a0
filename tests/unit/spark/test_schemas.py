"""S15: a schema of the user's that is not the source's is refused with the columns that exist."""

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from tidelog.spark import schemas
from tidelog.spark.errors import OptionError
from tidelog.spark.source import TidelogDataSource

OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


def refused(schema: StructType, **options: str) -> str:
    with pytest.raises(OptionError) as caught:
        schemas.check(schema, OPTIONS | options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_own_schema_is_taken() -> None:
    for options in (OPTIONS, OPTIONS | {"includeHeaders": "true", "includeEpoch": "true"}):
        schemas.check(schemas.of(options), options)


def test_nullability_is_not_compared() -> None:
    fields = [StructField(field.name, field.dataType, nullable=False) for field in schemas.of(OPTIONS).fields]
    schemas.check(StructType(fields), OPTIONS)


def test_a_partial_schema_is_refused_with_the_columns() -> None:
    line = refused(StructType([StructField("value", BinaryType())]))
    assert "column key is missing; column topic is missing" in line
    assert f"The columns are: {COLUMNS}. Leave .schema(...) out" in line


def test_columns_of_the_value_are_refused() -> None:
    line = refused(StructType([StructField("id", LongType()), StructField("name", StringType())]))
    assert line.startswith("schema: there is no column id; there is no column name; column key is missing")


def test_another_type_is_refused() -> None:
    fields = [
        StructField("value", StringType()) if field.name == "value" else field for field in schemas.of(OPTIONS).fields
    ]
    assert "schema: column value is binary, not string. The columns are" in refused(StructType(fields))


def test_another_order_is_refused() -> None:
    line = refused(StructType(list(reversed(schemas.of(OPTIONS).fields))))
    assert line.startswith("schema: the columns have another order. ")


def test_columns_that_options_add_are_named() -> None:
    line = refused(schemas.of(OPTIONS), includeEpoch="true")
    assert line.startswith("schema: column leaderEpoch is missing") and "leaderEpoch int. " in line


def test_readers_refuse_before_a_broker_is_asked() -> None:
    source = TidelogDataSource(OPTIONS)
    for make in (source.reader, source.streamReader):
        with pytest.raises(OptionError, match="column key is missing"):
            make(StructType([StructField("value", BinaryType())]))
        make(schemas.of(OPTIONS))
