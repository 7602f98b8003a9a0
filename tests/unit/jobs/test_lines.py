"""Where keys of a TOML file stand."""

from tidelog.jobs.pipeline.lines import key_lines

TEXT = '''\
a = 1 # [not.a.table]
"b c".d = "x # y"

[t]
many = """
[no.table]
key = \\"""
"""
literal = \'\'\'
x = 1
\'\'\'
list = [
  "one", # two
  { in = 1, deep.er = [1, 2] },
]
after = { x = 1, y = "}" }

[t.'sub.table'] # comment
z = 2024-01-01T00:00:00Z

[[rows]]
n = 1
[[rows]]
n = 2
[rows.more]
m = 3
'''


def test_every_key_has_its_line() -> None:
    assert key_lines(TEXT) == {
        ("a",): 1,
        ("b c",): 2,
        ("b c", "d"): 2,
        ("t",): 4,
        ("t", "many"): 5,
        ("t", "literal"): 9,
        ("t", "list"): 12,
        ("t", "list", "0"): 13,
        ("t", "list", "1"): 14,
        ("t", "list", "1", "in"): 14,
        ("t", "list", "1", "deep"): 14,
        ("t", "list", "1", "deep", "er"): 14,
        ("t", "list", "1", "deep", "er", "0"): 14,
        ("t", "list", "1", "deep", "er", "1"): 14,
        ("t", "after"): 16,
        ("t", "after", "x"): 16,
        ("t", "after", "y"): 16,
        ("t", "sub.table"): 18,
        ("t", "sub.table", "z"): 19,
        ("rows",): 21,
        ("rows", "0"): 21,
        ("rows", "0", "n"): 22,
        ("rows", "1"): 23,
        ("rows", "1", "n"): 24,
        ("rows", "1", "more"): 25,
        ("rows", "1", "more", "m"): 26,
    }


def test_nothing() -> None:
    assert key_lines("") == {}
    assert key_lines("# only words") == {}
