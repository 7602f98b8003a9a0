"""What an operator reads in the logs of three nodes: every election and ISR change, with reason and offsets (O2)."""

import logging
import re

import pytest
from tests.unit.broker.test_replication import TOPIC, isr, leader, make_topic, write
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster

from tidelog.sim.cluster import SimCluster


def lines(caplog: pytest.LogCaptureFixture, about: str) -> list[str]:
    told = (record.getMessage() for record in caplog.records if record.name == "tidelog.events")
    return [line for line in told if re.search(about, line)]


@pytest.mark.rule("O2")
def test_an_election_is_told_by_the_controller_by_who_leads_and_by_who_follows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tidelog.events")

    async def story(cluster: SimCluster) -> None:
        await make_topic(await connect(cluster, 1), min_insync_replicas="2")
        for number in range(4):
            await write(cluster, b"value-%d" % number)
        first = leader(cluster)
        assert first is not None
        assert f"{TOPIC}: leads in epoch 0 from offset 0 on, log start 0, HW 0, ISR [1,2,3]" in lines(caplog, "leads")
        assert lines(caplog, f"{TOPIC}: follows") == [f"{TOPIC}: follows {first} in epoch 0, LEO 0, HW 0"] * 2
        caplog.clear()
        cluster.kill(first)
        await write(cluster, b"after")
        second = leader(cluster)
        assert second is not None
        left = sorted({1, 2, 3} - {first})
        shown = f"[{left[0]},{left[1]}]"
        (fenced,) = lines(caplog, f"^broker {first} .*fenced")
        assert fenced.endswith(": its connection ended and its listener refuses")
        (elected,) = lines(caplog, f"{TOPIC}: leader")
        # The controller keeps the ISR in the order of the assignment.
        assert re.fullmatch(
            rf"{TOPIC}: leader {first} to {second} in epoch 1, ISR \[{first},.,.\] to \[{second},.\], ELR \[\]: "
            f"broker {first} fenced",
            elected,
        )
        (leads,) = lines(caplog, f"{TOPIC}: leads")
        assert leads.startswith(f"{TOPIC}: leads in epoch 1 from offset 4 on, log start 0, HW ")
        assert leads.endswith(f", ISR {shown}")
        (follows,) = lines(caplog, f"{TOPIC}: follows")
        assert follows.startswith(f"{TOPIC}: follows {second} in epoch 1, LEO 4, HW ")
        caplog.clear()
        await cluster.start(first)
        await cluster.until(lambda: isr(cluster, second) == {1, 2, 3})
        caught_up = f"LEO 5, HW 5: broker {first} has caught up at offset 5"
        assert lines(caplog, f"{TOPIC}: asks") == [
            f"{TOPIC}: asks for ISR [1,2,3] instead of {shown} in epoch 1, {caught_up}"
        ]
        assert lines(caplog, f"{TOPIC}: ISR") == [f"{TOPIC}: ISR {shown} to [1,2,3] in epoch 1, {caught_up}"]
        (unfenced,) = lines(caplog, f"^broker {first} .*unfenced")
        assert ": it has replayed the metadata up to offset " in unfenced

    on_virtual_cluster(story)


@pytest.mark.rule("O2", "I2")
def test_a_follower_that_falls_behind_is_told_with_its_offset_and_its_lag(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tidelog.events")

    async def story(cluster: SimCluster) -> None:
        await make_topic(await connect(cluster, 1))
        await write(cluster, b"value")
        at = leader(cluster)
        assert at is not None
        gone = next(node for node in (1, 2, 3) if node != at)
        caplog.clear()
        cluster.kill(gone)
        await cluster.until(lambda: isr(cluster, at) == {1, 2, 3} - {gone})
        left = sorted({1, 2, 3} - {gone})
        assert lines(caplog, f"{TOPIC}: ISR") == [
            f"{TOPIC}: ISR [1,2,3] to [{left[0]},{left[1]}] in epoch 0, LEO 1, HW 1: "
            f"the controller's decision; broker {gone} is fenced"
        ]

    on_virtual_cluster(story)
