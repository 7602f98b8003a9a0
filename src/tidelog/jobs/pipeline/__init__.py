"""Pipelines from a TOML file: topics, steps of SQL or Python, sinks.

`parsing` reads and checks a file, with `lines`, `ddl`, `views`, `functions` and `times`; none of them needs Spark.
`queries` makes the streaming queries of it with `decoding`, `snapshots` and `starting`, `running` runs them, and
`state` is what others see of a run.
"""
