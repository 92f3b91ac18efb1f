"""Seeded mutations of the small files of a trace: their bytes, their values, and what kind of file they are."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

#: Values that readers do not expect, for a value of a JSON or YAML file.
_NASTY: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 3, 1 << 31, -(1 << 31), 1 << 63, 1 << 64, 10**4000, 0.5, -0.0, 1e-300, 1e300,
    float("nan"), float("inf"), -float("inf"), "", "x", "0", "nan", "..", "../..", "/dev/zero", "a/b", "\0", "\n",
    "\ud800", "\x1b[2J", "é" * 300, "x" * 100_000, [], {}, [[]], {"": {}}, [0] * 5000, list(range(40)), [1, 2, 3],
    "raw", "lzma", "lzmaf", "mjpg", "npz", "jpg", "i2", "u2", "u1", "f4", "f8", "c8", "i4", "2048x10", "AWR1843",
)  # fmt: skip
_DOUBLES = (
    float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e-300, 1e300, 1e18, 1.7e9 + 864_000, 1.7e9 + 31_536_000,
    1.0, 0.1, 4e9, 1.7e12,
)  # fmt: skip


def mutate_text(data: bytes, rng: random.Random) -> bytes:
    """A mutation of a JSON or YAML file: mostly of its values, else of its bytes."""
    if rng.random() < 0.65:
        try:
            content = json.loads(data)
            written: Callable[[Any], str] = json.dumps
        except ValueError:
            content, written = yaml.safe_load(data), _as_yaml
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            content = _changed(content, rng)
        return written(content).encode("utf-8", "surrogatepass")
    return rng.choice(_TEXTS)(data, rng)


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """A mutation of a binary file of 8-byte entries or of a container."""
    return rng.choice(_BINARIES)(data, rng)


def mutate_kind(path: Path, rng: random.Random) -> None:
    """Replace a file by something that is no regular file, or by a sparse one of six gigabytes."""
    choice = rng.randrange(7)
    path.unlink()
    if choice == 0:
        os.mkfifo(path)
    elif choice == 1:
        path.mkdir()
    elif choice == 2:
        path.symlink_to(path.name)
    elif choice == 3:
        path.symlink_to("/dev/zero")
    elif choice == 4:
        with path.open("wb") as file:
            file.truncate((6 << 30) + 5)  # no whole number of samples or frames
    elif choice == 5:
        with socket.socket(socket.AF_UNIX) as server:
            here = os.open(path.parent, os.O_RDONLY)  # the path of a socket has at most 108 bytes
            server.bind(f"/proc/self/fd/{here}/{path.name}")
            os.close(here)


def remove(path: Path) -> None:
    """Remove whatever stands at a path."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _as_yaml(content: Any) -> str:
    return json.dumps(content)  # every JSON text is YAML


def _places(content: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from _places(value, (*here, key))


def _changed(content: Any, rng: random.Random) -> Any:
    """The content with one value replaced, removed, added, repeated, scaled or moved."""
    content = copy.deepcopy(content)
    *above, last = rng.choice([place for place in _places(content) if place] or [(None,)])
    if last is None:
        return rng.choice(_NASTY)
    parent = content
    for key in above:
        parent = parent[key]
    value, choice = parent[last], rng.randrange(8)
    if choice == 0:
        del parent[last]
    elif choice == 1 and isinstance(value, list) and len(value) > 1:
        parent[last] = rng.choice((value[::-1], rng.sample(value, len(value)), value[:-1], [*value, value[0]]))
    elif choice == 2 and isinstance(value, (int, float)) and abs(value) < 1e300:
        parent[last] = rng.choice((value * 2, -value, value + 1, value / 3, value * 1e9, str(value), [value]))
    elif choice == 3 and isinstance(parent, dict):
        parent[rng.choice(("extra", "args", "shape", "files", "../x", "x" * 300, ""))] = rng.choice(_NASTY)
    elif choice == 4 and isinstance(parent, dict) and len(parent) > 1:
        other = rng.choice(list(parent))
        parent[last], parent[other] = parent[other], parent[last]
    elif choice == 5:
        nested: Any = value
        for _ in range(rng.choice((3, 40, 100))):
            nested = [nested] if rng.random() < 0.5 else {"a": nested}
        parent[last] = nested
    else:
        parent[last] = rng.choice(_NASTY)
    return content


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice((rng.randbytes(9), b"{", b"]", b'"', b"\0", b",,", b"&a [*a]")) + data[at:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    at, size = rng.randrange(len(data) + 1), rng.randrange(1, 64)
    return data[:at] + data[at : at + size] * rng.choice((2, 50)) + data[at + size :]


def _aliases(data: bytes, rng: random.Random) -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, rng.randrange(3, 12))]
    return b"\n".join([data, *(line.encode() for line in lines)])


_TEXTS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _cut,
    _insert,
    _repeat,
    _aliases,
    lambda data, rng: rng.choice((b"", b"\xef\xbb\xbf" + data, b"\n \n" + data + b"\n\n", data + data)),
    lambda data, rng: rng.randbytes(rng.choice((1, 100, 5000))),
    lambda data, rng: rng.choice((b"[", b"{", b'{"a":', b"- ", b"&a [*a, ")) * rng.choice((10, 500, 100_000)),
    lambda data, rng: b'{"a": ' + b"9" * rng.choice((30, 4000, 10_000)) + b"}",
    lambda data, rng: b"!!python/object/apply:os.system ['true']",
    lambda data, rng: b"{" + b",".join(b'"%d":{"format":"raw","type":"u1","shape":[]}' % i for i in range(2000)) + b"}",
    lambda data, rng: data + b" " * (5 << 20),
)


def _entry(data: bytes, rng: random.Random) -> bytes:
    """One entry of eight bytes is another number."""
    if len(data) < 8:
        return data
    at = 8 * rng.randrange(len(data) // 8)
    value = rng.choice(_DOUBLES)
    whole = rng.choice((0, 1, 1 << 31, 1 << 40, (1 << 63) + 5, (1 << 64) - 1))
    return data[:at] + rng.choice((struct.pack("<d", value), struct.pack("<Q", whole))) + data[at + 8 :]


def _jump(data: bytes, rng: random.Random) -> bytes:
    """Entries from one on are later: a clock that was set, or offsets that leave a hole."""
    entries = [each[0] for each in struct.iter_unpack("<d", data[: len(data) // 8 * 8])]
    at = rng.randrange(len(entries) + 1)
    by = rng.choice((0.3, 3.0, 864_000.0, 31_536_000.0, -1e-3, -1.7e9))
    return struct.pack(f"<{len(entries)}d", *entries[:at], *(each + by for each in entries[at:]))


def _stretch(data: bytes, rng: random.Random) -> bytes:
    return data + rng.choice((b"\0", rng.randbytes(8), data, b"\0" * 4096))


_BINARIES: tuple[Callable[[bytes, random.Random], bytes], ...] = (_flip, _cut, _entry, _entry, _jump, _stretch, _flip)
