"""The live page of a cluster, and the player for traces of simulations.

`board` holds everything that the page shows. `watching` fills a board from nodes, `trace` fills one from a trace.
`explain` and `commands` hold the sentences and the rules behind them. None of these does I/O. `sources` reads from the
nodes, the supervisor and the brokers, and `app` serves the page. This package imports `cluster`, `client` and below.
Only `cli` imports it; the supervisor starts it by command line.
"""
