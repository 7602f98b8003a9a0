"""Whether an administrator was given what he asked for."""

from collections.abc import Iterator
from typing import Any

from tidelog.wire.errors import ErrorCode
from tidelog.wire.schema import field_specs


def refusal(response: Any) -> ErrorCode | None:
    """The error of the whole answer, or the first one if every part of it has one. None: something was granted."""
    whole = getattr(response, "error_code", ErrorCode.NONE)
    if whole != ErrorCode.NONE:
        return ErrorCode(whole)
    parts = list(_parts(response))
    return ErrorCode(parts[0]) if parts and ErrorCode.NONE not in parts else None


def _parts(struct: Any) -> Iterator[int]:
    for name, _ in field_specs(type(struct)):
        found = getattr(struct, name)
        for part in found if isinstance(found, list) else ():
            if hasattr(part, "error_code"):
                yield part.error_code
            if hasattr(part, "__wire__"):
                yield from _parts(part)
