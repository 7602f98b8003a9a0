"""What a cluster knows of itself: the typed records, the immutable image they add up to, the delta between two images.

Every change of cluster state is a record (rule C1). `delta.apply_records` is the one replay: the active controller, the
brokers and the snapshot reader all go through it. Imports storage and below; pure.
"""
