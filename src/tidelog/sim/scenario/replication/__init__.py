"""The world of replication: brokers, one controller, and what they say to each other, over the pure state machines.

`metadata` is the controller and its log, `process` a running broker, `serving` how it answers fetches, `cluster` all of
them with links and time, `world` the commands of a story, `looking` the state of every replica as plain values, `table`
and `told` how state and messages are written down, `invariants` what must hold whatever the story does.
"""
