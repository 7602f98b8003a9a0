"""The invariants of whole clusters under simulation, and the onlooker who checks them.

`watch` looks, `mirror` and `history` remember, the others hold invariants: each a class with a plain statement.
"""
