"""A small asyncio Kafka client over `wire`: the command line, readiness checks, demo and test helpers speak through it.

`connection` is one ordered, pipelined connection; `client` finds brokers, leaders and coordinators and tries again
what is worth trying again; `topics`, `configs`, `offsets`, `groups` are the admin calls; `producer`, `consumer`,
`group_member` move records. Time is the event loop's own, so all of it runs under virtual time too. Imports `wire`
and `core` only.
"""
