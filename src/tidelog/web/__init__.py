"""The live page: a cluster as it moves, and traces of simulations played back.

`board` is what the page shows, `watching` and `trace` fold what nodes tell and what a trace says into it, `explain` and
`commands` have the words and the rules behind them; all of these are plain code without I/O. `sources` brings what
nodes, supervisor and brokers tell, `app` serves it. It imports `cluster`, `client` and below; nobody but `cli` imports
it, and the supervisor starts it by command line.
"""
