"""Numbers where a timestamp is wanted. Spark's parser of JSON takes a whole number for seconds since 1970: one producer
that counts milliseconds makes a record of the year 57983 of it, which moves a watermark past all that will ever come.

Whether a field stood there as a number is not to be seen in what was parsed, and to parse all a second time would cost
as much as the first. So the text is searched for what may be one, and only such records are looked at closely.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, TimestampType, VariantType

_PLAIN: Final = re.compile(r"\w+", re.ASCII)
# How letters are written that need not be: a name may be hidden in them.
_ESCAPED: Final = "\\u00"


def numbers_in_timestamps(text: Column, schema: StructType, options: Mapping[str, str]) -> Column | None:
    """The names of the fields, null if there is none; of one whole JSON object. None if the schema has no timestamp."""
    fields = [(each.name, kind) for each in schema.fields if (kind := _as_variant(each.dataType)) is not None]
    if not fields:
        return None
    parsed = f.from_json(text, StructType([StructField(*each) for each in fields]), {**options, "mode": "PERMISSIVE"})
    named = f.concat_ws(", ", *(f.when(_has_number(parsed[name]), name) for name, _ in fields))
    found = f.when(named != "", named)
    suspicious = _may_have(text, schema, options)
    return found if suspicious is None else f.when(suspicious, found)


def _as_variant(kind: DataType) -> DataType | None:
    """Of a type what is about timestamps, which become whatever stands there: a variant knows text from numbers."""
    if isinstance(kind, TimestampType):
        return VariantType()
    if isinstance(kind, ArrayType):
        element = _as_variant(kind.elementType)
        return None if element is None else ArrayType(element)
    if isinstance(kind, MapType):
        value = _as_variant(kind.valueType)
        return None if value is None else MapType(kind.keyType, value)
    if isinstance(kind, StructType):
        found = [(each.name, made) for each in kind.fields if (made := _as_variant(each.dataType)) is not None]
        return StructType([StructField(*each) for each in found]) if found else None
    return None


def _has_number(field: Column) -> Column:
    """As text again it has digits outside of quotes. In two steps, as Java's expressions do not like long strings."""
    unescaped = f.regexp_replace(f.to_json(f.struct(field.alias("v"))), r"\\.", "")
    return f.regexp_replace(unescaped, '"[^"]*"', "").rlike("[0-9]")


def _may_have(text: Column, schema: StructType, options: Mapping[str, str]) -> Column | None:
    """False of nearly all records that have none. None if that cannot be told from the text."""
    names = sorted(set(_leaves("", schema)))
    if not all(_PLAIN.fullmatch(name) for name in names) or any(each.lower().startswith("allow") for each in options):
        return None
    found = f.contains(text, f.lit(_ESCAPED))
    for name in names:
        found = found | text.rlike(f"[\"']{name}[\"']\\s*:\\s*-?[0-9]")
    return found


def _leaves(name: str, kind: DataType) -> Iterator[str]:
    """The names right before the timestamps; empty for those in a list, which have none."""
    if isinstance(kind, TimestampType):
        yield name
    elif isinstance(kind, ArrayType):
        yield from _leaves("", kind.elementType)
    elif isinstance(kind, MapType):
        yield from _leaves("", kind.valueType)
    elif isinstance(kind, StructType):
        for each in kind.fields:
            yield from _leaves(each.name, each.dataType)
