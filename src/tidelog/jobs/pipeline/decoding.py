"""Records to columns, and what is wrong with those that cannot be decoded (L4): expressions of Spark's own, no Python
runs on a row.

A JSON value is parsed inside of `{"v":[…],"end":1}`. Spark's parser stops after the first whole value, so that alone it
would take `{"a":1} and more` for a good record; nor does it say that nothing at all, or `null`, is none. A value that
ends the wrapper and begins another, `{"a":1}],"b":[2`, is known by the names in it: there are more than those two.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from tidelog.jobs.pipeline.model import JSON, RAW, Decoding, Source
from tidelog.jobs.pipeline.timestamps import numbers_in_timestamps

REASON: Final = "_reason"
_CORRUPT: Final = "_corrupt_record"


@dataclass(frozen=True, slots=True)
class Decoded:
    """`value` has a name for each column; `reason` is null for a good record, and for one that is null altogether."""

    columns: list[tuple[str, Column]]
    reason: Column


def good(frame: DataFrame, source: Source) -> DataFrame:
    """The columns of a source's view, of records that can be decoded."""
    value = decode("value", source.value)
    key = decode("key", source.key)
    found = [made.alias(name) for name, made in value.columns]
    if source.key.format == JSON:
        found.append(f.struct(*(made.alias(name) for name, made in key.columns)).alias("_key"))
    else:
        found.append(key.columns[0][1].alias("_key"))
    found += [f.col(name).alias(f"_{name}") for name in ("topic", "partition", "offset", "timestamp")]
    found += [f.col("headers").alias("_headers")] if "headers" in frame.columns else []
    found += [f.col("leaderEpoch").alias("_epoch")] if "leaderEpoch" in frame.columns else []
    if source.can_fail:
        frame = frame.where(_reason(value, key).isNull())
    return frame.select(*found)


def bad(frame: DataFrame, source: Source) -> DataFrame:
    """The others, with the reason, where they stand, and their bytes."""
    reason = _reason(decode("value", source.value), decode("key", source.key))
    return frame.select(
        f.lit(source.name).alias("source"),
        reason.alias("reason"),
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
    ).where("reason is not null")


def _reason(value: Decoded, key: Decoded) -> Column:
    return f.coalesce(value.reason, key.reason)


def decode(name: str, how: Decoding) -> Decoded:
    """Of the binary column `name`."""
    raw = f.col(name)
    if how.format == RAW:
        return Decoded([(name, raw)], f.lit(None).cast("string"))
    text = raw.cast("string")
    not_text = f.when(~f.is_valid_utf8(text), f"the {name} is not UTF-8")
    if how.format != JSON:
        return Decoded([(name, text)], not_text)
    schema = _nullable(how.schema)
    wrapped = f.concat(f.lit('{"v":['), text, f.lit('],"end":1}'))
    parsed = f.from_json(
        wrapped,
        StructType(
            [
                StructField("v", ArrayType(schema)),
                StructField("end", IntegerType()),
                StructField(_CORRUPT, StringType()),
            ]
        ),
        how.options | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )
    one = f.get(parsed["v"], f.lit(0))
    is_whole = parsed["end"].isNotNull() & (f.size(f.json_object_keys(wrapped)) == f.lit(2))
    is_misfit = is_whole & parsed[_CORRUPT].isNotNull() & _is_json(text)
    is_bad = parsed[_CORRUPT].isNotNull() | ~is_whole | (f.size(parsed["v"]) != 1)
    reason = (
        not_text.when(is_misfit, _misfit(name, text, one, schema))
        .when(raw.isNotNull() & is_bad, f"the {name} is not one JSON object")
        .when(raw.isNotNull() & one.isNull(), f"the {name} is null in JSON")
    )
    for field in how.required:
        reason = reason.when(raw.isNotNull() & one[field].isNull(), f"the {name} has no {field}")
    numbers = numbers_in_timestamps(text, schema, how.options)
    if numbers is not None:
        reason = f.coalesce(reason, f.concat(f.lit(f"the {name} has a number for a timestamp: "), numbers))
    return Decoded([(field.name, one[field.name]) for field in schema.fields], reason)


def _nullable(ddl: str) -> StructType:
    """Spark's parser of JSON does not look at NOT NULL: `Decoding.required` does."""
    parsed = StructType.fromDDL(ddl)
    assert isinstance(parsed, StructType)
    return StructType([StructField(each.name, each.dataType) for each in parsed.fields])


def _is_json(text: Column) -> Column:
    """Whatever its fields are: a string takes any of them. Only asked about records that are bad already."""
    any_value = f.from_json(
        f.concat(f.lit('{"v":'), text, f.lit(',"end":1}')),
        f"v STRING, end INT, {_CORRUPT} STRING",
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )
    return any_value[_CORRUPT].isNull() & any_value["end"].isNotNull()


def _misfit(name: str, text: Column, one: Column, schema: StructType) -> Column:
    """Names the fields that are there and came out as nothing; what is wrong deeper inside is not told apart."""
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
