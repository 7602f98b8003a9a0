"""Log files: `<log.dir>/server.log`, rotated and bounded, in the line format that Kafka's own brokers use."""

import logging
import logging.handlers
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOG_FILE: Final = "server.log"
LINE_FORMAT: Final = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
ROOT_LOGGER: Final = "tidelog"
_LINE: Final = "tidelog_line"


class OneLineFormatter(logging.Formatter):
    """One event, one line: what a client sent cannot forge a second one. Tracebacks follow, indented."""

    def __init__(self) -> None:
        super().__init__(LINE_FORMAT)
        self._second = -1
        self._date = ""

    def format(self, record: logging.LogRecord) -> str:
        """Once for all handlers: the record keeps its line, as it keeps its message."""
        line: str | None = record.__dict__.get(_LINE)
        if line is None:
            line = record.__dict__[_LINE] = super().format(record)
        return line

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        second = int(record.created)
        if second != self._second:
            self._second, self._date = second, time.strftime(self.default_time_format, self.converter(second))
        return f"{self._date},{int(record.msecs):03d}"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        if not record.message.isprintable():
            record.message = "".join(
                character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
                for character in record.message
            )
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        return "\n".join(f"  {line}" for line in super().formatException(ei).splitlines())  # type: ignore[arg-type]


class BoundedFile(logging.handlers.RotatingFileHandler):
    """The library's, which formats every line twice and asks the file system before each: there may be thousands of
    lines at once, when a broker that held as many partitions comes or goes.
    """

    def __init__(self, path: Path, max_bytes: int, backups: int) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8")
        self._size = path.stat().st_size

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + self.terminator
            size = len(line.encode("utf-8", "backslashreplace"))
            if self._size and self._size + size > self.maxBytes:
                self.doRollover()
                self._size = 0
            self._size += size
            if self.stream is None:
                self.stream = self._open()
            self.stream.write(line)
            self.flush()
        except Exception:  # noqa: BLE001 - as every handler of the library: what is logged must not fail by it
            self.handleError(record)


def configure_logging(
    directory: str | None,
    *,
    level: str = "INFO",
    max_bytes: int = 10 * 1024 * 1024,
    backups: int = 5,
    console: bool = False,
) -> Callable[[], None]:
    """Sends tidelog's log lines to `directory` (at most `max_bytes * (backups + 1)`) and, if asked, to stderr.

    Returns how to undo it, which also closes the file.
    """
    logger = logging.getLogger(ROOT_LOGGER)
    handlers: list[logging.Handler] = []
    if directory is not None:
        Path(directory).mkdir(parents=True, exist_ok=True)
        handlers.append(BoundedFile(Path(directory) / LOG_FILE, max_bytes, backups))
    if console:
        handlers.append(logging.StreamHandler())
    for handler in handlers:
        handler.setFormatter(OneLineFormatter())
        logger.addHandler(handler)
    before = logger.level
    logger.setLevel(level)

    def undo() -> None:
        logger.setLevel(before)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()

    return undo


class BoundedLog:
    """At most `burst` lines per `period_s`, then a count of what was left out: strangers cannot fill the disk."""

    def __init__(
        self, logger: logging.Logger, now: Callable[[], float], *, burst: int = 20, period_s: float = 10.0
    ) -> None:
        self._logger = logger
        self._now = now
        self._burst = burst
        self._period_s = period_s
        self._period_end = float("-inf")
        self._lines = 0
        self._left_out = 0

    def warning(self, text: str) -> None:
        now = self._now()
        if now >= self._period_end:
            if self._left_out:
                self._logger.warning("left out %d more lines like the last ones", self._left_out)
            self._period_end = now + self._period_s
            self._lines = self._left_out = 0
        if self._lines < self._burst:
            self._lines += 1
            self._logger.warning("%s", text)
        else:
            self._left_out += 1
