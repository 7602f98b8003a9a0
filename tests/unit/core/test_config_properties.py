"""Properties files as Java reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.config.key import ConfigError
from tidelog.core.config.properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a \t = \t b c ", {"a": "b c "}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a = : b", {"a": ": b"}),
        ("# comment\n! also\n  # indented\na=b # not a comment", {"a": "b # not a comment"}),
        ("\n\r\n\ra=1\rb=2\r\nc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=1,\\\n   2,\\\r\n\t3", {"a": "1,2,3"}),
        ("a=1\\\n# still the value", {"a": "1# still the value"}),
        ("# no continuation \\\na=1", {"a": "1"}),
        ("a=ends in two \\\\\nb=2", {"a": "ends in two \\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("\\\n# comment\n\\\n\n\\\na=1", {"a": "1"}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=caf\\u00e9 \\u00E9", {"a": "café é"}),
        ("a=\\uD83D\\uDE00", {"a": "\U0001f600"}),
        ("a=1\nb=2\na=3", {"b": "2", "a": "3"}),
        ("=b", {"": "b"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    ],
)
def test_reading(text: str, expected: dict[str, str]) -> None:
    found = parse_properties(text)
    assert found == expected
    assert list(found) == list(expected)


@pytest.mark.parametrize("escape", ["\\u12", "\\u12g4", "\\u"])
def test_a_bad_escape_names_its_line(escape: str) -> None:
    with pytest.raises(ConfigError, match=r"line 2: .*four hexadecimal digits"):
        parse_properties(f"a=1\nb={escape}")


def test_writing_escapes_what_would_be_read_otherwise() -> None:
    text = format_properties({"a b": " lead", "#c": "x\ny\\", "d": "k=v:w #"})
    assert text == "a\\ b=\\ lead\n\\#c=x\\ny\\\\\nd=k=v:w #\n"


# No lone surrogates: they are no text, and no file can hold them.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.dictionaries(TEXT, TEXT, max_size=5))
def test_what_is_written_is_read_back(values: dict[str, str]) -> None:
    assert parse_properties(format_properties(values)) == values


@given(st.text(alphabet="ab=: \t\f\\\n\r#!u0", max_size=60))
def test_reading_what_was_read_and_written_changes_nothing(text: str) -> None:
    try:
        values = parse_properties(text)
    except ConfigError:
        return
    assert parse_properties(format_properties(values)) == values
