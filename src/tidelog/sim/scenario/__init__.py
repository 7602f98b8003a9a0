"""Stories of replication as text: commands and the state they lead to, replayed over pure state machines.

`text.py` reads and writes the files, `runner.py` replays one in a world, `worlds.py` is the table of worlds. A world is
a small class that carries out commands and says what they led to; the first line of a file names it. `quorum/` is the
world of the metadata quorum, and the machinery that property tests drive at random.
"""
