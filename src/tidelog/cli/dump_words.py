"""Lines that `dump` prints, and how it prints bytes and timestamps."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

_SHOWN_BYTES = 200


class Damaged(Exception):
    """The rest of the file cannot be decoded."""


class Line(NamedTuple):
    """One line as text and as data for JSON, and whether it reports damage."""

    text: str
    data: dict[str, Any]
    damaged: bool = False


def moment(timestamp_ms: int) -> str:
    """A timestamp in milliseconds and as a UTC date and time."""
    if timestamp_ms < 0:
        return f"{timestamp_ms}"
    try:
        shown = datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms}"
    return f"{timestamp_ms} ({shown}Z)"


def quoted(data: bytes | None) -> str:
    """Printable UTF-8 as quoted text, other bytes as hex; long values are cut."""
    if data is None:
        return "null"
    more = f"… ({len(data)} bytes)" if len(data) > _SHOWN_BYTES else ""
    shown = data[:_SHOWN_BYTES]
    try:
        text = shown.decode("utf-8", "strict" if not more else "ignore")
    except UnicodeDecodeError:
        return f"0x{shown.hex()}{more}"
    return f'"{text}"{more}' if text.isprintable() else f"0x{shown.hex()}{more}"
