"""A page that cannot be written is told of before the work, and never costs the result."""

from pathlib import Path
from typing import Any

import pytest

from tidelog.cli import audit
from tidelog.cli.app import run
from tidelog.jobs.audit.compare import Audit

JOBS = (["campaign", "--seeds", "0..1"], ["audit"], ["health"])


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job[0])
def test_it_is_found_out_before_spark_starts(
    job: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_spark(*_: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(f"tidelog.cli.{job[0]}.on_spark", no_spark)
    page = tmp_path / "none" / "page.html"
    assert run([*job, "--html", str(page)]) == 1
    assert capsys.readouterr().err == f"tidelog: cannot write {page}: No such file or directory\n"
    assert run([*job, "--html", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"tidelog: cannot write {tmp_path}: Is a directory\n"


def test_the_result_is_shown_when_it_fails_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "made" / "page.html"
    page.parent.mkdir()

    def work(*_: Any) -> Audit:
        assert not page.exists()
        page.parent.rmdir()
        return Audit(of="here")

    monkeypatch.setattr(audit, "on_spark", work)
    monkeypatch.setattr(audit, "with_client", lambda *_: None)
    assert run(["audit", "--json", "--html", str(page)]) == 1
    told = capsys.readouterr()
    assert '"verdict": "clean"' in told.out
    assert told.err == f"tidelog: cannot write {page}: No such file or directory\n"
