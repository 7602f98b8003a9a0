"""Record batches (magic 2): headers for the hot path, a plain decoder and encoder for everything else.

`batch` reads and patches headers without touching records; `compression` bounds what a codec may inflate;
`plain` turns batches into records and back. Imports `wire.errors` and `core` only.
"""
