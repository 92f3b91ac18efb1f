"""The only writer of virtual sensors: a result is complete or absent, and files of others are never touched.

A result is built in the scratch folder of its attempt (`attempt.py`), checked, synced, and published by one rename that
exchanges it with our older result (`switch`). So a kill or an error at any moment leaves the whole older result or
the whole new one, and nothing that a user must clean up.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from rover_pipeline.errors import FormatError, InTheWayError, RoverError, counted, short
from rover_pipeline.format.attempt import Attempt, remove_tree, switch
from rover_pipeline.format.channels import create_channel
from rover_pipeline.format.channels.base import EncodedWriter, allocate, sync_file, sync_new_name, write_at
from rover_pipeline.format.files import is_plain, is_stamp
from rover_pipeline.format.meta import META, ChannelSpec, read_meta, write_meta
from rover_pipeline.format.provenance import MADE_BY, PROVENANCE, files_of, read_provenance


def in_the_way(path: Path) -> str:
    """The reason why a result may not be written at `path`; empty when it may be written.

    It may be written when `path` does not exist, is an empty folder, or has our own `provenance.json`.
    """
    if path.is_symlink():
        return f"{path}: is a symbolic link; nothing is written through it. Move it away"
    if not path.exists():
        return ""
    if not path.is_dir():
        return f"{path}: is a file where a virtual sensor belongs. Move it away"
    strangers = sorted(os.listdir(path))
    try:
        if not strangers or read_provenance(path) is not None:
            return ""
    except FormatError as error:
        return f"{path}: it is unknown what made it ({error}). Move it away or set `output_root`"
    return (
        f"{path}: was not made by {MADE_BY} (it holds {strangers[0]!r} and no {PROVENANCE} of ours). "
        "Move it away or set `output_root`; nothing is overwritten"
    )


def discard(path: Path, folder: Path) -> None:
    """Remove a scratch folder of the result at `path`: unfinished work, or the older result that was replaced.

    What somebody else added to the older result, at the moment at which it was replaced, goes back to its path.
    """
    with contextlib.suppress(OSError, RoverError):
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            folder.unlink()  # a link that looks like a scratch folder could lead to raw data
            return
        if read_provenance(folder) is not None:
            # Hidden files that are not listed are unfinished ones of a writer.
            names = {name for name in os.listdir(folder) if not name.startswith(".")}
            for name in names - files_of(read_provenance(folder)) - {META, PROVENANCE}:
                if not os.path.lexists(path / name) and path.is_dir():
                    try:
                        os.rename(folder / name, path / name)
                    except OSError:
                        return  # what is not ours stays where it is
    remove_tree(folder)


#: Writers that this process has begun before it was confined, by their paths.
_ahead: dict[Path, VirtualWriter] = {}


def begin_ahead(path: Path, *, wait: bool = True) -> bool:
    """Lock a result and make its scratch folder before a `VirtualWriter` is asked for, which then finds both. Whatever
    is in the way is reported then too. Returns whether this process alone makes the result now. `wait` for another
    process that makes the same; False = leave it to that one."""
    with contextlib.suppress(Exception):
        if path not in _ahead:
            _ahead[path] = VirtualWriter(path, wait=wait).__enter__()
    return path in _ahead and _ahead[path].attempt.alone


def end_ahead(path: Path | None = None) -> None:
    """Give back what was begun and not asked for, at all paths or at one."""
    for each in [path] if path else [*_ahead]:
        if begun := _ahead.pop(each, None):
            begun.__exit__(None, None, None)


class VirtualWriter:
    """Makes the virtual sensor at `path`. Use it as a context manager, then `create`, fill, `commit`.

    Without `create` the result is a folder of the files that were written to `partial`, and not a sensor.

    When the block ends without `commit`, by an error or an interrupt, everything that was written is removed, and our
    older result stays as it was.

    Args:
        stamps: names of empty files that are published with the result: they show that all others are complete.
        declared: names that the step of the result declares. Only these, names of the new result, channels and
            stamps are removed from an older result; None = all that its provenance lists.
        wait: for another process that makes the same; False = that is an error.
    """

    def __init__(
        self, path: Path, stamps: Iterable[str] = (), declared: Collection[str] | None = None, *, wait: bool = True
    ) -> None:
        self.path = path
        self.stamps = tuple(stamps)
        self.declared = declared
        self.specs: dict[str, ChannelSpec] = {}
        self.before: dict[str, Any] | None = None  #: provenance of the result of when the lock was asked for.
        self.attempt = Attempt(path, wait)
        self._length = 0
        self._streams: dict[str, EncodedWriter] = {}

    @property
    def partial(self) -> Path:
        """Scratch folder. Files in it are published with the channels."""
        return self.attempt.folder

    def __enter__(self) -> Self:
        if ahead := _ahead.pop(self.path, None):
            self.attempt, self.before = ahead.attempt, ahead.before
            return self
        if problem := in_the_way(self.path):
            raise InTheWayError(problem)
        self.before = read_provenance(self.path)
        self.attempt.begin(partial(discard, self.path))
        try:
            if problem := in_the_way(self.path):
                raise InTheWayError(problem)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def create(self, specs: dict[str, ChannelSpec], length: int) -> None:
        """Begin the channels. Raw ones get their full size and are filled in any order; others are appended to."""
        self._refuse_strangers(specs)
        self.specs, self._length = specs, length
        for name, spec in specs.items():
            if spec.format == "raw":
                allocate(self._new(name), spec, length)
            else:
                stream = create_channel(self._new(name), spec)
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
        self._new(name).write_bytes(content)

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
                raise RoverError(f"{path}: has {counted(count, 'sample')} of {self._length}")
        for name in self.stamps:
            self.add_file(name, b"")
        listed = sorted(os.listdir(self.partial))
        self._refuse_strangers(listed)
        content = {"made_by": MADE_BY, "sensor": self.path.name, **provenance, "files": listed}
        self.add_file(PROVENANCE, (json.dumps(content, indent=2) + "\n").encode())
        if self.specs:
            write_meta(self.partial, self.specs)
        unsynced = [name for name in (*listed, PROVENANCE) if name not in self._streams]
        with ThreadPoolExecutor() as pool:  # disks are faster with several requests at once
            list(pool.map(sync_file, (self.partial / name for name in unsynced)))
        sync_file(self.partial)
        switch(self.partial, self.path, self._ours(listed), PROVENANCE, (*self.stamps, META))
        sync_new_name(self.path)

    def _new(self, name: str) -> Path:
        """The path of a new file in the scratch folder. Raises RoverError for a name that leads out of it."""
        if not is_plain(name):
            raise RoverError(f"{self.path}: {short(name)} is no name of a file; nothing is written there")
        return self.partial / name

    def _refuse_strangers(self, names: Iterable[str]) -> None:
        """Raise InTheWayError when somebody else added a file with one of these names to our older result."""
        ours = files_of(read_provenance(self.path))
        for name in names:
            if name not in ours and os.path.lexists(self.path / name):
                raise InTheWayError(
                    f"{self.path / name}: stands where a channel belongs and was not made by {MADE_BY}. Move it away"
                )

    def _ours(self, names: Iterable[str]) -> set[str]:
        """Names in our older result that may be removed: listed ones of its step, of its channels and of `names`."""
        listed = files_of(read_provenance(self.path))
        if self.declared is not None:
            known = {*self.declared, *names}
            with contextlib.suppress(FormatError):
                known |= read_meta(self.path).keys()
            listed = {name for name in listed if name in known or is_stamp(name)}
        return {name for name in (*listed, META, PROVENANCE) if os.path.lexists(self.path / name)}

    def __exit__(self, *_: object) -> None:
        for stream in self._streams.values():
            with contextlib.suppress(Exception):  # its file is removed next
                stream.close()
        discard(self.path, self.partial)
        self.attempt.end()
        with contextlib.suppress(OSError):  # it succeeds only when the directory is empty
            os.rmdir(self.path)
