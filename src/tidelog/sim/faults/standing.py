"""What a node is doing that does not serve, in words: for whoever waits for it in vain."""

from tidelog.metadata.image import ClusterImage
from tidelog.sim.cluster import SimNode
from tidelog.sim.machine import State


def standing(node: SimNode, newest: ClusterImage) -> str:
    """`newest` is the newest metadata that anybody knows."""
    machine = node.machine
    if machine.state is State.OFF:
        return "not started" + _last_end(node)
    if machine.state is State.PAUSED:
        return "paused"
    if machine.ports.asked_to_stop.is_set():
        return "stopping"
    return "serving" if node.serves else f"starting, {_how_far(node, newest)}"


def _last_end(node: SimNode) -> str:
    if not node.machine.exits:
        return ""
    last = node.machine.exits[-1]
    why = "" if last.error is None else f" with {type(last.error).__name__}: {last.error}"
    return f" since its last process ended: {last.end.value}{why}"


def _how_far(node: SimNode, newest: ClusterImage) -> str:
    """In the order in which it takes these steps."""
    running, config = node.node, node.config
    control = None if running is None else running.control
    if running is None or control is None:
        return "its metadata log is not open"
    if not control.publisher.is_caught_up:
        raft, known = control.raft, newest.provenance.offset + 1
        return (
            f"behind: metadata replayed up to {control.publisher.next_offset} of {known}, "
            f"leader {raft.leader_id} in epoch {raft.epoch}"
        )
    if not config.is_broker:
        return "caught up"
    if len(running.listeners) < len(config.listeners):
        return "its logs are not loaded"
    registered = newest.broker(node.node_id)
    if registered is None:
        return "not registered"
    return f"{'fenced' if registered.fenced else 'unfenced'} in broker epoch {registered.epoch}"
