"""One replica's log on one disk: segments, indexes, epochs, producer state, recovery, retention, checkpoints.

Synchronous and pure: bytes reach the world only through the `Disk` port (`ports`), `now_ms` and randomness are handed
in. `posix` is the real disk and is imported by `broker`, `jobs` and `cli` only. Imports `wire` and `core`.
"""
