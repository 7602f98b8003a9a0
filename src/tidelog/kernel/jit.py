"""Numba, typed: the one module that knows of it.

Compiled code is kept on disk beside its source, else in the user's cache directory; `NUMBA_CACHE_DIR` names another
place. Where none can be written, every process compiles for itself, which takes some seconds, and says so.
"""

import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba
import numpy.typing as npt
from numba import types
from numba.core import cgutils
from numba.core.caching import NullCache
from numba.extending import intrinsic

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# What has no names for its types: a scalar of any array is an int to the code that is compiled.
Array = npt.NDArray[Any]

log = logging.getLogger("tidelog.kernel")


def inlined(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compiled into whoever calls it, and only there."""
    made: Callable[Parameters, Result] = numba.njit(nogil=True, error_model="numpy", forceinline=True)(function)
    return made


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compiled when first called, or read from the cache. It runs without the interpreter's lock."""
    made: Callable[Parameters, Result]
    try:
        made = numba.njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError as error:
        _say_uncached(error)
        made = numba.njit(nogil=True, error_model="numpy")(function)
    return made


def first_call(function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
    """Call it; a cache that turns out not to be writable is done without."""
    try:
        return function(*args, **kwargs)
    except OSError as error:
        _say_uncached(error)
        # Numba has no public way to stop caching what was made to be cached.
        function._cache = NullCache()  # type: ignore[attr-defined]
        return function(*args, **kwargs)


def _say_uncached(error: Exception) -> None:
    log.warning(
        "compiled code cannot be kept, every process takes some seconds to compile (NUMBA_CACHE_DIR names a place): %s",
        error,
    )


def _copy_bytes(typing_context: Any, out: Any, at: Any, data: Any, pos: Any, size: Any) -> Any:
    """`out[at : at + size] = data[pos : pos + size]` as one memcpy. Nothing is checked.

    Who changes this changes `native.py` as well: by its text alone the cache tells old code from new.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0])
        source = cgutils.create_struct_proxy(signature.args[2])(context, builder, args[2])
        where = builder.gep(target.data, [args[1]])
        whence = builder.gep(source.data, [args[3]])
        cgutils.raw_memcpy(builder, where, whence, args[4], 1)
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64, types.int64), generate


copy_bytes: Callable[[Array, int, Array, int, int], None] = intrinsic(_copy_bytes)
