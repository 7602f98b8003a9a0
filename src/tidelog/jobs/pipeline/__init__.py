"""Pipelines from a TOML file: topics, steps of SQL or Python, sinks.

`parsing` reads and checks a file: `parse_sources`, `parse_steps` and `parse_sinks` its parts, `wiring` how they hang
together; with `surroundings`, `mistakes`, `lines`, `ddl`, `views`, `functions` and `times`. None of them needs Spark.
`queries` makes the streaming queries of it with `decoding`, `snapshots` and `starting`, `running` runs them, and
`state` is what others see of a run.
"""
