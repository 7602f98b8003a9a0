"""Consumer groups of the classic protocol, decided on the partitions of `__consumer_offsets`.

`shard.GroupShard` is the one door: a request or a timer goes in, a `Decision` comes out (effects to carry out now, and
records to append). Pure and synchronous: the clock, the timers, the log and the connections belong to
`broker.group_coordinator`. May import metadata, storage, wire and core; only `broker` and above import it.
"""
