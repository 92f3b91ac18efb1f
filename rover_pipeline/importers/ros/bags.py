"""Which files a recording consists of: a bag, several, or a folder of rosbag2."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from rover_pipeline.errors import FormatError, naming, short
from rover_pipeline.format.files import is_plain, opened_regular, read_exactly
from rover_pipeline.format.texts import read_yaml
from rover_pipeline.importers.ros import database, mcap, rosbag1
from rover_pipeline.importers.ros.files import BagFile, Message
from rover_pipeline.importers.times import natural_order

#: Bytes after which the progress is reported again. Schedule.
_ADVANCE_BYTES = 1 << 22
_SUFFIXES = (".bag", ".db3", ".mcap", ".active", ".zstd", ".zst", ".gz", ".bz2", ".lz4")
#: First bytes of bags -> their readers.
_KINDS: dict[bytes, Callable[[Path, bool, bool], BagFile]] = {
    rosbag1.MAGIC: rosbag1.Rosbag1, mcap.MAGIC: mcap.Mcap, database.MAGIC: database.Database
}  # fmt: skip
#: First bytes of what is no bag, and what helps.
_STRANGERS = {
    b"#ROSBAG V1": "is a bag of the old format 1; `rosbag fix` makes one of format 2.0",
    b"\x28\xb5\x2f\xfd": "is compressed by zstd as a whole; `unzstd` unpacks it",
    b"\x1f\x8b": "is compressed by gzip; `gunzip` unpacks it",
    b"BZh": "is compressed by bzip2 as a whole; `bunzip2` unpacks it",
    b"\x04\x22\x4d\x18": "is compressed by lz4 as a whole; `unlz4` unpacks it",
}


class Recording:
    """The files of a recording, in the order of their first messages. Raises FormatError where a path is no bag, or
    cannot be read.

    Args:
        paths: files and folders, as the user gave them.
        partial: use the messages before damage, instead of refusing the file.
        scratch: an empty file that belongs to the caller, for what would take long to be decompressed twice (bz2).
    """

    def __init__(self, paths: Sequence[Path], partial: bool, scratch: IO[bytes] | None = None) -> None:
        files: list[BagFile] = []
        for path in paths:
            files += _folder(path, partial) if path.is_dir() else [_open(path, partial)]
        for file in files:
            file.scratch = scratch
        names = [os.path.realpath(file.path) for file in files]
        for name in names:
            if names.count(name) > 1:
                raise FormatError(f"{name}: is given twice; give each bag once")
        self.files = (
            files
            if len(files) == 1
            else sorted(files, key=lambda file: next((message.time for message in file.messages(heads=True)), 0))
        )
        self.size = sum(file.size for file in files)

    def messages(
        self,
        heads: bool = False,
        wanted: Collection[str] | None = None,
        advance: Callable[[int], object] = lambda size: None,
    ) -> Iterator[Message]:
        """Messages of all files. See `BagFile.messages`. `advance` is called with the number of bytes that were read
        since its last call."""
        before = done = 0
        for file in self.files:
            for message in file.messages(heads, wanted):
                yield message
                if before + file.position - done > _ADVANCE_BYTES:
                    advance(before + file.position - done)
                    done = before + file.position
            before += file.size
        advance(before - done)

    def problems(self) -> list[str]:
        return [f"{file.path}: {file.problem}" for file in self.files if file.problem]


def _open(path: Path, partial: bool, compressed: bool = False) -> BagFile:
    with naming(path, OSError), opened_regular(path) as descriptor:
        begin = read_exactly(descriptor, 16, 0)
    for magic, kind in _KINDS.items():
        if begin.startswith(magic):
            return kind(path, partial, compressed)
    for magic, what in _STRANGERS.items():
        if begin.startswith(magic):
            raise FormatError(f"{path}: {what}")
    held = f"begins with {begin[:8].hex(' ')}" if begin else "is empty"
    raise FormatError(
        f"{path}: {held}: neither a ROS 1 bag, nor an MCAP file, nor a database of rosbag2; copy it again"
    )


def _folder(folder: Path, partial: bool) -> list[BagFile]:
    """The files of a folder of rosbag2, which its `metadata.yaml` lists if there is one."""
    metadata = folder / "metadata.yaml"
    if metadata.exists():
        content = read_yaml(metadata)
        remedy = "; give the .db3 or .mcap files themselves"
        with naming(f"{metadata}: lists no files", KeyError, TypeError, AttributeError, remedy=remedy):
            described: dict[str, Any] = content["rosbag2_bagfile_information"]
            names = [str(name) for name in described["relative_file_paths"]]
            mode = str(described.get("compression_mode") or "").lower()
        # Early versions of rosbag2 list the files with the name of the folder.
        names = [name.removeprefix(f"{folder.name}/") for name in names]
        for name in names:
            if not is_plain(name):
                raise FormatError(f"{metadata}: lists the file {short(name)}, which is outside of the folder")
            if not (folder / name).exists():
                raise FormatError(
                    f"{folder / name}: is missing, and metadata.yaml lists it; give the files that are there"
                )
        return [_open(folder / name, partial, mode == "message") for name in names]
    with naming(folder, OSError):
        bags = sorted((path for path in folder.iterdir() if path.name.endswith(_SUFFIXES)), key=natural_order)
    if not bags:
        inner = next((each for each in sorted(folder.iterdir()) if (each / "metadata.yaml").is_file()), None)
        hint = f"; give the folder {inner}" if inner else ""
        raise FormatError(f"{folder}: holds neither a metadata.yaml nor any .bag, .db3 or .mcap file{hint}")
    return [_open(path, partial) for path in bags]
