"""Faults that are hard to hit do strike when they are the only one, and the cluster gets over them."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.sim.campaign import Settings, run_seed
from tidelog.sim.faults.budget import Budget
from tidelog.sim.faults.plan import PlannedFault

SETTINGS = Settings(seconds=10.0, least_faults=0, least_batches=0)


def told_of(kind: str, seed: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The line of the fault, and the trace of a run with this fault alone."""
    lines: list[str] = []
    outcome = run_seed(seed, SETTINGS, plan=[PlannedFault(number=0, at_s=2.0, kind=kind)], sink=lines.append)
    assert outcome.failure is None, outcome.failure.lines()
    assert outcome.faults == 1
    trace = [json.loads(line) for line in lines]
    (struck,) = [line for line in trace if line["event"] == kind]
    return struck, trace


@pytest.mark.parametrize(("kind", "seed"), [("lose_mark", 1), ("wipe_stopped", 1), ("new_disk", 3), ("new_disk", 11)])
def test_a_disk_is_damaged_after_an_orderly_end_or_a_crash(kind: str, seed: int) -> None:
    struck, trace = told_of(kind, seed)
    ends = [line["end"] for line in trace if line["event"] == "exit" and line["node"] == struck["node"]]
    assert ends == ["killed" if (kind, seed) == ("new_disk", 11) else "returned"]


@pytest.mark.parametrize("kind", ["metadata_fsync_error", "metadata_io_error"])
@pytest.mark.parametrize("seed", [2, 6])
def test_a_node_whose_metadata_log_fails_ends(kind: str, seed: int) -> None:
    struck, trace = told_of(kind, seed)
    first = next(line for line in trace if line["event"] == "exit")
    assert first["node"] == struck["node"]
    assert first["t"] - struck["t"] < 7.0


@pytest.mark.parametrize("seed", range(4))
def test_what_an_orderly_end_promises_outlives_a_power_cut(seed: int) -> None:
    """It may be elected from the ELR as soon as it is back, so that what it lacked would be missed."""
    struck, trace = told_of("stop_and_power_cut", seed)
    assert [line["end"] for line in trace if line["event"] == "exit" and line["node"] == struck["node"]] == ["returned"]


def test_dedicated_controllers_lose_power_too() -> None:
    struck, _ = told_of("power_cut_controller", 6)
    assert struck["node"] > 100


@pytest.mark.parametrize("kind", ["failover_before_commit", "failover_after_commit"])
def test_a_controller_dies_around_a_commit(kind: str) -> None:
    struck, trace = told_of(kind, 1)
    proposed = [
        line["t"]
        for line in trace
        if line["event"] == "isr_change_proposed" and struck["replica"] in line["proposed_isr"]
    ]
    joined = [
        line["t"] for line in trace if line["event"] == "isr" and struck["replica"] in line["isr"] and line["t"] > 2.0
    ]
    assert min(proposed) < struck["t"]
    assert (min(joined) <= struck["t"]) == (kind == "failover_after_commit")


def test_a_replica_hears_at_once_that_it_is_out_and_in_again() -> None:
    struck, trace = told_of("removed_and_readded", 1)
    about = [
        line["replicas"]
        for line in trace
        if line["source"] == "metadata"
        and (line.get("topic"), line.get("partition")) == (struck["topic"], struck["partition"])
        and line["t"] >= 2.0
    ]
    assert any(struck["replica"] not in replicas for replicas in about)
    assert struck["replica"] in about[-1]


@pytest.mark.parametrize(("seed", "starts"), [(1, True), (5, False)])
def test_a_broker_that_is_back_finds_another_topic_under_the_name(seed: int, starts: bool) -> None:
    struck, trace = told_of("remade_while_away", seed)
    assert struck["starts"] == starts
    kinds = ("exit", "start", "remade_while_away")
    told = [line["event"] for line in trace if line["event"] in kinds and line.get("node") == struck["node"]]
    assert told == (["exit", "start", "remade_while_away"] if starts else ["exit", "remade_while_away", "start"])
    made = [
        line["topic_id"] for line in trace if line["event"] == "topic_created" and line.get("topic") == struck["topic"]
    ]
    assert len(set(made)) >= 2


@pytest.mark.parametrize("seed", range(2))
def test_what_an_fsync_has_not_written_is_gone_with_the_power(seed: int) -> None:
    struck, trace = told_of("fsync_error_and_power_cut", seed)
    offline = [line for line in trace if line["event"] == "log_directory_offline"]
    assert [line["node"] for line in offline] == [struck["node"]]
    recovered = [line for line in trace if line["event"] == "log_recovered" and line["node"] == struck["node"]]
    assert any(line["bytes_cut"] for line in recovered) or struck["unsynced_bytes"] > 0


def test_connections_of_clients_are_reset() -> None:
    struck, _ = told_of("reset_clients", 1)
    assert struck["connections"] > 0


def test_a_read_that_fails_takes_its_directory_offline() -> None:
    struck, trace = told_of("read_error", 2)
    assert struck["file"].startswith(struck["directory"])
    offline = [line for line in trace if line["event"] == "log_directory_offline"]
    assert [line["node"] for line in offline] == [struck["node"]]


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_what_a_leader_misreads_gets_into_no_other_log(seed: int) -> None:
    """The follower that lacks it goes on when the disk is repaired: else the run would not settle."""
    struck, trace = told_of("misread", seed)
    assert struck["path"].endswith(".log")
    assert [line["node"] for line in trace if line["event"] == "exit"] == [struck["node"]]


def test_one_that_may_lose_data_at_any_time_counts_as_if_it_had() -> None:
    budget = Budget(lambda image, topic: 2)
    partition = SimpleNamespace(replicas=[1, 2, 3], isr=[1, 2, 3], elr=[])
    image: Any = SimpleNamespace(
        topics_by_id={0: SimpleNamespace(partitions={0: partition})}, broker=lambda node_id: None
    )
    assert budget.may_lose(2, image)
    budget.at_risk[1] = None
    assert not budget.may_lose(2, image)
    assert budget.may_lose(1, image)
