""".ci/run takes a part of tests/interop: one test or more for each client, tool and browser."""

import re
from pathlib import Path

import pytest

INTEROP = Path(__file__).resolve().parents[1] / "interop"
QUICK = re.compile(r"pytest\.mark\.quick\b")
# Each of these repeats a quick test in another state or at full length.
FULL_ONLY = {"test_moving_picture.py"}


@pytest.mark.parametrize("file", sorted(INTEROP.glob("test_*.py")), ids=lambda file: file.name)
def test_each_file_has_a_quick_test_or_a_reason(file: Path) -> None:
    assert bool(QUICK.search(file.read_text())) != (file.name in FULL_ONLY)


def test_the_connector_beside_spark_has_quick_tests() -> None:
    assert any(QUICK.search(file.read_text()) for file in INTEROP.glob("spark/test_*.py"))
