"""Running the cleaner to its end, as the broker does over several turns of its loop."""

from tidelog.storage.cleaner import CleanerConfig, Cleaning, LogCleaner
from tidelog.storage.log import Log
from tidelog.wire.records.batch import BatchHeader
from tidelog.wire.records.plain import Record, encode_batch, iter_batches

NOW = 1_700_000_000_000


def begin(log: Log, now_ms: int = NOW, cleaner: LogCleaner | None = None) -> tuple[LogCleaner, Cleaning]:
    cleaner = cleaner or LogCleaner(CleanerConfig())
    return cleaner, cleaner.begin(cleaner.inspect(log, now_ms), now_ms)


def clean(log: Log, now_ms: int = NOW, cleaner: LogCleaner | None = None) -> int:
    """One whole cleaning, due or not; the first dirty offset afterwards."""
    cleaner, cleaning = begin(log, now_ms, cleaner)
    try:
        cleaning.build_map()
        for group in cleaning.groups():
            cleaning.swap_in(group, cleaning.copy(group), now_ms)
        return cleaner.complete(cleaning)
    finally:
        cleaning.close()


def append(
    log: Log, *pairs: tuple[str | None, str | None], timestamp: int = NOW, epoch: int = 0, **header: object
) -> int:
    """One batch of key-value pairs, by the leader of that epoch; its first offset."""
    records = [Record(timestamp=timestamp, key=_bytes(key), value=_bytes(value)) for key, value in pairs]
    data = memoryview(bytearray(encode_batch(records, **header)))  # type: ignore[arg-type]
    return log.append_as_leader(data, epoch, NOW).first_offset


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def seal(log: Log) -> None:
    """Everything so far is closed, flushed and committed."""
    log.roll(NOW)
    log.flush(NOW)
    log.update_high_watermark(log.log_end_offset)


def batches(log: Log, start: int | None = None) -> list[tuple[BatchHeader, list[Record]]]:
    """Everything a reader gets from `start` on."""
    found: list[tuple[BatchHeader, list[Record]]] = []
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        part = log.read(offset, 4096, upper_bound=log.log_end_offset, min_one=True).read()
        if not part:
            break
        found += iter_batches(part)
        offset = found[-1][0].next_offset
    return found


def records(log: Log) -> list[Record]:
    return [record for _, some in batches(log) for record in some if record.offset >= log.log_start_offset]


def pairs(log: Log) -> list[tuple[int, str, str | None]]:
    """(offset, key, value) of all that is left."""
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in records(log)
    ]
