"""What an event is: `kind` names it for programs, `text()` for people, `as_dict()` is ready for JSON."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from string import Formatter
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, dataclass_transform
from uuid import UUID

from tidelog.core.ids import uuid_to_text


class Severity(Enum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Subclasses are data: their fields, and a template of one line over them."""

    kind: ClassVar[str] = "event"
    template: ClassVar[str] = ""
    severity: ClassVar[Severity] = Severity.INFO

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def as_dict(self) -> dict[str, Any]:
        """`{"event": kind, …fields}` of plain JSON types."""
        return {"event": self.kind} | {name: _plain(getattr(self, name)) for name in _field_names(type(self))}

    def text(self) -> str:
        """One line for a person, whatever bytes a client put into a name."""
        return in_words(self.template, {name: _plain(getattr(self, name)) for name in _names_in_template(type(self))})


_LEADERS: Final = frozenset({"leader", "old_leader"})
_FIELD_NAMES: dict[type[Event], tuple[str, ...]] = {}
_NAMES_IN_TEMPLATE: dict[type[Event], tuple[str, ...]] = {}


def _field_names(cls: type[Event]) -> tuple[str, ...]:
    names = _FIELD_NAMES.get(cls)
    if names is None:
        names = _FIELD_NAMES[cls] = tuple(field.name for field in fields(cls))
    return names


def _names_in_template(cls: type[Event]) -> tuple[str, ...]:
    names = _NAMES_IN_TEMPLATE.get(cls)
    if names is None:
        found = {name for _, name, _, _ in Formatter().parse(cls.template) if name is not None}
        names = _NAMES_IN_TEMPLATE[cls] = tuple(sorted(found))
    return names


E = TypeVar("E", bound=Event)
EventSink: TypeAlias = Callable[[Event], None]


def _plain(value: object) -> Any:
    if isinstance(value, UUID):
        return uuid_to_text(value)
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value


def in_words(template: str, fields: Mapping[str, object]) -> str:
    """The template with its fields, already plain. A leader of -1 is shown as none."""
    return template.format_map(
        {name: "none" if name in _LEADERS and value == -1 else shown(value) for name, value in fields.items()}
    )


def shown(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    text = "[" + ",".join(map(str, value)) + "]" if isinstance(value, list) else str(value)
    # Nearly always: thousands of partitions may change at once, a line for each.
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event(cls: type[E]) -> type[E]:
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)
