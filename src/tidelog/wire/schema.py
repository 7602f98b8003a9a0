"""How a message is declared: one class for all versions, each field with the versions it exists in.

    @struct
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
from dataclasses import dataclass
from typing import Any, Final, TypeVar, dataclass_transform

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
    return FieldSpec(type, Versions.parse(versions), Versions.parse(nullable), tag, default)


def _implicit_default(field_type: FieldType) -> Any:
    if isinstance(field_type, Primitive):
        return field_type.default
    if isinstance(field_type, Array):
        return []
    return field_type.cls()


T = TypeVar("T")


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Makes a class of declared fields: slots, keyword arguments with defaults, equality, a readable form.

    A dataclass in all but cost: a node has hundreds of these and needs few of them to start, so the constructor is
    compiled when the first object is made.
    """
    specs = {name: value for name, value in cls.__dict__.items() if isinstance(value, FieldSpec)}
    namespace = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in specs and name not in ("__dict__", "__weakref__")
    }
    namespace["__slots__"] = tuple(specs)
    namespace["__wire__"] = tuple(specs.items())
    namespace["__init__"] = _first_init
    namespace["__repr__"] = _repr
    namespace["__eq__"] = _first_eq
    namespace["__hash__"] = None
    made: type[T] = type(cls.__name__, cls.__bases__, namespace)
    return made


def field_specs(cls: type) -> tuple[tuple[str, FieldSpec], ...]:
    """The fields of a declared class, in wire order."""
    found: tuple[tuple[str, FieldSpec], ...] = cls.__wire__  # type: ignore[attr-defined]
    return found


def changed(message: T, **fields: Any) -> T:
    """A copy of a message with some fields changed."""
    cls = type(message)
    values = {name: getattr(message, name) for name, _ in field_specs(cls)}
    return cls(**(values | fields))


def _first_init(self: Any, **values: Any) -> None:
    cls = type(self)
    cls.__init__ = _compile_init(cls)
    cls.__init__(self, **values)


def _compile_init(cls: type) -> Callable[..., None]:
    names: dict[str, Any] = {"_absent": _UNSET}
    parameters, lines = [], []
    for name, spec in field_specs(cls):
        if isinstance(spec.type, Array) and spec.default is not None:
            fresh = "[]"
        elif isinstance(spec.type, Struct) and spec.default is not None:
            names[f"_{name}"] = spec.type.cls
            fresh = f"_{name}()"
        else:
            names[f"_{name}"] = spec.default
            parameters.append(f"{name}=_{name}")
            lines.append(f"    self.{name} = {name}")
            continue
        # A list or struct of its own for every object.
        parameters.append(f"{name}=_absent")
        lines.append(f"    self.{name} = {fresh} if {name} is _absent else {name}")
    signature = ", ".join(["self", "*", *parameters]) if parameters else "self"
    exec("\n".join([f"def __init__({signature}):", *(lines or ["    pass"])]), names)
    compiled: Callable[..., None] = names["__init__"]
    return compiled


def _repr(self: Any) -> str:
    cls = type(self)
    return f"{cls.__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name, _ in field_specs(cls))})"


def _first_eq(self: Any, other: object) -> bool:
    cls: Any = type(self)
    cls.__eq__ = _compile_eq(cls)
    same: bool = self == other
    return same


def _compile_eq(cls: type) -> Callable[[Any, object], bool]:
    """Writers ask it of every optional struct: is it the default, which is left out?"""
    same = " and ".join(
        ["type(self) is type(other)", *(f"self.{name} == other.{name}" for name, _ in field_specs(cls))]
    )
    names: dict[str, Any] = {}
    exec(f"def __eq__(self, other):\n    return {same}", names)
    compiled: Callable[[Any, object], bool] = names["__eq__"]
    return compiled


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """What `@message` says of a class."""

    name: str
    api_key: int
    versions: Versions
    flexible: Versions


_SPECS: dict[type, MessageSpec] = {}


def message(*, api_key: int = -1, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Marks a class as a whole message. Stands above `@struct`."""

    def mark(cls: type[T]) -> type[T]:
        _SPECS[cls] = MessageSpec(cls.__name__, api_key, Versions.parse(versions), Versions.parse(flexible))
        return cls

    return mark


def spec_of(cls: type) -> MessageSpec:
    """The declaration of a message; KeyError for a class that is not one."""
    return _SPECS[cls]
