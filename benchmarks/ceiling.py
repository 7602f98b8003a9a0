"""What Spark itself takes for rows from Python: a source that gives one Arrow batch again and again.

No broker, no fetch, no decoding: no source in Python can hand Spark rows of this size any faster.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.kernel import Decoder
from tidelog.spark import schemas

if TYPE_CHECKING:
    import pyarrow as pa

CEILING: Final = "ceiling"


class CeilingSource(DataSource):
    """Options: `template`, a file with a record batch as a broker has it; `rows` of each of `partitions`."""

    @classmethod
    def name(cls) -> str:
        return CEILING

    def schema(self) -> StructType:
        return schemas.of({})

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.options["template"], int(self.options["rows"]), int(self.options["partitions"]))


class _Reader(DataSourceReader):
    def __init__(self, template: str, rows: int, partitions: int) -> None:
        self._template = template
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        batch = self._as_large_as_ours(int(partition.value))
        left = self._rows
        while left > 0:
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows

    def _as_large_as_ours(self, number: int) -> "pa.RecordBatch":
        """The first Arrow batch that our source would make of such records."""
        with open(self._template, "rb") as file:
            template = bytearray(file.read())
        decoder = Decoder(CEILING, number, 0, 2**40)
        while True:
            # The same records again, at the offsets that come next; the CRC does not cover those.
            template[:8] = decoder.next_offset.to_bytes(8, "big")
            for full in decoder.feed(template):
                return full
