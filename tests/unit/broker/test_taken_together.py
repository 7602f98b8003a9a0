"""What several listeners of one broker tell of its process (C2)."""

import pytest

from tidelog.broker.controller_timers import taken_together
from tidelog.controller.fast_fence import DialOutcome

REFUSED, REACHED, SILENT = DialOutcome.REFUSED, DialOutcome.REACHED, DialOutcome.SILENT


@pytest.mark.rule("C2")
@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        ([REFUSED], REFUSED),
        ([REFUSED, REFUSED], REFUSED),
        # The first is what clients outside are told, and nobody here.
        ([REFUSED, REACHED], REACHED),
        ([REFUSED, SILENT], SILENT),
        ([SILENT, REACHED, REFUSED], REACHED),
        ([], SILENT),
    ],
)
def test_only_a_broker_all_of_whose_listeners_refuse_is_gone(outcomes: list[DialOutcome], told: DialOutcome) -> None:
    assert taken_together(outcomes) is told
