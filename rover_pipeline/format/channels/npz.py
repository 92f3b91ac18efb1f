"""`npz`: a folder of numpy archives, each with one array called `data`."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from rover_pipeline.errors import naming
from rover_pipeline.format.channels.blob import BlobChannel, BlobWriter

_MEMBER = "data.npy"
_COMPRESSION = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class NpzChannel(BlobChannel):
    suffix = "npz"

    def _decode(self, path: Path) -> np.ndarray:
        # Unlike numpy.load, compare the header with meta.json before memory is allocated for the array.
        try:
            with zipfile.ZipFile(io.BytesIO(self._stored(path))) as archive, archive.open(_MEMBER) as member:
                if archive.getinfo(_MEMBER).compress_type not in _COMPRESSION:
                    raise ValueError("is compressed in a way that numpy does not use")
                shape, fortran, dtype = _header(member)
                if shape != self.spec.shape or dtype != self.spec.dtype:
                    raise ValueError(f"holds {list(shape)} of {dtype}, not {list(self.spec.shape)} of {self.spec.type}")
                data = member.read(self.spec.sample_bytes)
                if len(data) < self.spec.sample_bytes or member.read(1):
                    raise ValueError(f"holds other than {self.spec.sample_bytes:,} bytes of data")
        except KeyError as error:
            raise ValueError("holds no array named `data`") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise ValueError(f"is not a whole archive: {error}") from error
        return np.frombuffer(data, self.spec.dtype).reshape(shape, order="F" if fortran else "C")


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    # Headers of later versions, which exist for long names of columns, may claim gigabytes.
    if np.lib.format.read_magic(member) != (1, 0):
        raise ValueError("holds no plain array (npy format 1.0)")
    # A damaged header can raise any error of Python's parser.
    with naming("holds an array without a whole header", Exception, made=ValueError):
        return np.lib.format.read_array_header_1_0(member)


class NpzWriter(BlobWriter):
    suffix = "npz"

    @staticmethod
    def encode(sample: np.ndarray) -> bytes:
        # numpy gives the members of an archive a fixed date, so that the same sample gives the same bytes.
        buffer = io.BytesIO()
        np.savez_compressed(buffer, data=sample)
        return buffer.getvalue()
