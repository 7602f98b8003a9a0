"""Whether an administrator was given what he asked for, and whether there was anything to give."""

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


def grants(response: Any) -> bool:
    """Whether something was done: an answer that names nothing, as of an election where every leader is the preferred
    one, says that there was nothing to do.
    """
    return refusal(response) is None and ErrorCode.NONE in _parts(response)


def _parts(struct: Any) -> Iterator[int]:
    for name, _ in field_specs(type(struct)):
        found = getattr(struct, name)
        for part in found if isinstance(found, list) else ():
            if hasattr(part, "error_code"):
                yield part.error_code
            if hasattr(part, "__wire__"):
                yield from _parts(part)
