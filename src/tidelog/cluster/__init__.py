"""Supervises the node processes of a cluster on one machine: ports, start, kill, pause, readiness, faults.

Nodes are started by command line (`python -m tidelog.broker`), never imported: a supervisor that survives whatever
a node does shares no memory with it. `testing` and `cli` stand on this; it imports `client` and below.
"""
