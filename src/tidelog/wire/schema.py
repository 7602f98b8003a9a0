"""How a message is declared: one class for all versions, each field with the versions it exists in.

    @dataclass(slots=True, kw_only=True)
    class ListOffsetsPartition:
        partition_index: int = f(INT32)
        current_leader_epoch: int = f(INT32, "4+", default=-1)
        timestamp: int = f(INT64)

A message (request, response, or a record of the metadata log) is marked with `@message(...)`, which names its API key,
its versions and from which version it is *flexible* (compact lengths and tagged fields, KIP-482); nested structs take
the flexibility of the message they stand in. A field that a version does not have reads as its default and is left out
on write, so handlers are written once for all versions. `wire.codec` compiles a reader and a writer per class and
version.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tidelog.core.ids import ZERO_UUID

UNBOUNDED: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; empty when `low > high`."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """``"3+"``, ``"2-5"``, ``"4"`` or ``"none"``."""
        if text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), UNBOUNDED)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type of the protocol; `struct_format` is set when its size is fixed and `struct` can read it."""

    name: str
    size: int
    struct_format: str
    default: Any


BOOL: Final = Primitive("bool", 1, "?", False)
INT8: Final = Primitive("int8", 1, "b", 0)
INT16: Final = Primitive("int16", 2, "h", 0)
UINT16: Final = Primitive("uint16", 2, "H", 0)
INT32: Final = Primitive("int32", 4, "i", 0)
UINT32: Final = Primitive("uint32", 4, "I", 0)
INT64: Final = Primitive("int64", 8, "q", 0)
FLOAT64: Final = Primitive("float64", 8, "d", 0.0)
UUID: Final = Primitive("uuid", 16, "", ZERO_UUID)
STRING: Final = Primitive("string", 0, "", "")
BYTES: Final = Primitive("bytes", 0, "", b"")
# Record batches: read as a view of the request's own bytes, written without being copied.
RECORDS: Final = Primitive("records", 0, "", b"")


@dataclass(frozen=True, slots=True)
class Array:
    """A list of a primitive or of a declared struct."""

    item: Primitive | type


@dataclass(frozen=True, slots=True)
class Struct:
    """A single nested struct (as opposed to a list of them)."""

    cls: type


FieldType = Primitive | Array | Struct


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """What the codec knows of a field. Invariant: a tagged field has a tag and stands in flexible versions only."""

    type: FieldType
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any


METADATA_KEY: Final = "wire"


class _Unset:
    pass


_UNSET: Final = _Unset()


def f(
    type: FieldType,  # noqa: A002 - reads as what it is at the place of use
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    default: Any = _UNSET,
) -> Any:
    """Declares a field: its type, the versions that have it, those in which it may be null, its tag, its default."""
    if default is _UNSET:
        default = _implicit_default(type)
    spec = FieldSpec(type, Versions.parse(versions), Versions.parse(nullable), tag, default)
    metadata = {METADATA_KEY: spec}
    if isinstance(type, Array) and default is not None:
        return field(default_factory=list, metadata=metadata)
    if isinstance(type, Struct) and default is not None:
        return field(default_factory=type.cls, metadata=metadata)
    return field(default=default, metadata=metadata)


def _implicit_default(field_type: FieldType) -> Any:
    if isinstance(field_type, Primitive):
        return field_type.default
    if isinstance(field_type, Array):
        return []
    return field_type.cls()


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """What `@message` says of a class."""

    name: str
    api_key: int
    versions: Versions
    flexible: Versions


T = TypeVar("T")
_SPECS: dict[type, MessageSpec] = {}


def message(*, api_key: int = -1, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Marks a class as a whole message. Stands above `@dataclass`."""

    def mark(cls: type[T]) -> type[T]:
        _SPECS[cls] = MessageSpec(cls.__name__, api_key, Versions.parse(versions), Versions.parse(flexible))
        return cls

    return mark


def spec_of(cls: type) -> MessageSpec:
    """The declaration of a message; KeyError for a class that is not one."""
    return _SPECS[cls]
