"""Records to columns, and the reason why a record cannot be decoded (L4), as Spark expressions: no Python runs per row.

Spark inlines `from_json` once per column that uses it, and again into filters. `_parsed` keeps it at one parse per
record: the optimizer copies no expression that is not deterministic.

A JSON value is parsed inside of `{"TAG":[[…],[{"TAG":1}]]}`. Alone, Spark's parser stops after the first whole value,
so that it takes `{"a":1} and more` for a good record, and reports neither an empty value nor `null`. A value that
closes the wrapper and opens another is found by the shape: no value can contain the tag, which is random.
"""

import secrets
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from tidelog.jobs.pipeline.model import JSON, RAW, Decoding, Source
from tidelog.jobs.pipeline.timestamps import numbers_in_timestamps

_CORRUPT: Final = "_corrupt_record"
_TAG: Final = f"_{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class Decoded:
    """`columns` has a name for each; `reason` is null for a good record and for a null one. `is_good` is the same
    question without the words: it costs less.
    """

    columns: list[tuple[str, Column]]
    reason: Column
    is_good: Column


def good(frame: DataFrame, source: Source) -> DataFrame:
    """The columns of a source's view, of records that can be decoded."""
    has_headers, has_epoch = "headers" in frame.columns, "leaderEpoch" in frame.columns
    frame, value, key = _decoded(frame, source)
    found = [made.alias(name) for name, made in value.columns]
    if source.key.format == JSON:
        found.append(f.struct(*(made.alias(name) for name, made in key.columns)).alias("_key"))
    else:
        found.append(key.columns[0][1].alias("_key"))
    found += [f.col(name).alias(f"_{name}") for name in ("topic", "partition", "offset", "timestamp")]
    found += [f.col("headers").alias("_headers")] if has_headers else []
    found += [f.col("leaderEpoch").alias("_epoch")] if has_epoch else []
    if source.can_fail:
        frame = frame.where(value.is_good & key.is_good)
    return frame.select(*found)


def bad(frame: DataFrame, source: Source) -> DataFrame:
    """Records that cannot be decoded, with the reason, their position and their bytes."""
    frame, value, key = _decoded(frame, source)
    return frame.where(~(value.is_good & key.is_good)).select(
        f.lit(source.name).alias("source"),
        f.coalesce(value.reason, key.reason).alias("reason"),
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
    )


def _decoded(frame: DataFrame, source: Source) -> tuple[DataFrame, Decoded, Decoded]:
    """The frame with parsed JSON as further columns, and what becomes of value and key."""
    made = []
    for name, how in (("value", source.value), ("key", source.key)):
        if how.format == JSON:
            frame = frame.withColumn(f"{_TAG}_{name}", _parsed(f.col(name).cast("string"), how))
        made.append(decode(name, how))
    return frame, made[0], made[1]


def decode(name: str, how: Decoding) -> Decoded:
    """The binary column `name`; JSON is parsed already."""
    raw = f.col(name)
    if how.format == RAW:
        return Decoded([(name, raw)], f.lit(None).cast("string"), f.lit(True))
    text = raw.cast("string")
    is_text = f.is_valid_utf8(text)
    if how.format != JSON:
        not_text = f.when(~is_text, f"the {name} is not UTF-8")
        return Decoded([(name, text)], not_text, raw.isNull() | is_text)
    schema = _nullable(how.schema)
    parsed = f.col(f"{_TAG}_{name}")
    first, last = f.get(parsed[_TAG], f.lit(0)), f.get(parsed[_TAG], f.lit(1))
    one = f.get(first, f.lit(0))
    end = f.get(last, f.lit(0))[_TAG]
    is_whole = end.isNotNull() & (f.size(parsed[_TAG]) == 2) & (f.size(first) == 1)
    is_corrupt = parsed[_CORRUPT].isNotNull()
    numbers = numbers_in_timestamps(text, schema, how.options)
    is_good = is_text & is_whole & ~is_corrupt & one.isNotNull()
    reason = (
        f.when(~is_text, f"the {name} is not UTF-8")
        .when(is_corrupt & _is_json(text), _misfit(name, text, one, schema))
        .when(~is_whole | is_corrupt, f"the {name} is not one JSON object")
        .when(one.isNull(), f"the {name} is null in JSON")
    )
    for field in how.required:
        reason = reason.when(one[field].isNull(), f"the {name} has no {field}")
        is_good = is_good & one[field].isNotNull()
    if numbers is not None:
        reason = f.coalesce(reason, f.concat(f.lit(f"the {name} has a number for a timestamp: "), numbers))
        is_good = is_good & numbers.isNull()
    columns = [(field.name, one[field.name]) for field in schema.fields]
    return Decoded(columns, f.when(raw.isNotNull(), reason), raw.isNull() | f.coalesce(is_good, f.lit(False)))


def _parsed(text: Column, how: Decoding) -> Column:
    """The wrapped value, parsed once per row: the optimizer moves and copies what is deterministic only."""
    fields = StructType([*_nullable(how.schema).fields, StructField(_TAG, IntegerType())])
    parsed = f.from_json(
        f.concat(f.lit(f'{{"{_TAG}":[['), text, f.lit(f'],[{{"{_TAG}":1}}]]}}')),
        StructType([StructField(_TAG, ArrayType(ArrayType(fields))), StructField(_CORRUPT, StringType())]),
        how.options | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )
    return f.when(f.spark_partition_id() >= 0, parsed)


def _nullable(ddl: str) -> StructType:
    """Spark's JSON parser ignores NOT NULL, so `Decoding.required` has those fields."""
    parsed = StructType.fromDDL(ddl)
    assert isinstance(parsed, StructType)
    return StructType([StructField(each.name, each.dataType) for each in parsed.fields])


def _is_json(text: Column) -> Column:
    """Whether it is one JSON value, whatever its fields are: a string takes any. Evaluated for bad records only."""
    wrapped = f.concat(f.lit('{"v":'), text, f.lit(',"end":1}'))
    any_value = f.from_json(
        wrapped,
        f"v STRING, end INT, {_CORRUPT} STRING",
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )
    is_alone = f.size(f.json_object_keys(wrapped)) == 2
    return any_value[_CORRUPT].isNull() & any_value["end"].isNotNull() & is_alone


def _misfit(name: str, text: Column, one: Column, schema: StructType) -> Column:
    """Names the fields that have a value and were decoded to null. Mistakes deeper inside are not named."""
    wrong = f.concat_ws(
        ", ",
        *(
            f.when(
                one[each.name].isNull() & f.get_json_object(text, f"$['{each.name}']").isNotNull(),
                f"{each.name} {each.dataType.simpleString()}",
            )
            for each in schema.fields
            if "'" not in each.name
        ),
    )
    words = f.concat(f.lit(f"the {name} does not fit its schema: "), wrong)
    return f.when(wrong != "", words).otherwise(f"the {name} does not fit its schema")
