"""Preparing the directories of a node: `meta.properties` in each, and the records a cluster starts from.

A node never formats by itself: an empty directory where data was expected is a disk that was lost, not a new start.
"""

import posixpath
import random
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.broker.initial_voters import INITIAL, NONE, VoterFlags, first_voters
from tidelog.core.config.key import ConfigError
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import random_uuid, uuid_to_text
from tidelog.metadata.features import bootstrap_records
from tidelog.metadata.records import frame
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.formatting import format_metadata_dir, remove_unfinished_format
from tidelog.quorum.voters import VoterSet
from tidelog.storage.checkpoints import (
    META_PROPERTIES,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from tidelog.storage.ports import Disk, DiskError


class FormatError(Exception):
    """Why a directory was not formatted, or is not this node's; one line for the user."""


def all_directories(config: NodeConfig) -> tuple[str, ...]:
    """The log directories, and the metadata directory when it is another."""
    return tuple(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))


def format_directories(
    disk: Disk,
    config: NodeConfig,
    cluster_id: str | None,
    rng: random.Random,
    now_ms: int,
    flags: VoterFlags | None = None,
) -> tuple[str, list[str]]:
    """Formats what is not formatted yet; returns the cluster id and the directories that were formatted.

    ConfigError is a mistake in what was asked, FormatError something about the directories.
    """
    flags = flags or VoterFlags()
    # The metadata directory first: where another one is formatted and it is not, it was lost.
    directories = tuple(dict.fromkeys((config.metadata_log_dir, *config.log_dirs)))
    found = {directory: _meta(disk, directory) for directory in directories}
    existing = {directory: meta for directory, meta in found.items() if meta is not None}
    told = flags.given is not None or config.metadata_log_dir not in existing
    voters = first_voters(config, flags, rng) if told else None
    cluster_id = _agreed_cluster_id(existing, cluster_id) or _new_cluster_id(config, voters, rng)
    _check_node_id(existing, config)
    if config.metadata_log_dir in existing:
        _check_directory_id(existing[config.metadata_log_dir], config, flags)
    elif existing:
        _refuse_second_start(config, voters, next(iter(existing)))
    formatted = [directory for directory in directories if directory not in existing]
    for directory in formatted:
        _make_durable_dirs(disk, directory)
        own = MetaProperties(cluster_id, config.node_id, random_uuid(rng))
        if directory == config.metadata_log_dir and config.is_controller:
            if voters is not None:
                own = own._replace(directory_id=voters.voters[config.node_id].key.directory_id)
            _format_metadata(disk, directory, voters, now_ms)
        # Last: a directory with this file is formatted, whatever else happened before.
        write_meta_properties(disk, f"{directory}/{META_PROPERTIES}", own)
    return cluster_id, formatted


def _make_durable_dirs(disk: Disk, directory: str) -> None:
    """With every parent that is new: what is written into a directory is no safer than its name."""
    missing = [directory]
    while (parent := posixpath.dirname(missing[-1].rstrip("/"))) and not disk.is_dir(parent):
        missing.append(parent)
    disk.make_dirs(directory)
    for each in missing:
        disk.fsync_dir(posixpath.dirname(each.rstrip("/")) or ".")


def _format_metadata(disk: Disk, directory: str, voters: VoterSet | None, now_ms: int) -> None:
    values = [frame(record) for record in bootstrap_records()]
    try:
        remove_unfinished_format(disk, directory)
        format_metadata_dir(disk, directory, values, voters=voters, now_ms=now_ms)
    except QuorumError as error:
        raise FormatError(str(error)) from error


def _new_cluster_id(config: NodeConfig, voters: VoterSet | None, rng: random.Random) -> str:
    """Made up where one node is the whole quorum. Others would each make up their own, and never find together."""
    first = len(config.controller_quorum_voters) if voters is None else len(voters.voters)
    if not config.is_controller or first != 1:
        raise ConfigError(
            f"--cluster-id is required for node.id={config.node_id}: the same on every node of the cluster; "
            f"tidelog random-uuid makes one"
        )
    return uuid_to_text(random_uuid(rng))


def _refuse_second_start(config: NodeConfig, voters: VoterSet | None, other: str) -> None:
    """A controller that has data and no metadata forgot what it voted and what it knew. Where it is, or was, one of
    the first voters it must not come back as if nothing had been.
    """
    lone = len(config.controller_quorum_voters) == 1
    if not config.is_controller or (voters is None and not lone):
        return
    several = voters is not None and len(voters.voters) > 1
    advice = f", or format it with {NONE} instead of {INITIAL} and add it to the voters again" if several else ""
    raise FormatError(
        f"{config.metadata_log_dir} is not formatted, but {other} is: the metadata log is lost, or its disk is not "
        f"mounted, and the node would start with an empty one; restore it{advice}"
    )


def _check_directory_id(meta: MetaProperties, config: NodeConfig, flags: VoterFlags) -> None:
    for entry in flags.initial_controllers:
        if entry.node_id == config.node_id and config.is_controller and entry.directory_id != meta.directory_id:
            raise FormatError(
                f"{config.metadata_log_dir} is already formatted as directory {uuid_to_text(meta.directory_id)}, "
                f"not {uuid_to_text(entry.directory_id)}"
            )


class Formatted(NamedTuple):
    """What every directory says of itself, and why some say nothing."""

    metas: dict[str, MetaProperties]
    unreadable: dict[str, DiskError]


def check_formatted(disk: Disk, config: NodeConfig) -> Formatted:
    """FormatError names the first directory that is not this node's.

    It does without a directory of logs that cannot be read (C10), but not without its metadata.
    """
    found: dict[str, MetaProperties | None] = {}
    unreadable: dict[str, DiskError] = {}
    for directory in all_directories(config):
        try:
            found[directory] = _meta(disk, directory)
        except DiskError as error:
            if directory == config.metadata_log_dir:
                raise
            unreadable[directory] = error
    metas = {directory: meta for directory, meta in found.items() if meta is not None}
    for directory in found:
        if directory in metas:
            continue
        lost = f", but {next(iter(metas))} is: if it was in use, its disk is lost or not mounted" if metas else ""
        raise FormatError(
            f"{directory} is not formatted{lost}; to format a new directory: tidelog format --config FILE"
        )
    _check_node_id(metas, config)
    _agreed_cluster_id(metas, None)
    return Formatted(metas, unreadable)


def _meta(disk: Disk, directory: str) -> MetaProperties | None:
    return read_meta_properties(disk, f"{directory}/{META_PROPERTIES}")


def _check_node_id(metas: Mapping[str, MetaProperties], config: NodeConfig) -> None:
    for directory, meta in metas.items():
        if meta.node_id != config.node_id:
            raise FormatError(f"{directory} belongs to node {meta.node_id}, but node.id={config.node_id}")


def _agreed_cluster_id(metas: Mapping[str, MetaProperties], wanted: str | None) -> str | None:
    of_cluster = {meta.cluster_id: directory for directory, meta in metas.items()}
    if len(of_cluster) > 1:
        shown = ", ".join(f"{directory} to {cluster_id}" for cluster_id, directory in sorted(of_cluster.items()))
        raise FormatError(f"the directories belong to different clusters: {shown}")
    found = next(iter(of_cluster), None)
    if found is not None and wanted is not None and found != wanted:
        raise FormatError(f"the directories belong to cluster {found}, not {wanted}")
    return found or wanted
