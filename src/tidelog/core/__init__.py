"""The shared vocabulary: ids, typed configs, events, purgatory.

Everything may import this package; it imports nothing of tidelog's. Pure: no clock, no randomness, no I/O.
"""
