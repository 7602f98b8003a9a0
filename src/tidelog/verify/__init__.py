"""A live workload against a real cluster, faults meanwhile, and its history checked.

Pure, a history in, what is wrong with it out: `values`, `sends`, `reads`, `history`, `evidence`, `checks`, `verdict`.
Live: `producing`, `consuming` and `final_read` make a history with librdkafka, `faults`, `rounds` and `watch` break the
cluster and watch it, `run` is the whole. Stands beside `testing`, on `cluster` and `client`; only `cli` imports it.
"""
