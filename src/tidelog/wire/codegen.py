"""From a declaration to the source of its reader and writer, and to the compiled function.

A reader is ``read(b, p, q) -> (value, position)``: `b` the bytes, `p` where it stands, `q` the budget (array entries,
tagged fields). A writer is ``write(o, m, h)``: `o` the bytes so far, `m` the message, `h` the records left out of `o`
with the position at which they belong.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from tidelog.core.ids import uuid_from_bytes
from tidelog.wire.errors import WireError
from tidelog.wire.schema import (
    BYTES,
    RECORDS,
    STRING,
    UUID,
    Array,
    FieldSpec,
    FieldType,
    Primitive,
    Struct,
    field_specs,
)
from tidelog.wire.varint import read_uvarint, write_uvarint


@cache
def min_size(cls: type, version: int, flexible: bool) -> int:
    """The fewest bytes a struct can take: what a declared count is measured against (at least 1)."""
    total = 1 if flexible else 0
    for _, spec in field_specs(cls):
        if version in spec.versions and not (spec.tag is not None and flexible):
            total += _min_field_size(spec, version, flexible)
    return max(total, 1)


def _min_field_size(spec: FieldSpec, version: int, flexible: bool) -> int:
    kind = spec.type
    if isinstance(kind, Struct):
        return 1 if version in spec.nullable else min_size(kind.cls, version, flexible)
    if isinstance(kind, Array):
        return 1 if flexible else 4
    return _min_primitive_size(kind, flexible)


def _min_primitive_size(kind: Primitive, flexible: bool) -> int:
    if kind.size:
        return kind.size
    if flexible:
        return 1
    return 2 if kind is STRING else 4


class _Source:
    """Lines of a function under construction, and the names it needs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "WireError": WireError,
            "_uv": read_uvarint,
            "_wuv": write_uvarint,
            "_new": object.__new__,
            "_uuid": uuid_from_bytes,
            "_unpack": struct.unpack_from,
            "_pack": struct.pack,
        }

    def bind(self, prefix: str, value: Any) -> str:
        for name, bound in self.names.items():
            if bound is value and name.startswith(prefix):
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def add(self, indent: int, *lines: str) -> None:
        self.lines.extend("    " * indent + line for line in lines)

    def compile(self, label: str, function: str) -> Callable[..., Any]:
        code = compile("\n".join(self.lines), f"<{label}>", "exec")
        exec(code, self.names)
        compiled: Callable[..., Any] = self.names[function]
        return compiled


# --- readers ---------------------------------------------------------------------------------------------------------


@cache
def compile_reader(cls: type, version: int, flexible: bool) -> Callable[..., Any]:
    source = _Source()
    maker = source.bind("_c", cls)
    source.add(0, "def read(b, p, q):")
    source.add(1, "L = len(b)", f"m = _new({maker})")
    run: list[tuple[str, str]] = []

    def flush() -> None:
        if not run:
            return
        layout = struct.Struct(">" + "".join(code for _, code in run))
        name = source.bind("_s", layout)
        targets = ", ".join(f"m.{field}" for field, _ in run)
        comma = "," if len(run) == 1 else ""
        source.add(1, f"{targets}{comma} = {name}.unpack_from(b, p)", f"p += {layout.size}")
        run.clear()

    tagged: list[tuple[str, FieldSpec]] = []
    for name, spec in field_specs(cls):
        if version not in spec.versions:
            _set_default(source, name, spec)
        elif spec.tag is not None and flexible:
            _set_default(source, name, spec)
            tagged.append((name, spec))
        elif spec.tag is not None:
            _set_default(source, name, spec)
        elif isinstance(spec.type, Primitive) and spec.type.struct_format:
            run.append((name, spec.type.struct_format))
        else:
            flush()
            _read_field(source, 1, f"m.{name}", name, spec, version, flexible)
    flush()
    if flexible:
        _read_tags(source, tagged, version)
    source.add(1, "return m, p")
    return source.compile(f"read {cls.__name__} v{version}", "read")


def _set_default(source: _Source, name: str, spec: FieldSpec) -> None:
    if isinstance(spec.type, Array) and spec.default is not None:
        source.add(1, f"m.{name} = []")
    elif isinstance(spec.type, Struct) and spec.default is not None:
        source.add(1, f"m.{name} = {source.bind('_c', spec.type.cls)}()")
    else:
        default = spec.default
        text = repr(default) if isinstance(default, int | str | bytes | None) else source.bind("_d", default)
        source.add(1, f"m.{name} = {text}")


def _read_field(
    source: _Source, indent: int, target: str, name: str, spec: FieldSpec, version: int, flexible: bool
) -> None:
    nullable = version in spec.nullable
    kind = spec.type
    if isinstance(kind, Array):
        _read_array(source, indent, target, name, kind.item, nullable, version, flexible)
    elif isinstance(kind, Struct):
        reader = source.bind("_r", compile_reader(kind.cls, version, flexible))
        if nullable:
            source.add(indent, "n = b[p]; p += 1", "if n > 127:", f"    {target} = None", "else:")
            source.add(indent + 1, f"{target}, p = {reader}(b, p, q)")
        else:
            source.add(indent, f"{target}, p = {reader}(b, p, q)")
    else:
        _read_primitive(source, indent, target, name, kind, nullable, flexible)


