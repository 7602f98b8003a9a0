"""What is told of SQL and of schemas without Spark."""

import pytest

from tidelog.jobs.pipeline import ddl
from tidelog.jobs.pipeline.times import milliseconds
from tidelog.jobs.pipeline.views import tables_read


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("select * from a", ["a"]),
        ("select * from a, b as bb, c where x in (select y from d)", ["a", "b", "c", "d"]),
        ("select a.x from a join b using (id) left outer join `c` on true", ["a", "b", "c"]),
        ("with w as (select * from a), v (x) as (select 1) select * from w join v", ["a"]),
        ("select extract(year from at), trim(both 'x' from y), substring(z from 2) from a", ["a"]),
        ("select * from a where x is not distinct from y and z is distinct from w", ["a"]),
        ("select 'from b' as t, \"from c\" -- from d\n from a /* from e */", ["a"]),
        ("select * from (select * from a) t join (b join c)", ["a", "b", "c"]),
        ("select * from range(10), parquet.`x`, db.t, a", ["a"]),
        ("select * from a lateral view explode(xs) t as x", ["a"]),
        ("select * from a union all select * from b order by x, y", ["a", "b"]),
        ("select max(x), y from a group by y, z having count(*) > 1", ["a"]),
        ("from a select x, y", ["a"]),
        ("select * from a join lateral (select * from b where b.x = a.x)", ["a", "b"]),
        ("select x, (select max(y) from b) as m, z from a", ["b", "a"]),
        ("values (1, 2)", []),
    ],
)
def test_the_views_that_a_query_reads(sql: str, tables: list[str]) -> None:
    assert tables_read(sql) == tables


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("id BIGINT", ["id"]),
        ("id: bigint not null comment 'it''s', `a b` decimal(10, 2), tags array<map<string, struct<x: int>>>", None),
        ("s struct<a: int not null, b: array<struct<c: date>>>, m map<int, string>", ["s", "m"]),
    ],
)
def test_schemas_that_spark_takes(text: str, names: list[str] | None) -> None:
    found = [field.name for field in ddl.fields(text)]
    assert found == (names or ["id", "a b", "tags"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the name of a field is missing"),
        ("id", "field 'id' has no type"),
        ("id INTT", "INTT is not a type; did you mean INT?"),
        ("id ARRAY", "'<' is missing after ARRAY"),
        ("id ARRAY<INT", "'>' is missing at the end of ARRAY"),
        ("id MAP<INT>", "',' is missing between the types of MAP"),
        ("a INT b INT", "a comma is missing after field 'a'"),
        ("a INT, A STRING", "field 'a' occurs twice"),
        ("a INT,", "the name of a field is missing"),
        ("a DECIMAL(1,2,3)", "DECIMAL takes 2 numbers"),
        ("a INT(3)", "INT takes no numbers"),
        ("a VARCHAR(20)", "Spark cannot read VARCHAR here"),
        ("a INT NOT", "'NULL' is missing after NOT"),
        ("a INT ; b", "'; b' is not valid here"),
    ],
)
def test_schemas_that_it_does_not(text: str, told: str) -> None:
    with pytest.raises(ddl.BadSchema) as caught:
        ddl.fields(text)
    assert told in str(caught.value)


def test_lengths_of_time() -> None:
    assert [milliseconds(text) for text in ("10 seconds", "500ms", "1 hour 30 minutes", "0 s", "2 days")] == [
        10_000,
        500,
        5_400_000,
        0,
        172_800_000,
    ]
    assert [milliseconds(text) for text in ("", "10", "seconds", "10 parsecs", "-1 s")] == [None] * 5
