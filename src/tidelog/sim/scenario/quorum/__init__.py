"""The metadata quorum in memory: members over disks that lose what was not synced, messages one by one, virtual time.

`cluster.py` is the machinery, `world.py` its commands for scenario files, `schedule.py` its random driver,
`invariants.py` what must hold after every step of either.
"""
