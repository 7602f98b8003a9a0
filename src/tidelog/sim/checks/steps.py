"""Committed metadata batch by batch: nodes publish several at once, and what stood between them counts as well."""

from tidelog.metadata.image import ClusterImage, Provenance
from tidelog.metadata.loader import MetadataLoader
from tidelog.metadata.records import unframe
from tidelog.sim.checks.mirror import LogMirror
from tidelog.wire.records.batch import read_header
from tidelog.wire.records.plain import decode_batch


def steps_to(image: ClusterImage, before: ClusterImage, log: LogMirror | None) -> list[ClusterImage]:
    """The images after `before`, one for each batch, up to `image`, which the owner of this metadata log published.

    One step if the log no longer has what lies between: only a snapshot tells of it then.
    """
    start = before.provenance.offset + 1
    if log is None or not log.batches or log.batches[0].base_offset > start:
        return [image]
    loader = MetadataLoader(before)
    steps: list[ClusterImage] = []
    for batch in log.batches[log.number_of(start) :]:
        if batch.next_offset - 1 > image.provenance.offset:
            break
        data = log.data(batch)
        header = read_header(data)
        records = [] if header.is_control else [unframe(record.value or b"") for record in decode_batch(data)[1]]
        loader.load_batch(records, Provenance(header.last_offset, header.partition_leader_epoch, header.max_timestamp))
        steps.append(loader.image)
    return steps or [image]
