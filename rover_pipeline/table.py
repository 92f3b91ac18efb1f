"""The table of all virtual sensors: what each needs and makes. Light: it imports no maths.

Rules, validation, documentation and `outputs: default` ask it. A new virtual sensor is an entry of its room's table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rover_pipeline.camera.table import STEPS as CAMERA
from rover_pipeline.engine.step import ATTRIBUTE, EVERY_FILE, SMALL, Run, Shown, Step
from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.imu.table import STEPS as IMU
from rover_pipeline.lidar.table import STEPS as LIDAR
from rover_pipeline.lookup import load_marked
from rover_pipeline.mapping.table import STEPS as MAPPING
from rover_pipeline.objects.table import STEPS as OBJECTS
from rover_pipeline.occupancy.table import STEPS as OCCUPANCY
from rover_pipeline.odometry.table import STEPS as ODOMETRY
from rover_pipeline.options import PageOptions
from rover_pipeline.poses.table import STEPS as POSES
from rover_pipeline.radar.table import STEPS as RADAR
from rover_pipeline.sync.table import STEPS as SYNC

#: The page of a recording, which shows all the others.
REPORT = Step(
    sensor="_report",
    function="rover_pipeline.report.steps:report",
    version=18,
    sections=("report", "outputs"),
    options=PageOptions,
    reads=("config.yaml", "*/ts", "*/valid", EVERY_FILE),
    products={
        "index.html": "A page that shows the recording at a glance; opens without a network.",
        "summary.json": "The figures of the page, as docs/summary.md describes.",
    },
    run=Run(recording=True, threads=2, waits_for_all=True, cost=SMALL),
    shown=Shown(default=True, summary="A page, `index.html`, that shows the recording at a glance, and its figures."),
)

#: Virtual sensors and folders of files, by name.
TABLE: dict[str, Step] = {
    each.sensor: each
    for each in (*LIDAR, *RADAR, *ODOMETRY, *POSES, *SYNC, *OCCUPANCY, *CAMERA, *IMU, *OBJECTS, *MAPPING, REPORT)
}


def asked_outputs(items: Iterable[str], known: Collection[str], more: Iterable[str] = ()) -> dict[str, bool]:
    """The outputs that `outputs` of the configuration asks for, without underscores -> whether by their names.

    Args:
        items: names, `default` or `all`, also several with commas; `-name` leaves one out that an earlier item named.
        known: names that can be asked for.
        more: names of a user's own outputs that belong to `default` too.

    Raises:
        ConfigError: an item is none of these, or nothing is asked for.
    """
    asked: dict[str, bool] = {}
    for name in (name for item in items for name in item.replace(",", " ").split()):
        plain = name.removeprefix("-").removeprefix("_")
        if name == "default":
            ours = [each.sensor[1:] for each in TABLE.values() if each.shown.default]
            asked = dict.fromkeys([*ours, *more], False) | asked
        elif name == "all":
            asked = dict.fromkeys(known, False) | asked
        elif name.startswith("-") and plain in known:
            asked.pop(plain, None)
        elif name in known:
            asked[name] = True
        else:
            option = TABLE[f"_{plain}"].shown.needs_option if f"_{plain}" in TABLE else None
            hint = f"set {option[0]} to {option[1]}" if option else did_you_mean(plain, [*known, "default", "all"])
            raise ConfigError(f"config: outputs: no rule makes {name!r}; {hint}")
    if not asked:
        raise ConfigError("config: outputs: is empty; use `default`, `all` or names")
    return asked


def find_step(name: str) -> Step:
    """A step by the name of its virtual sensor, `_radar_points`, or by the dotted name of a user's function. Raises
    ConfigError where there is none."""
    if name in TABLE:
        return TABLE[name]
    if name.startswith("_"):
        raise ConfigError(f"step {name}: is not in the table; {did_you_mean(name, TABLE)}")
    return load_marked(name, ATTRIBUTE)
