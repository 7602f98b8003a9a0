"""The async shell of a node: connections, handlers, timers, start and stop. Decisions are made below it.

`cli`, `sim` and the node's own process import it.
"""
