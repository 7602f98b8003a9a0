"""Networks that lose, delay, tear apart and forget."""

import random
from typing import Final

from tidelog.sim.cluster import CONTROLLER_PORT, host_of
from tidelog.sim.faults.field import Applied, Field
from tidelog.sim.faults.plan import FaultKind
from tidelog.sim.links import Cut, Delay

LASTS_S: Final = (0.2, 12.0)


def partition(field: Field, rng: random.Random) -> Applied | None:
    """Two groups of nodes that do not hear each other; clients hear all."""
    nodes = list(field.cluster.nodes)
    if len(nodes) < 2:
        return None
    rng.shuffle(nodes)
    at = rng.randint(1, len(nodes) // 2)
    groups = [field.hosts(nodes[:at]), field.hosts(nodes[at:])]
    return field.cut(Cut.partition(groups), nodes[:at], rng.uniform(*LASTS_S))


def isolate(field: Field, rng: random.Random) -> Applied | None:
    """One node that nobody hears, clients neither."""
    node_id = field.pick(rng)
    return None if node_id is None else field.cut(Cut.isolate(host_of(node_id)), [node_id], rng.uniform(*LASTS_S))


def one_way(field: Field, rng: random.Random) -> Applied | None:
    """One node hears the others and is not heard, or the other way round."""
    node_id = field.pick(rng)
    if node_id is None:
        return None
    own, others = field.hosts([node_id]), field.hosts(n for n in field.cluster.nodes if n != node_id)
    sides = (own, others) if rng.random() < 0.5 else (others, own)
    return field.cut(Cut.one_way(*sides), [node_id], rng.uniform(*LASTS_S))


def bridge(field: Field, rng: random.Random) -> Applied | None:
    """Two sides that only one node in the middle hears."""
    nodes = list(field.cluster.nodes)
    if len(nodes) < 3:
        return None
    rng.shuffle(nodes)
    middle, rest = nodes[0], nodes[1:]
    at = rng.randint(1, len(rest) - 1)
    cut = Cut.bridge(field.hosts(rest[:at]), host_of(middle), field.hosts(rest[at:]))
    return field.cut(cut, (), rng.uniform(*LASTS_S))


def clog(field: Field, rng: random.Random) -> Applied | None:
    """One direction between two nodes stands still for a moment, then everything comes at once."""
    if len(field.cluster.nodes) < 2:
        return None
    one, other = rng.sample(list(field.cluster.nodes), 2)
    return field.cut(Cut.one_way([host_of(one)], [host_of(other)]), (), rng.uniform(0.05, 2.5))


def slow(field: Field, rng: random.Random) -> Applied | None:
    """Everything from and to one node takes long and comes out of order between connections."""
    node_id = field.pick(rng)
    if node_id is None:
        return None
    delay = Delay(rng.uniform(0.0, 0.05), rng.uniform(0.01, 0.5))
    network, host = field.cluster.network, host_of(node_id)
    network.slow_down(host, delay)
    return Applied(
        what={"node": node_id, "least_s": round(delay.least_s, 6), "mean_s": round(delay.mean_s, 6)},
        lasts_s=rng.uniform(*LASTS_S),
        end=lambda: network.slow_down(host, None),
    )


def reset(field: Field, rng: random.Random) -> Applied | None:
    """All connections between two nodes are reset; what was on its way is lost."""
    if len(field.cluster.nodes) < 2:
        return None
    one, other = rng.sample(list(field.cluster.nodes), 2)
    count = field.cluster.network.break_off(host_of(one), host_of(other))
    return Applied(what={"nodes": [one, other], "connections": count}) if count else None


def reset_clients(field: Field, rng: random.Random) -> Applied | None:
    """All connections of clients to a broker are reset: nobody knows what became of what was asked for."""
    node_id = rng.choice(field.brokers())
    count = field.cluster.network.break_off(field.cluster.loop.host, host_of(node_id))
    return Applied(what={"node": node_id, "connections": count}) if count else None


def half_open(field: Field, rng: random.Random) -> Applied | None:
    """All connections between two nodes go dead without a word."""
    if len(field.cluster.nodes) < 2:
        return None
    one, other = rng.sample(list(field.cluster.nodes), 2)
    count = field.cluster.network.half_open(host_of(one), host_of(other))
    return Applied(what={"nodes": [one, other], "connections": count}) if count else None


def cut_from_controllers(field: Field, rng: random.Random) -> Applied | None:
    """A broker that hears everybody but the controllers."""
    node_id = field.pick(rng, field.brokers())
    if node_id is None:
        return None
    return field.cut(Cut.isolate(host_of(node_id)).on_port(CONTROLLER_PORT), [node_id], rng.uniform(1.0, 14.0))


KINDS: Final = (
    FaultKind(name="partition", profile="network", strike=partition),
    FaultKind(name="isolate", profile="network", strike=isolate),
    FaultKind(name="one_way", profile="network", strike=one_way),
    FaultKind(name="bridge", profile="network", strike=bridge),
    FaultKind(name="clog", profile="network", strike=clog, weight=2.0),
    FaultKind(name="slow_link", profile="network", strike=slow),
    FaultKind(name="reset", profile="network", strike=reset, weight=2.0),
    FaultKind(name="reset_clients", profile="network", strike=reset_clients),
    FaultKind(name="half_open", profile="network", strike=half_open),
    FaultKind(name="cut_from_controllers", profile="network", strike=cut_from_controllers),
)
