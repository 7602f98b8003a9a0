"""Numbers where a timestamp is expected. Spark's JSON parser takes a whole number for seconds since 1970. A producer
that sends milliseconds would make a record of the year 57983, which moves a watermark past every record to come.

The parsed value does not show whether the field was a number, and a second parse costs as much as the first. So the
text is searched for what may be a number, and only such records are parsed again.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, TimestampType, VariantType

_PLAIN: Final = re.compile(r"\w+", re.ASCII)
# After a name: the first characters, and those that begin with something else than a number.
_HEAD: Final = 16
_NO_NUMBER: Final = r"^\s*:\s*[^\s0-9-]"
# An escaped letter: a name may be written with some.
_ESCAPED: Final = "\\u00"


def numbers_in_timestamps(text: Column, schema: StructType, options: Mapping[str, str]) -> Column | None:
    """The names of such fields in one whole JSON object, or null. None if the schema has no timestamp."""
    fields = [(each.name, kind) for each in schema.fields if (kind := _as_variant(each.dataType)) is not None]
    if not fields:
        return None
    parsed = f.from_json(text, StructType([StructField(*each) for each in fields]), {**options, "mode": "PERMISSIVE"})
    named = f.concat_ws(", ", *(f.when(_has_number(parsed[name]), name) for name, _ in fields))
    found = f.when(named != "", named)
    suspicious = _may_have(text, schema, options)
    return found if suspicious is None else f.when(suspicious, found)


def _as_variant(kind: DataType) -> DataType | None:
    """The part of a type that has timestamps, as variants: they tell text from numbers. None without timestamps."""
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
    """It has digits outside of quotes, written as text again. Two steps: Java's regexes overflow on long strings."""
    unescaped = f.regexp_replace(f.to_json(f.struct(field.alias("v"))), r"\\.", "")
    return f.regexp_replace(unescaped, '"[^"]*"', "").rlike("[0-9]")


def _may_have(text: Column, schema: StructType, options: Mapping[str, str]) -> Column | None:
    """False for nearly all records without such a number. None if the text does not show it."""
    names = sorted(set(_leaves("", schema)))
    if not all(_PLAIN.fullmatch(name) for name in names) or any(each.lower().startswith("allow") for each in options):
        return None
    found = f.contains(text, f.lit(_ESCAPED))
    for name in names:
        found = found | f.contains(text, f.lit(f"'{name}'")) | _may_be_number(text, name)
    return found


def _may_be_number(text: Column, name: str) -> Column:
    """Whether a number may follow the quoted name. It searches bytes: a regex over all costs as much as the parse."""
    quoted = f'"{name}"'
    before, after = f.substring_index(text, quoted, 1), f.substring_index(text, quoted, -1)
    rest = f.octet_length(text) - f.octet_length(before) - f.octet_length(after)
    is_once = rest == len(quoted)
    is_no_number = f.substring(after, 1, _HEAD).rlike(_NO_NUMBER)
    anywhere = text.rlike(rf"{quoted}\s*:\s*-?[0-9]")
    return f.contains(text, f.lit(quoted)) & f.when(is_once, ~is_no_number).otherwise(anywhere)


def _leaves(name: str, kind: DataType) -> Iterator[str]:
    """The name before each timestamp; empty for timestamps in a list."""
    if isinstance(kind, TimestampType):
        yield name
    elif isinstance(kind, ArrayType):
        yield from _leaves("", kind.elementType)
    elif isinstance(kind, MapType):
        yield from _leaves("", kind.valueType)
    elif isinstance(kind, StructType):
        for each in kind.fields:
            yield from _leaves(each.name, each.dataType)
