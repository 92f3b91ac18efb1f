"""The decorators of compiled kernels: Numba, without the interpreter's lock, cached on disk between runs.

Numba decides by the file of one kernel whether its cached code is still right. A kernel also contains the code of the
kernels that it calls, which may stand in other files. So the cache lies in a folder whose name is a digest of all
sources of the kernel's room (`rover_pipeline/odometry/`, for example) and of this room: a change in any of them begins
a new cache for all of them. The folder is in the user's cache: another checkout or environment with the same sources
compiles nothing again.
"""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import os
import pickle
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
import platformdirs
from numba.core import caching, event, types
from numba.core.runtime import rtsys

from rover_pipeline.caches import can_be_written

# Numba takes settings, such as a folder of pickled code, from this file of the current folder, which may be of others.
numba.core.config._config_fname = ""
numba.core.config.reload_config()

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = Path(__file__).parent.parent
_PREFIX = "numba-"
#: Caches of other sources that nobody has used for this long are removed. Schedule.
_KEPT_S = 30 * 86400.0
#: Time after which a line at a terminal says why it takes so long, s, and the same in other outputs. Schedule.
_LONG_S, _LONG_UNSEEN_S = 1.0, 5.0
#: Time that all kernels of a room take on a processor of 2.5 GHz, s. Schedule.
_ABOUT_S = {"simulate": 40, "odometry": 15, "radar": 10, "mapping": 5}


def compiled(function: F, fastmath: bool | set[str] = False) -> F:
    """`function` compiled at its first call.

    Without fast-math: results must be the same bytes in any thread.
    """
    # Numba looks for its cache folder when it makes a kernel.
    settings: Any = numba.config
    before = settings.CACHE_DIR, getattr(settings, "CACHE_LOCATOR_CLASSES", "")
    folder = cache_folder(Path(sys.modules[function.__module__].__file__ or ""))
    _tend(folder)
    settings.CACHE_DIR = str(folder)
    if _UserFolder is not object:
        settings.CACHE_LOCATOR_CLASSES = f"{__name__}.{SharedLocator.__name__}"
    try:
        # No kernel is called by way of a pointer, which would take one more function around it.
        flags: dict[str, Any] = {"error_model": "numpy", "fastmath": fastmath, "no_cfunc_wrapper": True}
        kernel: Any = numba.njit(nogil=True, **flags)(function)
        kernel._cache = _Cache(function)
    finally:
        settings.CACHE_DIR, settings.CACHE_LOCATOR_CLASSES = before
    return cast(F, kernel)


def compiled_with_fma(function: F) -> F:
    """`function` compiled at its first call, with multiplications and additions contracted into one instruction.

    Contraction rounds once where two operations round twice. It does not reorder sums, so results are still the same
    bytes in any thread; they differ between processors with and without such an instruction.
    """
    return compiled(function, fastmath={"contract"})


def inlined(function: F) -> F:
    """`function` for use in kernels only, copied into them, where a call would cost more than the work itself."""
    return cast(F, numba.njit(inline="always", error_model="numpy")(function))


def cache_folder(source: Path) -> Path:
    """Folder of the compiled code of a source file of this package.

    Args:
        source: file of the kernel.

    Returns:
        A folder in the user's cache, or beside the source where there is none that can be written. Its name changes
        with every source that the kernel may call. `NUMBA_CACHE_DIR` moves it.
    """
    room = _PACKAGE / source.relative_to(_PACKAGE).parts[0] if source.is_relative_to(_PACKAGE) else source.parent
    base = platformdirs.user_cache_path("rover_pipeline")
    if os.environ.get("NUMBA_CACHE_DIR"):
        base = Path(os.environ["NUMBA_CACHE_DIR"])
    elif not can_be_written(base):
        base = room / "__pycache__"
    return base / f"{_PREFIX}{room.name}-{_digest(room)}"


