"""What is told of a session before Spark is asked for one."""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tidelog.jobs import session
from tidelog.jobs.session import NoSpark, start


@pytest.fixture
def sigint() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
    logging.getLogger().removeFilter(session._is_no_interrupt)
    logging.getLogger("py4j").propagate = True


class Builder:
    def __getattr__(self, name: str) -> "Callable[..., Builder]":
        return lambda *_: self


@pytest.mark.parametrize("interrupted", [True, False])
def test_an_interrupt_is_not_lost_while_spark_starts_and_is_ours_then(
    interrupted: bool, monkeypatch: pytest.MonkeyPatch, sigint: None, caplog: pytest.LogCaptureFixture
) -> None:
    stopped: list[object] = []
    monkeypatch.setattr(session, "why_no_spark", lambda: None)
    monkeypatch.setattr(session, "stop", stopped.append)
    monkeypatch.setattr("tidelog.spark.register", lambda _: None)

    def getOrCreate(_: object) -> None:
        """A finalizer drops what is raised in it. Spark sets a handler of its own when it has started."""
        if interrupted:
            with suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    monkeypatch.setattr("pyspark.SparkContext.getOrCreate", getOrCreate)
    monkeypatch.setattr("pyspark.SparkConf", Builder)
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", Builder())
    if interrupted:
        with pytest.raises(KeyboardInterrupt):
            start("test", "local[1]")
        assert len(stopped) == 1
        return
    start("test", "local[1]")
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    logging.error("KeyboardInterrupt while sending command.")
    logging.error("Exception while sending command.")
    logging.getLogger("py4j.clientserver").error("Exception occurred while shutting down connection")
    assert [each.message for each in caplog.records] == ["Exception while sending command."]


@pytest.mark.parametrize("master", ["nonsense", "spark:/host:7077", "local[x]", "local-cluster[1]", "mesos://host"])
def test_what_is_no_master_is_told_in_one_line(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's launcher tells of it with a stack of Java."""
    monkeypatch.setattr(session, "why_no_spark", lambda: None)
    with pytest.raises(NoSpark, match=r"is no Spark master: use local\[\*\], local\[N\], spark://HOST:PORT"):
        start("test", master)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2, 3]", "local-cluster[1,1,1024]", "spark://a:1,b:2"])
def test_what_is_one(master: str) -> None:
    assert session._MASTERS.fullmatch(master)
