"""Events as log lines: one vocabulary, one place that writes it down."""

import logging

from tidelog.core.event import Event, Severity

log = logging.getLogger("tidelog.events")

_LEVELS = {Severity.INFO: logging.INFO, Severity.WARNING: logging.WARNING, Severity.ERROR: logging.ERROR}


def log_event(event: Event, text: str | None = None) -> None:
    """`text`: what its `text()` says, for who has it already."""
    level = _LEVELS[event.severity]
    if log.isEnabledFor(level):
        log.log(level, "%s", event.text() if text is None else text)
