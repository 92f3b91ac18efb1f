"""The only writer of virtual sensors: a result is complete or absent, and files of others are never touched.

Everything is written to `_name/.partial/`, checked, synced and renamed: `provenance.json` first (it marks the directory
as ours), then the channels, and `meta.json` last (it makes the directory a sensor). The lock on `_name/.lock` ends with
the process, so that a kill at any moment leaves nothing that a user must clean up.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from rover_pipeline.errors import InTheWayError, RoverError
from rover_pipeline.format.channels import create_channel
from rover_pipeline.format.channels.base import EncodedWriter, sync_file
from rover_pipeline.format.channels.raw import allocate, write_at
from rover_pipeline.format.meta import META, ChannelSpec, write_meta
from rover_pipeline.format.provenance import MADE_BY, PROVENANCE, read_provenance

PARTIAL = ".partial"
LOCK = ".lock"


def in_the_way(path: Path) -> str:
    """The reason why a result may not be written at `path`; empty when it may be written.

    It may be written when `path` does not exist, when a killed run left only its scratch files there, or when our own
    `provenance.json` is there.
    """
    if path.is_symlink():
        return f"{path}: is a symbolic link; nothing is written through it. Move it away"
    if not path.exists():
        return ""
    if not path.is_dir():
        return f"{path}: is a file where a virtual sensor belongs. Move it away"
    strangers = sorted({entry.name for entry in os.scandir(path)} - {PARTIAL, LOCK})
    if not strangers or read_provenance(path) is not None:
        return ""
    return (
        f"{path}: was not made by {MADE_BY} (it holds {strangers[0]!r} and no {PROVENANCE} of ours). "
        "Move it away or set `output_root`; nothing is overwritten"
    )


class VirtualWriter:
    """Makes the virtual sensor at `path`. Use it as a context manager, then `create`, fill, `commit`.

    Without `create` the result is a folder of the files that were written to `partial`, and not a sensor.

    When the block ends without `commit`, by an error or an interrupt, everything that was written is removed, and our
    older result stays as it was.

    Args:
        stamps: names of empty files that are published last: they show that all others are complete.

    Attributes:
        partial: scratch folder. Files in it are published with the channels.
        waited: whether this process waited for another one, which may have made the same result.
    """

    def __init__(self, path: Path, stamps: Iterable[str] = ()) -> None:
        self.path = path
        self.partial = path / PARTIAL
        self.stamps = tuple(stamps)
        self.waited = False
        self.specs: dict[str, ChannelSpec] = {}
        self._length = 0
        self._streams: dict[str, EncodedWriter] = {}
        self._lock: int | None = None

    def __enter__(self) -> Self:
        if problem := in_the_way(self.path):
            raise InTheWayError(problem)
        self._acquire()
        try:
            if problem := in_the_way(self.path):
                raise InTheWayError(problem)
            shutil.rmtree(self.partial, ignore_errors=True)
            self.partial.mkdir()
        except BaseException:
            self._release()
            raise
        return self

    def create(self, specs: dict[str, ChannelSpec], length: int) -> None:
        """Begin the channels. Raw ones get their full size and are filled in any order; others are appended to."""
        self._refuse_strangers(specs)
        self.specs, self._length = specs, length
        for name, spec in specs.items():
            if spec.format == "raw":
                allocate(self.partial / name, spec, length)
            else:
                stream = create_channel(self.partial / name, spec)
                if not isinstance(stream, EncodedWriter):
                    raise RoverError(f"{self.path}: {name}: {spec.format} cannot be written sample by sample")
                self._streams[name] = stream

    def fill(self, name: str, samples: np.ndarray) -> None:
        """Write the whole of a small raw channel, such as `ts`."""
        write_at(self.partial / name, self.specs[name], 0, samples)

    def stream(self, name: str) -> EncodedWriter:
        """The writer of a channel that is not raw. Samples must be appended in order."""
        return self._streams[name]

    def add_file(self, name: str, content: bytes) -> None:
        """A file to publish beside the channels."""
        (self.partial / name).write_bytes(content)

    def commit(self, provenance: dict[str, Any]) -> None:
        """Check, sync and publish. Once this returns, the sensor survives a power cut."""
        for name, spec in self.specs.items():
            path = self.partial / name
            if name in self._streams:
                self._streams[name].close()
                count = self._streams[name].count
            else:
                count = path.stat().st_size // spec.sample_bytes
            if count != self._length:
                raise RoverError(f"{path}: has {count} samples, {self._length} were to be written")
        files = sorted(entry.name for entry in os.scandir(self.partial))
        with ThreadPoolExecutor() as pool:  # disks are faster with several requests at once
            list(pool.map(sync_file, (self.partial / name for name in files if name not in self._streams)))
        for name in self.stamps:
            (self.partial / name).touch()
        listed = sorted({*files, *self.stamps})
        self._refuse_strangers(listed)
        content = {"made_by": MADE_BY, "sensor": self.path.name, **provenance, "files": listed}
        (self.partial / PROVENANCE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        sync_file(self.partial / PROVENANCE)
        if self.specs:
            write_meta(self.partial, self.specs)

        self._retract()
        for name in (PROVENANCE, *files, *self.stamps):
            os.replace(self.partial / name, self.path / name)
        if self.specs:
            sync_file(self.path)  # meta.json makes a sensor of the channels, so their names must be on disk first
            os.replace(self.partial / META, self.path / META)
        sync_file(self.path)

    def _refuse_strangers(self, names: Iterable[str]) -> None:
        """Raise InTheWayError when somebody else added a file with one of these names to our older result."""
        ours = (read_provenance(self.path) or {}).get("files", ())
        for name in names:
            if name not in ours and os.path.lexists(self.path / name):
                raise InTheWayError(
                    f"{self.path / name}: stands where a channel belongs and was not made by {MADE_BY}. Move it away"
                )

    def _retract(self) -> None:
        """Remove the files of our own older result, `meta.json` first. Files that others added stay."""
        old = read_provenance(self.path)
        if old is None:
            return
        for name in (META, *old.get("files", ())):
            path = self.path / Path(name).name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in self._streams.values():
            with contextlib.suppress(Exception):  # its file is removed next
                stream.close()
        shutil.rmtree(self.partial, ignore_errors=True)
        self._release()

    def _acquire(self) -> None:
        """Take an exclusive lock on `.lock`. Wait while another live process makes the same sensor."""
        told = 0.0
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:
                continue  # the other process has just removed the empty directory
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The previous holder removes the file that it had locked, so only a lock on the present file counts.
                if os.fstat(descriptor).st_ino == os.stat(self.path / LOCK).st_ino:
                    self._lock = descriptor
                    with contextlib.suppress(OSError):  # this note for waiting processes may fail when the disk is full
                        os.truncate(descriptor, 0)
                        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
                    return
            except BlockingIOError:
                self.waited = True
                if time.monotonic() > told + 30:
                    holder = os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
                    print(f"{self.path}: waiting for {holder}, which makes it now", file=sys.stderr, flush=True)
                    told = time.monotonic()
                time.sleep(0.2)
            except FileNotFoundError:
                pass
            os.close(descriptor)

    def _release(self) -> None:
        if self._lock is None:
            return
        (self.path / LOCK).unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None
        with contextlib.suppress(OSError):  # it succeeds only when the directory is empty
            os.rmdir(self.path)
