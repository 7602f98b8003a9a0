"""One partition as leader or follower: the in-sync set, the high watermark, epochs; applying a metadata delta.

A deciding package: synchronous, no clock, no I/O but the log's own. `broker` and `sim` import it.
"""
