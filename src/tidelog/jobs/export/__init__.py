"""A4, the export: a topic as Parquet by day, or the latest value of every key as a table; run by run, each record once.

`folder` keeps what lies in the directory, `job` is what Spark does.
"""
