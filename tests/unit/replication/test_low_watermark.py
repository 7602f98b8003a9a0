"""What DeleteRecords waits for."""

from tests.unit.replication.leader_kit import Led, broker


def test_what_an_earlier_process_of_a_follower_had_deleted_does_not_count() -> None:
    led = Led(replicas=(1, 2), isr=(1, 2))
    led.write(10)
    led.fetch(2)
    assert led.partition.delete_records(5) == 5
    led.fetch(2, log_start=5)
    assert led.partition.low_watermark() == 5
    # Killed before its log start was written down, registered again, unfenced; it has not fetched yet.
    led.context.brokers = {**led.context.brokers, 2: broker(2, epoch=99)}
    assert led.partition.low_watermark() < 5
    led.fetch(2, broker_epoch=99, log_start=0)
    assert led.partition.low_watermark() == 0
