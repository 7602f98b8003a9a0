"""How fast the sink turns Arrow columns into record batches, on one core: compiled, and by way of Python objects.

python -m benchmarks.encoder [--runs 5] [--rows 200000]

Rows of 100 B and 1 KB, 10 B of it key, in Arrow batches of 10,000 as Spark gives them, onto 8 partitions; plain and
zstd. By CPU time, both in turns. The way by objects is that of `wire.records.plain`, which the commands use.
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from time import process_time as cpu_s
from typing import Final

import pyarrow as pa

from benchmarks.kernel import KEY_BYTES, NOW_MS, text
from tidelog.client.partitioner import partition_for_key
from tidelog.kernel import Encoder, Filled
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.batch import stamp_producer
from tidelog.wire.records.plain import Record, encode_batch

OUT: Final = Path(__file__).parent / "out"
PARTITIONS: Final = 8
BATCH_BYTES: Final = 512 * 1024
ARROW_ROWS: Final = 10_000
WAYS: Final = ("compiled", "objects")


def rows(size: int) -> pa.RecordBatch:
    chance = random.Random(size)
    keys = [b"%010d" % chance.getrandbits(32) for _ in range(ARROW_ROWS)]
    return pa.record_batch({"key": keys, "value": [text(size - KEY_BYTES, chance) for _ in keys]})


def compiled(batch: pa.RecordBatch, times: int, codec: Codec) -> int:
    encoder = Encoder("bench", batch_bytes=BATCH_BYTES, codec=codec)
    parts: list[Iterator[Filled]] = [encoder.tell({"bench": PARTITIONS})]
    parts += [encoder.add(batch, NOW_MS) for _ in range(times)]
    made = 0
    for filled in chain(*parts, encoder.flush()):
        stamp_producer(filled.batch, 1, 0, 0)
        made += len(filled.batch)
    return made


def objects(batch: pa.RecordBatch, times: int, codec: Codec) -> int:
    filling: dict[int, list[Record]] = {}
    sizes = dict.fromkeys(range(PARTITIONS), 0)
    made = 0
    for _ in range(times):
        keys, values = (batch.column(name).to_pylist() for name in ("key", "value"))
        for key, value in zip(keys, values, strict=True):
            partition = partition_for_key(key, PARTITIONS)
            sizes[partition] += len(key) + len(value)
            filling.setdefault(partition, []).append(Record(timestamp=NOW_MS, key=key, value=value))
            if sizes[partition] > BATCH_BYTES:
                made += len(encode_batch(filling.pop(partition), codec=codec, producer_id=1, producer_epoch=0))
                sizes[partition] = 0
    return made + sum(len(encode_batch(each, codec=codec)) for each in filling.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200_000)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {}
    print(f"{'million rows per CPU second':<30} {'median':>7} spread")
    for size in (100, 1000):
        batch = rows(size)
        for codec in (Codec.NONE, Codec.ZSTD):
            for run in range(options.runs + 1):
                for way in WAYS:
                    # Objects take much longer, and their rate does not depend on how many there are.
                    times = max(options.rows // ARROW_ROWS // (1 if way == "compiled" else 10), 1)
                    began_s = cpu_s()
                    (compiled if way == "compiled" else objects)(batch, times, codec)
                    if run:
                        name = f"{size} B, {codec.name.lower()}, {way}"
                        rates.setdefault(name, []).append(times * ARROW_ROWS / (cpu_s() - began_s) / 1e6)
    for name, values in rates.items():
        print(f"{name:<30} {statistics.median(values):>7.3f} {min(values):.3f} to {max(values):.3f}")
    OUT.mkdir(exist_ok=True)
    (OUT / "encoder.json").write_text(json.dumps(rates, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
