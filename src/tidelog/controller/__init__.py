"""What the active controller decides: brokers, topics, configs, elections, ISRs, reassignments, producer ids, features.

Decide, record, replay (rule C1): a decision looks at the image and returns records and a response; state changes only
when the records are replayed. Pure: time, offsets and randomness are handed in. Imports metadata and below.
"""
