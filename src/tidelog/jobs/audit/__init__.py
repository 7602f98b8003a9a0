"""A1, the audit: every batch of every replica looked at, and replicas compared below the high watermark.

`layout` finds the logs in directories, `live` those of a running cluster; `walk` looks at the batches of a log and
`indexes` at the files beside them; `source` is both as tables in Spark, `compare` says what differs, `job` does it all.
"""