@functools.cache
def _digest(room: Path) -> str:
    """Digest of the names and contents of all sources that kernels of a room may call, and of Numba's version."""
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for folder in (room, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


#: Older versions of Numba have no such class, and a folder for each place of the sources.
_UserFolder: Any = getattr(caching, "UserProvidedCacheLocator", object)


class SharedLocator(_UserFolder):  # type: ignore[misc]
    """Names the file of a kernel's code in a cache folder: by the room's folder, wherever the package is."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        folder = Path(py_file).parent
        return "-".join(folder.relative_to(_PACKAGE).parts) if folder.is_relative_to(_PACKAGE) else folder.name


class _Cache(caching.FunctionCache):  # type: ignore[misc, unused-ignore]
    """Loads compiled code without what Numba only compiles with, whose import takes longer than all our kernels'."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)


class CompilationNotice(event.Listener):  # type: ignore[misc, unused-ignore]
    """Says once for each room that its kernels are being compiled, when that takes longer than a moment."""

    def __init__(self) -> None:
        self._depth, self._begin, self._before = 0, 0.0, 0.0
        self._announced: set[str] = set()

    def on_start(self, event: Any) -> None:
        # A kernel takes long because of those that it calls: their compilations begin within its own.
        now = time.monotonic()
        if self._depth == 0:
            self._begin = now
        self._depth += 1
        room = event.data["dispatcher"].py_func.__module__.removeprefix("rover_pipeline.").partition(".")[0]
        patience = _LONG_S if sys.stderr.isatty() else _LONG_UNSEEN_S
        if room in self._announced or self._before + now - self._begin < patience or not (_PACKAGE / room).is_dir():
            return
        self._announced.add(room)
        if multiprocessing.parent_process() is None:
            about = f", about {_ABOUT_S[room]} s" if room in _ABOUT_S else ""
            message = f"compiling the kernels of {room}{about}, once on this machine; later runs find them compiled"
            print(message, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._before += time.monotonic() - self._begin


event.register("numba:compile", CompilationNotice())


def compile_for(kernel: Any, signature: Sequence[Any]) -> None:
    """Compile a kernel for arguments of some types before it is called, or load it from the cache.

    Args:
        signature: the types as `listed` gives them.
    """
    getattr(kernel, "compiled", kernel).compile(tuple(map(_type, signature)))  # of `linear.py`: compiled late


def listed(index: Path) -> list[list[Any]]:
    """The types that a kernel is compiled for, from its index in a cache folder.

    Returns:
        A list of the arguments' types for each time that it is compiled, in JSON's types: the name of a number's type;
        [type, dimensions, layout] of an array, with "readonly" where it is; {"module:name": [types]} of a named tuple,
        {"": [types]} of a plain one.
    """
    with index.open("rb") as file:
        pickle.load(file)  # Numba's version
        _, kernels = pickle.load(file)
    found: list[list[Any]] = []
    for types_of, *_ in kernels:
        signature = [_described(each) for each in types_of]
        found += [signature] if signature not in found else []
    return sorted(found, key=repr)


def _type(description: Any) -> Any:
    if isinstance(description, str):
        return numba.from_dtype(np.dtype(description))
    if isinstance(description, list):
        dtype, dimensions, layout, *readonly = description
        return types.Array(_type(dtype), dimensions, layout, readonly=bool(readonly))
    [(name, fields)] = description.items()
    module, _, kind = name.partition(":")
    kind = getattr(import_module(module), kind) if name else None
    return types.BaseTuple.from_types(tuple(map(_type, fields)), kind)


def _described(kind: Any) -> Any:
    if isinstance(kind, types.Array):
        return [str(kind.dtype), kind.ndim, kind.layout, *([] if kind.mutable else ["readonly"])]
    if isinstance(kind, types.BaseTuple):
        named, fields = getattr(kind, "instance_class", None), cast(Any, kind)
        return {f"{named.__module__}:{named.__qualname__}" if named else "": [_described(each) for each in fields]}
    return str(types.unliteral(kind))


@functools.cache
def _tend(folder: Path) -> None:
    """Date a cache, or, where there is none yet, remove unused ones of other states of the same room. A process that
    still uses one compiles again."""
    if folder.exists():
        with suppress(OSError):  # another user may own it
            os.utime(folder)
        return
    for other in folder.parent.glob(f"{folder.name.rpartition('-')[0]}-*"):
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > _KEPT_S:
                shutil.rmtree(other, ignore_errors=True)
