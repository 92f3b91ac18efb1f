"""Where each thread is in a recording, in memory that outlives its process: a decoder in C can end it at any sample."""

from __future__ import annotations

import mmap
import threading

#: Bytes for each thread, and number of threads with bytes of their own. Forked processes share the memory. Layout.
_BYTES, _THREADS = 1024, 64
_memory = mmap.mmap(-1, _BYTES * _THREADS)


def note(where: object = "", first: int = 0, last: int = 0) -> None:
    """Note the path and the samples that this thread decodes, or computes from; nothing, without arguments."""
    text = f"{where}: sample{f's {first} to {last}' if last > first else f' {first}'}" if where else ""
    slot = threading.get_native_id() % _THREADS * _BYTES
    _memory[slot : slot + _BYTES] = text.encode(errors="replace")[-_BYTES:].ljust(_BYTES, b"\0")


def noted() -> list[str]:
    """What threads, of this process and of those that were forked from it, were at when they ended. Forgets it."""
    slots = [_memory[at : at + _BYTES].rstrip(b"\0") for at in range(0, len(_memory), _BYTES)]
    _memory[:] = bytes(len(_memory))
    return sorted({slot.decode(errors="replace") for slot in slots if slot})