def _read_length(source: _Source, indent: int, kind: Primitive | None, flexible: bool) -> None:
    """Leaves the length in `n`, -1 for null."""
    if flexible:
        source.add(indent, "n = b[p]; p += 1", "if n > 127: n, p = _uv(b, p - 1)", "n -= 1")
    elif kind is STRING:
        source.add(indent, "n, = _unpack('>h', b, p); p += 2")
    else:
        source.add(indent, "n, = _unpack('>i', b, p); p += 4")


def _read_primitive(
    source: _Source, indent: int, target: str, name: str, kind: Primitive, nullable: bool, flexible: bool
) -> None:
    if kind.struct_format:
        source.add(indent, f"{target}, = _unpack('>{kind.struct_format}', b, p); p += {kind.size}")
        return
    if kind is UUID:
        source.add(indent, "e = p + 16", f"if e > L: raise WireError('{name} ends early')")
        source.add(indent, f"{target} = _uuid(bytes(b[p:e])); p = e")
        return
    _read_length(source, indent, kind, flexible)
    source.add(indent, "if n < 0:")
    if nullable:
        source.add(indent + 1, f"if n != -1: raise WireError('{name} has a negative length')", f"{target} = None")
    else:
        source.add(indent + 1, f"raise WireError('{name} is null or has a negative length')")
    source.add(indent, "else:")
    source.add(indent + 1, "e = p + n", f"if e > L: raise WireError('{name} is longer than the bytes left')")
    if kind is STRING and flexible:
        # As long as the old form could say; Kafka refuses longer ones in the new form as well.
        source.add(indent + 1, f"if n > 32767: raise WireError('{name} is longer than a string may be')")
    taken = {STRING: "str(b[p:e], 'utf-8')", BYTES: "bytes(b[p:e])", RECORDS: "b[p:e]"}[kind]
    source.add(indent + 1, f"{target} = {taken}; p = e")


def _read_array(
    source: _Source,
    indent: int,
    target: str,
    name: str,
    item: Primitive | type,
    nullable: bool,
    version: int,
    flexible: bool,
) -> None:
    _read_length(source, indent, None, flexible)
    source.add(indent, "if n < 0:")
    if nullable:
        source.add(indent + 1, f"if n != -1: raise WireError('{name} has a negative count')", f"{target} = None")
    else:
        source.add(indent + 1, f"raise WireError('{name} is null or has a negative count')")
    source.add(indent, "else:")
    inner = indent + 1
    least = _min_primitive_size(item, flexible) if isinstance(item, Primitive) else min_size(item, version, flexible)
    source.add(inner, f"if n * {least} > L - p: raise WireError('{name} counts more than the bytes left')")
    source.add(inner, "q[0] -= n", f"if q[0] < 0: raise WireError('{name}: too many array entries in one message')")
    if not isinstance(item, Primitive):
        reader = source.bind("_r", compile_reader(item, version, flexible))
        source.add(inner, "a = []", "for _ in range(n):", f"    x, p = {reader}(b, p, q)", "    a.append(x)")
        source.add(inner, f"{target} = a")
    elif item.struct_format:
        source.add(inner, f"{target} = list(_unpack(f'>{{n}}{item.struct_format}', b, p)); p += n * {item.size}")
    else:
        source.add(inner, "a = []", "for _ in range(n):")
        _read_primitive(source, inner + 1, "x", name, item, False, flexible)
        source.add(inner + 1, "a.append(x)")
        source.add(inner, f"{target} = a")


def _read_tags(source: _Source, tagged: list[tuple[str, FieldSpec]], version: int) -> None:
    source.add(1, "t = b[p]; p += 1", "if t:")
    source.add(2, "if t > 127: t, p = _uv(b, p - 1)")
    source.add(2, "q[1] -= t", "if q[1] < 0: raise WireError('too many tagged fields in one message')")
    source.add(2, "for _t in range(t):")
    source.add(3, "k, p = _uv(b, p)", "z, p = _uv(b, p)", "z += p")
    source.add(3, "if z > L: raise WireError('a tagged field is longer than the bytes left')")
    word = "if"
    for name, spec in tagged:
        source.add(3, f"{word} k == {spec.tag}:")
        _read_field(source, 4, f"m.{name}", name, spec, version, True)
        source.add(4, f"if p != z: raise WireError('tagged field {name} does not fill its length')")
        word = "elif"
    source.add(3, "p = z")


# --- writers ---------------------------------------------------------------------------------------------------------


