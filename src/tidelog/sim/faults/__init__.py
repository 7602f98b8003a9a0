"""Faults drawn from a seed: what can go wrong (one module per profile), when, to whom, and within which budget.

`draw_plan` decides from the seed alone which kind strikes when; `Injector` applies a plan to a cluster. Each fault
draws its victims from randomness of its own, so that leaving one out leaves the others as they were.
"""
