"""The deterministic world a node can run in: an event loop with virtual time and a network in memory.

The same program gives the same steps in the same order, whatever the machine does. Imports anything but `cli`, `web`,
`testing` and `jobs`; no node code imports this.
"""
