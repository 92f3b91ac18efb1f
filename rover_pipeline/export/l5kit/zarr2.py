"""One-dimensional arrays of records as zarr, version 2, stores them in a folder: `.zarray`, and a file for each chunk.

zarr 3 can neither write nor read records that hold arrays, and older versions of it need an older NumPy, so the few
files are written here. The compressor is that of l5kit, Blosc with LZ4, which imagecodecs has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np

from rover_pipeline.errors import FormatError, RoverError
from rover_pipeline.format.files import read_bounded
from rover_pipeline.format.texts import read_json

#: What l5kit compresses chunks with. Layout.
_COMPRESSOR = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
#: Maximum size of a chunk, packed or not. That of the largest array here has 2.5 MB. Schedule.
_MAX_CHUNK = 1 << 28


class ArrayWriter:
    """Appends records to a new array, chunk by chunk. Closing it writes `.zarray`.

    Args:
        folder: of the array, new.
        dtype: of the records, little endian.
        chunk: number of records in a chunk.
    """

    def __init__(self, folder: Path, dtype: np.dtype, chunk: int) -> None:
        folder.mkdir()
        self.count = 0
        self._folder, self._chunk = folder, np.zeros(chunk, dtype)

    def append(self, records: np.ndarray) -> None:
        """Add records, (N,)."""
        size = len(self._chunk)
        while len(records):
            begin = self.count % size
            part, records = records[: size - begin], records[size - begin :]
            self._chunk[begin : begin + len(part)] = part
            self.count += len(part)
            if self.count % size == 0:
                self._flush()

    def close(self) -> None:
        """Write what is left, and the description."""
        if self.count % len(self._chunk):
            self._flush()
        description = {
            "chunks": [len(self._chunk)],
            "compressor": _COMPRESSOR,
            "dtype": _describe(self._chunk.dtype),
            "fill_value": None,
            "filters": None,
            "order": "C",
            "shape": [self.count],
            "zarr_format": 2,
        }
        text = json.dumps(description, indent=4, sort_keys=True)
        (self._folder / ".zarray").write_text(text, encoding="utf-8")

    def _flush(self) -> None:
        """Write the chunk. Every chunk is stored at its full length, the last one with zeros at its end."""
        number = (self.count - 1) // len(self._chunk)
        # Blosc shuffles bytes by the size of an item, which it takes from the type, if that is no structure.
        items = self._chunk.view(f"V{self._chunk.dtype.itemsize}")
        data = imagecodecs.blosc_encode(items, level=5, compressor="lz4", shuffle=1, numthreads=1)  # type: ignore[arg-type]
        (self._folder / str(number)).write_bytes(data)
        self._chunk[:] = np.zeros((), self._chunk.dtype)


def read_array(folder: Path, dtype: np.dtype) -> Iterator[np.ndarray]:
    """The records of an array, chunk by chunk.

    Raises:
        FormatError: the array is not there, has other records, or a chunk of it is missing or damaged.
    """
    description = _description(folder)
    if description.get("dtype") != _describe(dtype):
        raise FormatError(f"{folder}: .zarray describes other records than those of l5kit 1.5; export it again")
    compressor = description.get("compressor")
    if compressor is not None and (not isinstance(compressor, dict) or compressor.get("id") not in ("blosc", "zlib")):
        raise FormatError(f"{folder}: is packed by {str(compressor)[:60]}, which is neither blosc nor zlib")
    try:
        (count,), (chunk,) = description["shape"], description["chunks"]
        count, chunk = int(count), int(chunk)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{folder}: .zarray gives no shape and chunks of one dimension") from error
    size = chunk * dtype.itemsize
    if not 0 < size <= _MAX_CHUNK or count < 0:
        raise FormatError(f"{folder}: .zarray gives chunks of {chunk} records, and {count} records")
    for number in range(-(-count // chunk)):
        data = _unpack(folder / str(number), compressor, size)
        yield np.frombuffer(data, dtype)[: count - number * chunk]


def array_length(folder: Path) -> int:
    """Number of records of an array. Raises FormatError when it is not there."""
    try:
        return int(_description(folder)["shape"][0])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise FormatError(f"{folder}: .zarray gives no shape") from error


def _unpack(path: Path, compressor: dict[str, Any] | None, size: int) -> bytes:
    """The bytes of a chunk, which must be `size`."""
    try:
        data = read_bounded(path, _MAX_CHUNK, "a chunk")
        if compressor is not None:
            decode = imagecodecs.blosc_decode if compressor["id"] == "blosc" else imagecodecs.zlib_decode
            # The size is bounded by the output that is given, whatever the file claims.
            data = bytes(decode(data, out=bytearray(size)))
    except RoverError:
        raise
    except OSError as error:
        raise FormatError(f"{path}: a chunk cannot be read: {error.strerror}; export the dataset again") from error
    except Exception as error:  # the codecs raise errors of their own kinds
        raise FormatError(f"{path}: the chunk cannot be unpacked ({error}); export the dataset again") from error
    if len(data) != size:
        raise FormatError(f"{path}: the chunk has {len(data):,} bytes instead of {size:,}; export the dataset again")
    return data


def _description(folder: Path) -> dict[str, Any]:
    try:
        content = read_json(folder / ".zarray")
    except OSError as error:
        raise FormatError(f"{folder}: is no array of zarr 2: .zarray: {error.strerror}") from error
    if not isinstance(content, dict) or content.get("zarr_format") != 2:
        raise FormatError(f"{folder}: is no array of zarr, version 2")
    return content


def _describe(dtype: np.dtype) -> list[list[Any]]:
    """The type of records as `.zarray` gives it: name, code and, for an array in the record, its shape."""
    fields = []
    for name in dtype.names or ():
        base, shape = dtype[name].base, dtype[name].shape
        fields.append([name, base.str, list(shape)] if shape else [name, base.str])
    return fields