@cache
def compile_writer(cls: type, version: int, flexible: bool) -> Callable[..., Any]:
    source = _Source()
    source.add(0, "def write(o, m, h):")
    run: list[tuple[str, str]] = []

    def flush() -> None:
        if not run:
            return
        name = source.bind("_s", struct.Struct(">" + "".join(code for _, code in run)))
        source.add(1, f"o += {name}.pack({', '.join(f'm.{field}' for field, _ in run)})")
        run.clear()

    tagged: list[tuple[str, FieldSpec]] = []
    for name, spec in field_specs(cls):
        if version not in spec.versions:
            continue
        if spec.tag is not None:
            if flexible:
                tagged.append((name, spec))
        elif isinstance(spec.type, Primitive) and spec.type.struct_format:
            run.append((name, spec.type.struct_format))
        else:
            flush()
            source.add(1, f"v = m.{name}")
            _write_field(source, 1, name, spec, version, flexible)
    flush()
    if flexible:
        _write_tags(source, tagged, version)
    source.add(1, "return None")
    return source.compile(f"write {cls.__name__} v{version}", "write")


def _write_field(source: _Source, indent: int, name: str, spec: FieldSpec, version: int, flexible: bool) -> None:
    """Writes the value in `v`."""
    nullable = version in spec.nullable
    kind = spec.type
    if isinstance(kind, Array):
        _write_null(source, indent, name, nullable, flexible, "'>i'")
        inner = indent + 1
        _write_length(source, inner, "i", flexible)
        _write_items(source, inner, kind.item, version, flexible)
    elif isinstance(kind, Struct):
        writer = source.bind("_w", compile_writer(kind.cls, version, flexible))
        if nullable:
            source.add(indent, "if v is None: o.append(255)", "else:", f"    o.append(1); {writer}(o, v, h)")
        else:
            source.add(indent, f"{writer}(o, v, h)")
    elif kind.struct_format:
        source.add(indent, f"o += _pack('>{kind.struct_format}', v)")
    elif kind is UUID:
        source.add(indent, "o += v.bytes")
    else:
        _write_null(source, indent, name, nullable, flexible, "'>h'" if kind is STRING else "'>i'")
        _write_bytes_like(source, indent + 1, kind, flexible)


def _write_null(source: _Source, indent: int, name: str, nullable: bool, flexible: bool, layout: str) -> None:
    source.add(indent, "if v is None:")
    if nullable:
        source.add(indent + 1, "o.append(0)" if flexible else f"o += _pack({layout}, -1)")
    else:
        source.add(indent + 1, f"raise ValueError('{name} may not be null')")
    source.add(indent, "else:")


def _write_length(source: _Source, indent: int, layout: str, flexible: bool) -> None:
    if flexible:
        # Nearly all are of one byte.
        source.add(indent, "n = len(v) + 1", "if n < 128: o.append(n)", "else: _wuv(o, n)")
    else:
        source.add(indent, f"o += _pack('>{layout}', len(v))")


def _write_bytes_like(source: _Source, indent: int, kind: Primitive, flexible: bool) -> None:
    if kind is STRING:
        source.add(indent, "v = v.encode()")
    _write_length(source, indent, "h" if kind is STRING else "i", flexible)
    source.add(indent, "h.append((len(o), v))" if kind is RECORDS else "o += v")


def _write_items(source: _Source, indent: int, item: Primitive | type, version: int, flexible: bool) -> None:
    if not isinstance(item, Primitive):
        writer = source.bind("_w", compile_writer(item, version, flexible))
        source.add(indent, f"for x in v: {writer}(o, x, h)")
    elif item.struct_format:
        source.add(indent, f"o += _pack(f'>{{len(v)}}{item.struct_format}', *v)")
    elif item is UUID:
        source.add(indent, "for x in v: o += x.bytes")
    else:
        source.add(indent, "for v in v:")
        _write_bytes_like(source, indent + 1, item, flexible)


def _write_tags(source: _Source, tagged: list[tuple[str, FieldSpec]], version: int) -> None:
    """A tagged field is written only when it differs from its default, in the order of the tags."""
    if not tagged:
        source.add(1, "o.append(0)")
        return
    assert len(tagged) < 128, "their count is written as one byte"
    source.add(1, "w = o", "t = []")
    for name, spec in sorted(tagged, key=lambda entry: entry[1].tag or 0):
        default = _default_name(source, spec.type, spec.default)
        source.add(
            1,
            f"v = m.{name}",
            f"if v != {default}:" if default[0] != "_" else f"if v is not {default} and v != {default}:",
        )
        source.add(2, "o = bytearray()")
        _write_field(source, 2, name, spec, version, True)
        source.add(2, f"t.append(({spec.tag}, o))")
    source.add(1, "w.append(len(t))", "for k, o in t: _wuv(w, k); _wuv(w, len(o)); w += o")


def _default_name(source: _Source, kind: FieldType, default: Any) -> str:
    if default is None or isinstance(default, int | str | bytes):
        return repr(default)
    if isinstance(kind, Struct):
        return source.bind("_d", kind.cls())
    return source.bind("_d", default)
