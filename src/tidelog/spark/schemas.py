"""The columns of the source (S2): those of Spark's Kafka source, and the leader epoch for who asks for it."""

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
