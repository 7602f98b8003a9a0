"""What a reader of committed data leaves out of an answer."""

from tidelog.storage.txn_index import AbortedTxn
from tidelog.wire.records.aborted import AbortedTransactions
from tidelog.wire.records.control import EndTransactionMarker, encode_end_txn_marker
from tidelog.wire.records.plain import Record, decode_batch, encode_batch

PRODUCER = 7


def data(offset: int, producer_id: int = PRODUCER, *, is_transactional: bool = True) -> bytes:
    return encode_batch(
        [Record(value=b"x")], base_offset=offset, producer_id=producer_id, is_transactional=is_transactional
    )


def marker(offset: int, *, committed: bool, producer_id: int = PRODUCER) -> bytes:
    return encode_end_txn_marker(
        EndTransactionMarker(committed, 0), producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset
    )


def aborted_at(first_offset: int, last_offset: int, producer_id: int = PRODUCER) -> AbortedTxn:
    return AbortedTxn(producer_id, first_offset, last_offset, first_offset)


def kept(batches: list[bytes], *transactions: AbortedTxn) -> list[int]:
    """The offsets of data batches that are left in."""
    aborted = AbortedTransactions(transactions)
    offsets = []
    for batch in batches:
        header, records = decode_batch(batch)
        if header.is_control:
            aborted.see_marker(header, records)
        elif not aborted.covers(header):
            offsets.append(header.base_offset)
    return offsets


def test_only_the_aborted_producers_transaction_is_left_out() -> None:
    batches = [data(0), data(1, 8), data(2, is_transactional=False), data(3), marker(4, committed=False), data(5)]
    assert kept(batches, aborted_at(0, 4)) == [1, 2, 5]


def test_a_commit_of_another_transaction_ends_nothing() -> None:
    batches = [data(0, 8), data(1), marker(2, committed=True, producer_id=8), data(3), marker(4, committed=False)]
    assert kept(batches, aborted_at(1, 4)) == [0]


def test_a_producer_may_abort_again() -> None:
    batches = [
        data(0),
        marker(1, committed=False),
        data(2),
        marker(3, committed=True),
        data(4),
        marker(5, committed=False),
    ]
    assert kept(batches, aborted_at(4, 5), aborted_at(0, 1)) == [2]


def test_an_answer_that_begins_with_the_marker_of_an_abort_keeps_what_comes_next() -> None:
    """The transaction is named, none of its records are there: it is over when its marker has been seen."""
    assert kept([marker(4, committed=False), data(5), marker(6, committed=True)], aborted_at(0, 4)) == [5]
