"""A3, the campaign: many seeds under several configurations, and the odds of losing what was acknowledged.

`odds` counts, `job` spreads runs of `tidelog.sim.durability` over executors, `report` shows what came of it.
"""
