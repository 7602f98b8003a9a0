"""Who leads, as this member comes to see it: what others say, and what happens when nobody says anything (Q2, Q5)."""

from math import inf

from tidelog.core.ids import NO_LEADER
from tidelog.quorum.election_messages import LeaderView
from tidelog.quorum.member import Member
from tidelog.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached

# --- what anybody says about epoch and leader ---


def learn(m: Member, view: LeaderView, now_s: float) -> None:
    """A newer epoch, or the leader of this one, changes what this member is."""
    if view.endpoint is not None and view.leader_id >= 0 and view.epoch >= m.epoch:
        m.learned_endpoints = {view.leader_id: view.endpoint}
    has_leader = view.leader_id not in (NO_LEADER, m.key.id)
    if view.epoch > m.epoch:
        if has_leader:
            m.become_follower(view.leader_id, view.epoch, now_s)
        else:
            m.become_unattached(view.epoch, now_s)
    elif view.epoch == m.epoch and has_leader and m.leader_id == NO_LEADER:
        m.become_follower(view.leader_id, view.epoch, now_s)


# --- timers ---


def advance(m: Member, now_s: float) -> bool:
    """At most one change of role that is due; whether there was one."""
    before = m.role
    match before:
        case Unattached():
            if before.election_deadline_s <= now_s and m.may_stand and not m.shutting_down:
                m.become_prospective(now_s)
        case Prospective():
            _advance_pre_vote(m, before, now_s)
        case Candidate():
            _advance_election(m, before, now_s)
        case Follower():
            if before.fetch_deadline_s <= now_s and m.may_stand and not m.shutting_down:
                m.become_prospective(now_s)
        case Leader():
            if _must_resign(m, before, now_s):
                m.become_resigned(now_s)
        case Resigned():
            if before.deadline_s <= now_s and not m.shutting_down:
                _end_resignation(m, now_s)
    return m.role is not before


def _end_resignation(m: Member, now_s: float) -> None:
    if m.may_stand:
        m.become_prospective(now_s)
    else:
        # In its own epoch it could not follow anybody: the leader of that one is itself.
        m.become_unattached(m.epoch + 1, now_s)


def _advance_pre_vote(m: Member, role: Prospective, now_s: float) -> None:
    if m.shutting_down:
        return
    if role.is_won:
        m.become_candidate(now_s)
    elif role.is_lost or role.election_deadline_s <= now_s:
        m.failed_elections += 1
        if m.leader_id in (NO_LEADER, m.key.id):
            m.become_unattached(m.epoch, now_s, deadline_s=now_s + m.backoff_s())
        else:
            m.become_follower(m.leader_id, m.epoch, now_s)


def _advance_election(m: Member, role: Candidate, now_s: float) -> None:
    if role.is_won:
        m.become_leader(now_s)
    elif role.election_deadline_s <= now_s and not m.shutting_down:
        if not role.backing_off:
            m.failed_elections += 1
        m.become_prospective(now_s)
    elif role.is_lost and not role.backing_off:
        m.failed_elections += 1
        role.backing_off = True
        role.election_deadline_s = min(role.election_deadline_s, now_s + m.backoff_s())


def _must_resign(m: Member, role: Leader, now_s: float) -> bool:
    """Orderly, or cut off from its majority (KAFKA-15489), or removed from the voters by a record that is committed."""
    removed = not m.is_voter and m.history.latest_offset < role.high_watermark
    cut_off = now_s >= role.last_majority_s(m.key) + m.config.check_quorum_timeout_s
    return m.shutting_down or removed or cut_off


def next_deadline_s(m: Member, now_s: float) -> float:
    """When `advance` has something to look at again. What is past and changed nothing (observers, shutdown) is not."""
    match m.role:
        case Unattached() | Prospective() | Candidate():
            deadline_s = m.role.election_deadline_s
        case Follower():
            deadline_s = m.role.fetch_deadline_s
        case Leader():
            deadline_s = m.role.last_majority_s(m.key) + m.config.check_quorum_timeout_s
        case Resigned():
            deadline_s = m.role.deadline_s
    return deadline_s if deadline_s > now_s else inf
