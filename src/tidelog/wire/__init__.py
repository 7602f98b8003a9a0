"""Bytes to messages and back: frames, messages, record batches, error codes.

Imports only `core`. Pure: nothing here opens a socket. Nothing is allocated from a count that a peer declared.
"""
