"""What is told of a session before Spark is asked for one."""

import pytest

from tidelog.jobs import session
from tidelog.jobs.session import NoSpark, start


@pytest.mark.parametrize("master", ["nonsense", "spark:/host:7077", "local[x]", "local-cluster[1]", "mesos://host"])
def test_what_is_no_master_is_told_in_one_line(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's launcher tells of it with a stack of Java."""
    monkeypatch.setattr(session, "why_no_spark", lambda: None)
    with pytest.raises(NoSpark, match=r"is no Spark master: local\[\*\], local\[N\], spark://HOST:PORT"):
        start("test", master)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2, 3]", "local-cluster[1,1,1024]", "spark://a:1,b:2"])
def test_what_is_one(master: str) -> None:
    assert session._MASTERS.fullmatch(master)
