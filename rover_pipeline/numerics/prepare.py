"""Compiles the kernels of the default outputs before they are called: `python -m rover_pipeline.numerics.prepare`.

`kernels.json` lists them with the types of their arguments. A run of the demo with an empty folder as
`NUMBA_CACHE_DIR=CACHE` finds them all; then
`python -m rover_pipeline.numerics.prepare --list CACHE > rover_pipeline/numerics/kernels.json` writes the list again. A
kernel that is not listed is compiled where it is first called.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from rover_pipeline.numerics.compiled import cache_folder, compile_for, listed

_PACKAGE = "rover_pipeline"
_LIST = Path(__file__).with_name("kernels.json")
#: File in the cache of a room whose listed kernels are compiled: with other sources the room has another cache.
_MARK = ".prepared"
#: Rooms in the order in which a run needs them. With two processors the radar's steps begin when all this is done.
ROOMS = ("simulate", "clocks", "odometry", "occupancy", "numerics", "mapping", "radar")
#: The kernels of `simulate` that are compiled here: those of surfaces in pictures. The demo's simulation compiles its
#: other kernels meanwhile, and comes to these after those of the lidar. So both end at about the same time.
OF_SIMULATE = ("_noise_along", "shade_along", "look_along", "_shade_sky")


def prepare(rooms: Iterable[str] = ROOMS) -> list[str]:
    """Compile the listed kernels of some rooms, or load them where they are compiled.

    Returns:
        Kernels that could not be compiled for the listed types, and why. They are compiled where they are called.
    """
    kernels, failed = json.loads(_LIST.read_text(encoding="utf-8")), []
    for room in rooms:
        for name, signature in kernels[room]:
            module, _, function = name.partition(":")
            try:
                compile_for(getattr(import_module(f"{_PACKAGE}.{module}"), function), signature)
            except Exception as error:  # a list that is not up to date must not stop a run
                failed.append(f"{name}: {type(error).__name__}: {error}")
    return failed


def listing(cache: Path) -> str:
    """The content of `kernels.json`: every kernel in a cache that one run filled, by room, one in a line."""
    rooms: dict[str, list[Any]] = {room: [] for room in ROOMS}
    for path in sorted(cache.rglob("*.nbi")):
        # A file is named after the module and the function, in a folder of the room and the folders within it.
        *folder, stem = (*path.parent.name.split("-"), path.name.partition("-")[0])
        name = ".".join([*folder, stem]).rpartition(".")
        if folder[0] in rooms and (folder[0] != "simulate" or name[2] in OF_SIMULATE):
            rooms[folder[0]] += [[f"{name[0]}:{name[2]}", signature] for signature in listed(path)]
    lines = (f'"{room}": [\n  ' + ",\n  ".join(map(json.dumps, kernels)) + "\n]" for room, kernels in rooms.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(arguments: Sequence[str]) -> None:
    if arguments:
        sys.stdout.write(listing(Path(arguments[1])))
        return
    marks = [cache_folder(_LIST.parents[1] / room / _MARK) / _MARK for room in ROOMS]
    if all(map(Path.exists, marks)):
        return
    prepare()
    for mark in marks:
        with suppress(OSError):  # another user may own the cache
            mark.touch()


if __name__ == "__main__":
    main(sys.argv[1:])
