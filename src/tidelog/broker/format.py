"""Preparing the directories of a node: `meta.properties` in each, and the records a cluster starts from.

A node never formats by itself: an empty directory where data was expected is a disk that was lost, not a new start.
"""

import random
from collections.abc import Iterable

from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import random_uuid, uuid_to_text
from tidelog.metadata.features import bootstrap_records
from tidelog.metadata.records import frame
from tidelog.quorum.formatting import format_metadata_dir
from tidelog.quorum.voters import KRAFT_VERSION_RECONFIGURABLE, ReplicaKey, Voter, VoterSet
from tidelog.storage.checkpoints import (
    META_PROPERTIES,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from tidelog.storage.ports import Disk


class FormatError(Exception):
    """Why a directory was not formatted; one line for the user."""


def all_directories(config: NodeConfig) -> tuple[str, ...]:
    """The log directories, and the metadata directory when it is another."""
    return tuple(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))


def format_directories(
    disk: Disk, config: NodeConfig, cluster_id: str | None, rng: random.Random, now_ms: int
) -> tuple[str, list[str]]:
    """Formats what is not formatted yet; returns the cluster id and the directories that were formatted."""
    found = {directory: _meta(disk, directory) for directory in all_directories(config)}
    cluster_id = _agreed_cluster_id(found.values(), cluster_id) or uuid_to_text(random_uuid(rng))
    for directory, meta in found.items():
        if meta is not None and meta.node_id != config.node_id:
            raise FormatError(f"{directory} belongs to node {meta.node_id}, not {config.node_id}")
    formatted = []
    for directory, meta in found.items():
        if meta is not None:
            continue
        disk.make_dirs(directory)
        own = MetaProperties(cluster_id, config.node_id, random_uuid(rng))
        if directory == config.metadata_log_dir:
            values = [frame(record) for record in bootstrap_records()]
            format_metadata_dir(disk, directory, values, voters=_first_voter(config, own), now_ms=now_ms)
        # Last: a directory with this file is formatted, whatever else happened before.
        write_meta_properties(disk, f"{directory}/{META_PROPERTIES}", own)
        formatted.append(directory)
    return cluster_id, formatted


def _first_voter(config: NodeConfig, meta: MetaProperties) -> VoterSet | None:
    """Voters stand in every node's config (`controller.quorum.voters`). Without it, this node is the first of a quorum
    whose voters stand in the log (KIP-853), as `kafka-storage format --standalone` makes it.
    """
    if config.controller_quorum_voters:
        return None
    endpoints = tuple((at.listener_name, at.host or "localhost", at.port) for at in config.controller_listeners)
    return VoterSet.of([Voter(ReplicaKey(config.node_id, meta.directory_id), endpoints)], KRAFT_VERSION_RECONFIGURABLE)


def check_formatted(disk: Disk, config: NodeConfig) -> dict[str, MetaProperties]:
    """What every directory says of itself; FormatError names the first that is not this node's."""
    metas: dict[str, MetaProperties] = {}
    for directory in all_directories(config):
        meta = _meta(disk, directory)
        if meta is None:
            raise FormatError(f"{directory} is not formatted; run: tidelog format --config FILE")
        if meta.node_id != config.node_id:
            raise FormatError(f"{directory} belongs to node {meta.node_id}, this is node {config.node_id}")
        metas[directory] = meta
    _agreed_cluster_id(metas.values(), None)
    return metas


def _meta(disk: Disk, directory: str) -> MetaProperties | None:
    return read_meta_properties(disk, f"{directory}/{META_PROPERTIES}")


def _agreed_cluster_id(metas: Iterable[MetaProperties | None], wanted: str | None) -> str | None:
    ids = sorted({meta.cluster_id for meta in metas if meta is not None})
    if len(ids) > 1:
        raise FormatError(f"the directories belong to different clusters: {', '.join(ids)}")
    if ids and wanted is not None and ids[0] != wanted:
        raise FormatError(f"the directories belong to cluster {ids[0]}, not {wanted}")
    return ids[0] if ids else wanted
