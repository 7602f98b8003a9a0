"""The whole demo, with its act on Spark."""

import re
from pathlib import Path

import pytest
from tests.cluster.commands import Commands

from tidelog.jobs.session import why_no_spark

pytestmark = pytest.mark.interop


@pytest.mark.quick
@pytest.mark.timeout(300)
def test_every_record_is_a_row_of_the_table(tmp_path: Path) -> None:
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)
    report = tmp_path / "report.html"
    said = Commands("127.0.0.1:1").run_process("demo", "--seconds", "2", "--report", str(report), timeout_s=280)
    read, rows = (
        re.search(pattern, said) for pattern in (r"read back (\d+) records", r"(\d+) rows after .* exactly once")
    )
    assert read is not None and rows is not None and read[1] == rows[1], said
    assert "soup earned the most" in said and "made by Spark" in report.read_text()
