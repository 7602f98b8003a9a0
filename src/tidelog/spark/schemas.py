"""The columns of the source (S2): those of Spark's Kafka source, and the leader epoch on request."""

from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.spark.errors import OptionError
from tidelog.spark.options import flag


def of(options: Mapping[str, str]) -> StructType:
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if flag(options, "includeHeaders", default=False):
        header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        fields.append(StructField("headers", ArrayType(header)))
    if flag(options, "includeEpoch", default=False):
        fields.append(StructField("leaderEpoch", IntegerType()))
    return StructType(fields)


def check(given: StructType, options: Mapping[str, str]) -> None:
    """OptionError for a schema of the user's that is not the source's (S15). Rows have all columns, in this order.

    Whether a column may be null is not compared: Spark changes that by itself.
    """
    wanted = of(options)
    if _columns(given) == _columns(wanted):
        return
    given_names, names = set(given.names), set(wanted.names)
    problems = [f"there is no column {name}" for name in given.names if name not in names]
    problems += [f"column {name} is missing" for name in wanted.names if name not in given_names]
    problems += [
        f"column {field.name} is {_type(wanted[field.name])}, not {_type(field)}"
        for field in given.fields
        if field.name in names and _type(field) != _type(wanted[field.name])
    ]
    columns = ", ".join(f"{field.name} {_type(field)}" for field in wanted.fields)
    raise OptionError(
        f"schema: {'; '.join(problems) or 'the columns have another order'}. The columns are: {columns}. "
        f"Leave .schema(...) out; includeHeaders and includeEpoch add columns, and select() drops them"
    )


def _columns(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, _type(field)) for field in schema.fields]


def _type(field: StructField) -> str:
    return field.dataType.simpleString()
