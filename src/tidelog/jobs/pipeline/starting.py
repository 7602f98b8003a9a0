"""Where a source begins, found out once: all queries of a pipeline, and the next start of one that was killed before
its first batch, begin at the same records. With `earliest` that needs no keeping.
"""

import json
from pathlib import Path

from tidelog.jobs.pipeline.model import Source
from tidelog.spark.brokers import Brokers
from tidelog.spark.offsets import Position, offsets_json, parse_offsets
from tidelog.spark.options import parse
from tidelog.spark.planning import Planner
from tidelog.spark.points import EARLIEST, Earliest
from tidelog.storage.posix import PosixDisk

_DECIDES = ("startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp", "startingoffsetsbytimestampstrategy")


def settled(source: Source, folder: Path) -> dict[str, str]:
    """The source's options, with offsets in place of `latest` or a time."""
    options = parse(source.options, streaming=True)
    if isinstance(options.starting, Earliest):
        return source.options
    kept = folder / f"starting-{source.name}.json"
    brokers = Brokers(options)
    try:
        if kept.exists():
            found = parse_offsets(json.loads(kept.read_text()))
            # Partitions that came later begin at their first record, and all have to be named.
            found = {tp: found.get(tp, Position(EARLIEST)) for tp in brokers.partitions()}
        else:
            found = Planner(options, brokers).initial()
            PosixDisk().write_atomic(str(kept), json.dumps(offsets_json(found)).encode())
    finally:
        brokers.close()
    others = {name: value for name, value in source.options.items() if name.lower() not in _DECIDES}
    return others | {"startingOffsets": json.dumps(offsets_json(found))} if found else source.options
