"""The decorators of compiled kernels: Numba, without the interpreter's lock, cached on disk between runs.

Numba decides by the file of one kernel whether its cached code is still right. A kernel also contains the code of the
kernels that it calls, which may stand in other files. So the cache lies in a folder whose name is a digest of all
sources of the kernel's room (`rover_pipeline/odometry/`, for example) and of this room: a change in any of them begins
a new cache for all of them.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import platformdirs

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = Path(__file__).parents[1]
_PREFIX = "numba-"


def compiled(function: F) -> F:
    """`function` compiled at its first call.

    Without fast-math: results must be the same bytes in any thread.
    """
    return _compile(function, fastmath=False)


def compiled_with_fma(function: F) -> F:
    """`function` compiled at its first call, with multiplications and additions contracted into one instruction.

    Contraction rounds once where two operations round twice. It does not reorder sums, so results are still the same
    bytes in any thread; they differ between processors with and without such an instruction.
    """
    return _compile(function, fastmath={"contract"})


def inlined(function: F) -> F:
    """`function` for use in kernels only, copied into them, where a call would cost more than the work itself."""
    return cast(F, numba.njit(inline="always", error_model="numpy")(function))


def cache_folder(source: Path) -> Path:
    """Folder of the compiled code of a source file of this package: beside it where that can be written.

    Args:
        source: file of the kernel.

    Returns:
        A folder whose name changes with every source that the kernel may call. `NUMBA_CACHE_DIR` moves it.
    """
    room = _PACKAGE / source.relative_to(_PACKAGE).parts[0] if source.is_relative_to(_PACKAGE) else source.parent
    if os.environ.get("NUMBA_CACHE_DIR"):
        base = Path(os.environ["NUMBA_CACHE_DIR"])
    elif os.access(room, os.W_OK):
        base = room / "__pycache__"
    else:
        base = platformdirs.user_cache_path("rover_pipeline")
    return base / f"{_PREFIX}{room.name}-{_digest(room)}"


@functools.cache
def _digest(room: Path) -> str:
    """Digest of the names, sizes and times of change of all sources that kernels of a room may call."""
    digest = hashlib.blake2b(digest_size=6)
    for folder in (room, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            state = path.stat()
            digest.update(f"{path.relative_to(folder)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _compile(function: F, fastmath: bool | set[str]) -> F:
    with _cache_in(cache_folder(Path(sys.modules[function.__module__].__file__ or ""))):
        return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath)(function))


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """Numba's cache folder, for the kernels that are declared in this block: it looks when it makes a kernel."""
    settings: Any = numba.config
    before = settings.CACHE_DIR
    if folder.parent.name == "__pycache__" and not folder.exists():
        _remove_older(folder)
    settings.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        settings.CACHE_DIR = before


def _remove_older(folder: Path) -> None:
    """Remove caches of other states of the same room. A process that still uses one compiles again."""
    room = folder.name.rpartition("-")[0]
    for other in folder.parent.glob(f"{room}-*"):
        shutil.rmtree(other, ignore_errors=True)
