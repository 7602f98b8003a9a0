"""A start that fails removes what it created, and nothing else. If it was killed instead, the next start does that."""

import logging
import os
import re
import shutil
from pathlib import Path
from typing import Final

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.layout import ClusterDir
from tidelog.core.ids import METADATA_TOPIC
from tidelog.metadata.names import REPLICATION_EVENTS_TOPIC

log = logging.getLogger("tidelog.cluster")

# Every name in a cluster's directory that a start may create; `layout` explains them.
_OURS: Final = re.compile(r"node-\d+|cluster\.json|control\.sock|page\.(log|log\.1|token)|supervisor\.(lock|log)")
_NODE: Final = re.compile(r"node-\d+")
# Every file of a node that was formatted and never started. A start adds console.log before it runs the node.
# Suffixes are those of files that were being written.
_UNSTARTED: Final = re.compile(
    r"\.?server\.properties(\.[^/]+)?"
    r"|data"
    r"|data/(meta\.properties|bootstrap\.checkpoint)(\.tmp|\.part)?"
    rf"|data/{re.escape(METADATA_TOPIC)}-0"
    rf"|data/{re.escape(METADATA_TOPIC)}-0/(quorum-state|0+-0+\.checkpoint)(\.tmp|\.part)?"
)
# Partitions that hold no client's records: brokers create them by themselves.
_WITHOUT_RECORDS: Final = frozenset({METADATA_TOPIC, REPLICATION_EVENTS_TOPIC})


class Created:
    """What a start adds to a directory in which there was no cluster."""

    def __init__(self, directory: ClusterDir) -> None:
        """Before anything is created."""
        self._path = directory.path
        self._lock = directory.lock_file.name
        self._before = frozenset(os.listdir(self._path)) if self._path.exists() else frozenset()
        folders = (self._path, *self._path.parents)
        # The deepest first, as they are removed.
        self._folders = [folder for folder in folders if not folder.exists()]

    def remove_unstarted(self) -> None:
        """Removes the nodes of a first start that was killed while it formatted them. The caller holds the lock.

        ClusterError, and nothing is removed, if a node of the directory may have run: clients may have written to it.
        """
        nodes = [self._path / name for name in sorted(self._before) if _NODE.fullmatch(name)]
        # A start takes the lock first and removes it if it fails, unless it is killed.
        was_killed = self._lock in self._before
        for node in nodes:
            if not (was_killed and _is_unstarted(node)):
                raise ClusterError(
                    f"{node} exists, but {self._path / 'cluster.json'} does not: move it away, or use another directory"
                )
        for node in nodes:
            _remove(node)
        self._before -= {self._lock, *(node.name for node in nodes)}

    def remove(self) -> None:
        """Removes every file of ours that was not there before. The caller holds the lock, and no node runs.

        Keeps everything if a partition may hold records. Brokers serve before the cluster as a whole is ready, so a
        client may have an acknowledgement already.
        """
        ours = [name for name in sorted(os.listdir(self._path)) if name not in self._before and _OURS.fullmatch(name)]
        if any(_holds_records(self._path / name / "data") for name in ours):
            log.warning("%s is kept: clients may have written to it", self._path)
            return
        for name in ours:
            _remove(self._path / name)

    def remove_folders(self) -> None:
        """Removes the directory and its parents, as far as this start created them and they are empty."""
        for folder in self._folders:
            if not folder.exists():
                continue
            if any(folder.iterdir()):
                return
            folder.rmdir()


def _is_unstarted(node: Path) -> bool:
    if node.is_symlink() or not node.is_dir():
        return False
    entries = list(node.rglob("*"))
    names = [entry.relative_to(node).as_posix() for entry in entries]
    return all(map(_UNSTARTED.fullmatch, names)) and not any(entry.is_symlink() for entry in entries)


def _holds_records(log_dir: Path) -> bool:
    if not log_dir.is_dir():
        return False
    partitions = [entry.name for entry in log_dir.iterdir() if entry.is_dir()]
    return any(name.rpartition("-")[0] not in _WITHOUT_RECORDS for name in partitions)


def _remove(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        # The reason why the start failed is what the user needs to see.
        log.warning("cannot remove %s: %s", path, error.strerror or error)
