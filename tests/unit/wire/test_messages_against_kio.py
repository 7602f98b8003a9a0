"""Every message in every version, byte for byte against kio: an implementation of the protocol that is not ours."""

import dataclasses
import datetime
import io
import random
import types
import typing
import uuid
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import TZAware, i32Timedelta, i64Timedelta

from tidelog.core.ids import ZERO_UUID
from tidelog.wire.codec import RESPONSE_LIMITS, read_prefix, write_message
from tidelog.wire.registry import APIS

SAMPLES = 12


def random_entity(cls: Any, rng: random.Random, depth: int = 0) -> Any:
    values = {}
    for field in dataclasses.fields(cls):
        if "tag" in field.metadata and rng.random() < 0.4 and field.default is not dataclasses.MISSING:
            continue
        values[field.name] = random_value(field.type, field.metadata.get("kafka_type"), rng, depth)
    return cls(**values)


def random_value(kind: Any, kafka_type: str | None, rng: random.Random, depth: int) -> Any:
    if typing.get_origin(kind) is types.UnionType:
        inner = next(arg for arg in typing.get_args(kind) if arg is not types.NoneType)
        return None if rng.random() < 0.3 else random_value(inner, kafka_type, rng, depth)
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        count = rng.choice((0, 1, 2, 3) if depth < 3 else (0, 1))
        return tuple(random_value(inner, kafka_type, rng, depth + 1) for _ in range(count))
    if dataclasses.is_dataclass(kind):
        return random_entity(kind, rng, depth + 1)
    return random_primitive(str(kafka_type), rng)


def random_primitive(kafka_type: str, rng: random.Random) -> Any:
    match kafka_type:
        case "bool":
            return rng.random() < 0.5
        case "int8" | "int16" | "int32" | "int64":
            bits = int(kafka_type[3:])
            return rng.choice((0, -1, 1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), rng.getrandbits(bits - 1)))
        case "uint16" | "uint32":
            return rng.getrandbits(int(kafka_type[4:]))
        case "float64":
            return rng.random()
        case "string":
            return rng.choice(("", "a", "orders", "ünï-©", "x" * 200))
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 1, 130)))
        case "uuid":
            return uuid.UUID(int=rng.getrandbits(128))
        case "error_code":
            return rng.choice(list(KioErrorCode))
        case "timedelta_i32":
            return i32Timedelta.parse(datetime.timedelta(milliseconds=rng.choice((0, 1, -1, 2**31 - 1))))
        case "timedelta_i64":
            return i64Timedelta.parse(datetime.timedelta(milliseconds=rng.choice((0, 1, 2**40))))
        case "datetime_i64":
            return TZAware.parse(datetime.datetime.fromtimestamp(rng.randrange(2**31), tz=datetime.UTC))
    raise AssertionError(kafka_type)


def check_same(ours: Any, theirs: Any, where: str) -> None:
    if dataclasses.is_dataclass(theirs):
        for field in dataclasses.fields(theirs):
            kafka_type = str(field.metadata.get("kafka_type"))
            name = field.name + ("_ms" if kafka_type.startswith(("timedelta", "datetime")) else "")
            check_same(getattr(ours, name), getattr(theirs, field.name), f"{where}.{name}")
    elif isinstance(theirs, tuple):
        assert len(ours) == len(theirs), where
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            check_same(one, other, f"{where}[{index}]")
    elif isinstance(theirs, datetime.timedelta):
        assert ours == round(theirs.total_seconds() * 1000), where
    elif isinstance(theirs, datetime.datetime):
        assert ours == round(theirs.timestamp() * 1000), where
    elif isinstance(ours, uuid.UUID):
        assert ours == (theirs or ZERO_UUID), where
    elif theirs is None and ours == -1:
        return  # kio has no value for the timestamp -1
    else:
        assert ours == theirs, where


CASES = [
    pytest.param(key, kind, version, id=f"{api.name}-{kind}-v{version}")
    for key, api in APIS.items()
    for kind in ("request", "response")
    for version in range(api.min_version, api.max_version + 1)
]


@pytest.mark.parametrize(("key", "kind", "version"), CASES)
def test_same_bytes_both_ways(key: int, kind: str, version: int) -> None:
    load = load_request_schema if kind == "request" else load_response_schema
    foreign: Any = load(key, version)
    ours = getattr(APIS[key], kind)
    rng = random.Random(f"{key} {kind} {version}")
    for _ in range(SAMPLES):
        entity = random_entity(foreign, rng)
        out = io.BytesIO()
        entity_writer(foreign)(out, entity)
        expected = out.getvalue()
        message, end = read_prefix(ours, version, expected, limits=RESPONSE_LIMITS)
        assert end == len(expected)
        check_same(message, entity, ours.__name__)
        written = write_message(message, version)
        again, _ = entity_reader(foreign)(written, 0)
        check_same(message, again, ours.__name__)
        assert written == expected
