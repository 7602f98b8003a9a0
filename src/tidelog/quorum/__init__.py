"""The metadata quorum: the replicated log of opaque records, its snapshots, votes and epochs.

What the records mean is `metadata`'s business; here they are bytes with offsets. Everything is synchronous: blocking
work (flushing, writing a snapshot) is handed out so that a shell can run it elsewhere. Imports storage and below.
"""
