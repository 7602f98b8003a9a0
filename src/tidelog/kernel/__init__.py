"""Record batches to Arrow columns and back, compiled (`pip install 'tidelog[spark]'`): no Python object per record.

`decoder` walks batches, drops what is not asked for and decompresses; `native` is what Numba compiles of it, `columns`
has the schema and the buffers. `encoder` is the way back, with `native_rows` and `rows`. `jit` is all that knows of
Numba. Imports `wire` only. Only `spark` and `jobs` import it: a node never loads Numba or Arrow.
"""

try:
    from tidelog.kernel.columns import schema
    from tidelog.kernel.decoder import CorruptBatch, Decoder, load
    from tidelog.kernel.encoder import BadRow, Encoder, Filled
except ModuleNotFoundError as error:
    if error.name not in ("llvmlite", "numba", "numpy", "pyarrow"):
        raise
    raise ImportError(f"{error.name} is missing: pip install 'tidelog[spark]'") from error

__all__ = ["BadRow", "CorruptBatch", "Decoder", "Encoder", "Filled", "load", "schema"]
