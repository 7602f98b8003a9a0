"""Kafka's config keys: what each is, what it may be, and what Tidelog honours of it.

`key` is one key, `keys` the whole table (gathered from the `keys_*` files), `node` and `topic` the typed configs that
the rest of the house reads, `describe` what DescribeConfigs tells, `properties` the file format. Nothing here does I/O.
"""
