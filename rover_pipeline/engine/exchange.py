"""Arrays that mapped functions of one step hand to one another, in whatever process or machine they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from rover_pipeline.errors import RoverError
from rover_pipeline.format.files import opened_file


@dataclass(frozen=True)
class Exchange:
    """Lists of arrays by key. Can be sent to other processes.

    Attributes:
        folder: holds the arrays as files, in a file system that all workers share.
    """

    folder: Path

    def put(self, key: str, arrays: Sequence[np.ndarray]) -> None:
        """Keep arrays under a key, which is also a file name. Only one function may put under a key."""
        np.savez(self._path(key), *arrays)

    def get(self, key: str) -> list[np.ndarray]:
        """The arrays under a key, in their order.

        Raises:
            FileNotFoundError: nothing was put under the key.
            RoverError: the file cannot be read back.
        """
        try:
            with opened_file(self._path(key)) as file, np.load(file) as arrays:
                return [arrays[name] for name in arrays.files]
        except (BadZipFile, EOFError, ValueError) as error:
            raise RoverError(f"{self._path(key)}: cannot be read back ({error}); run the same command again") from error

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.npz"
