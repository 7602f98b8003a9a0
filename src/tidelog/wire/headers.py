"""Request and response headers."""

import struct
from typing import Final, NamedTuple

from tidelog.wire.errors import WireError
from tidelog.wire.registry import APIS
from tidelog.wire.varint import read_uvarint

_FIXED: Final = struct.Struct(">hhih")
_CORRELATION: Final = struct.Struct(">i")
# No client sends tagged fields in a request header; a few are let through for the future.
MAX_HEADER_TAGS: Final = 16


class RequestHeader(NamedTuple):
    """Who asks for what, and where the body begins in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def read_request_header(frame: memoryview) -> RequestHeader:
    """Reads the header of a frame (without its length prefix).

    An API or version we do not have is read as far as every header goes (the client id): the caller decides
    what to answer. The client id is for people, so bytes that are not UTF-8 are replaced, not refused.
    """
    try:
        api_key, api_version, correlation_id, length = _FIXED.unpack_from(frame, 0)
    except struct.error as error:
        raise WireError(f"a request of {len(frame)} bytes has no room for its header") from error
    position = _FIXED.size
    client_id = None
    if length >= 0:
        end = position + length
        if end > len(frame):
            raise WireError("the client id is longer than the request")
        client_id = str(frame[position:end], "utf-8", "replace")
        position = end
    elif length != -1:
        raise WireError(f"the client id has the length {length}")
    api = APIS.get(api_key)
    if api is not None and api.flexible_since <= api_version <= api.max_version:
        position = _skip_tags(frame, position)
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def _skip_tags(frame: memoryview, position: int) -> int:
    try:
        if not frame[position]:
            # No client has any.
            return position + 1
        count, position = read_uvarint(frame, position)
        if count > MAX_HEADER_TAGS:
            raise WireError(f"{count} tagged fields in a request header")
        for _ in range(count):
            _, position = read_uvarint(frame, position)
            size, position = read_uvarint(frame, position)
            position += size
    except IndexError as error:
        raise WireError("the request header ends early") from error
    if position > len(frame):
        raise WireError("a tagged field of the request header is longer than the request")
    return position


def write_request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The header our own client sends (v2 for flexible versions, else v1)."""
    raw = client_id.encode() if client_id is not None else b""
    fixed = _FIXED.pack(api_key, version, correlation_id, len(raw) if client_id is not None else -1)
    return fixed + raw + b"\0" if version >= APIS[api_key].flexible_since else fixed + raw


def write_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    if APIS[api_key].response_header_version(version):
        return _CORRELATION.pack(correlation_id) + b"\0"
    return _CORRELATION.pack(correlation_id)


def read_response_header(api_key: int, version: int, frame: memoryview) -> tuple[int, int]:
    """The correlation id and where the body begins."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame, 0)
    except struct.error as error:
        raise WireError(f"a response of {len(frame)} bytes has no room for its header") from error
    position = _CORRELATION.size
    if APIS[api_key].response_header_version(version):
        position = _skip_tags(frame, position)
    return correlation_id, position
