"""What the steps of one job share: frames that are read, and what one of them has computed from a frame."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, TypeVar

import numpy as np

from rover_pipeline.errors import RoverError
from rover_pipeline.format.files import opened_file

T = TypeVar("T")


class Shared:
    """What has been computed from one call's frames, by steps that are made together.

    A step that is made alone is given none. Its result must be the same bytes with and without. What is taken from here
    belongs to all steps of the pass: nobody may change it.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns, called by the first step that asks for this key.

        Args:
            key: says what is computed and from which options, completely: other steps with an equal one get the same.
        """
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]


# Arrays that mapped functions of one step hand to one another, in whatever process or machine they run.


@dataclass(frozen=True)
class Exchange:
    """Lists of arrays by key. Can be sent to other processes."""

    folder: Path  #: holds the arrays as files, in a file system that all workers share.

    def part(self) -> Exchange:
        """A store within this one, which is deleted when nobody in this process refers to it any more."""
        part = Exchange(Path(mkdtemp(dir=self.folder)))
        weakref.finalize(part, rmtree, part.folder, ignore_errors=True)
        return part

    def put(self, key: str, arrays: Sequence[np.ndarray]) -> None:
        """Keep arrays under a key, which is also a file name. Only one function may put under a key."""
        with self._path(key).open("wb") as file:
            for array in (np.array(len(arrays)), *arrays):
                np.save(file, array)

    def once(self, key: str, make: Callable[[], Sequence[np.ndarray]]) -> list[np.ndarray]:
        """The arrays under a key, which the first who asks for them makes."""
        with suppress(FileNotFoundError, RoverError):  # who was killed has left a part of them
            return self.get(key)
        self.put(key, arrays := list(make()))
        return arrays

    def get(self, key: str) -> list[np.ndarray]:
        """The arrays under a key, in their order.

        Raises:
            FileNotFoundError: nothing was put under the key.
            RoverError: the file cannot be read back.
        """
        try:
            with opened_file(self._path(key)) as file:
                return [np.load(file) for _ in range(int(np.load(file)))]
        except (EOFError, ValueError) as error:
            raise RoverError(f"{self._path(key)}: cannot be read back ({error}); run the same command again") from error

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.npy"
