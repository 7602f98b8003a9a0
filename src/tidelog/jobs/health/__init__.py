"""A2, health: what brokers publish on `__replication_events`, put together over time.

`model` is what is found out, `job` finds it out on Spark, `report` shows it.
"""
