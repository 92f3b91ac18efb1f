"""What the fault campaign disturbs: every step and product, and everything else that writes."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.instances import instances
from rover_pipeline.engine.together import ResultRequest, run_together
from rover_pipeline.errors import FormatError
from rover_pipeline.export import ExportOptions, export
from rover_pipeline.format.rig import Rig
from rover_pipeline.importers.clouds import import_clouds
from rover_pipeline.importers.dca1000 import import_dca1000
from rover_pipeline.importers.kitti import import_kitti
from rover_pipeline.importers.ouster import import_ouster
from rover_pipeline.importers.pictures import import_pictures
from rover_pipeline.importers.ros.record import import_ros
from rover_pipeline.importers.velodyne import import_velodyne
from rover_pipeline.report.fleet import write_fleet
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import TABLE, find_step
from tests.campaign.datasets import FORMATS, dataset_trace, make_dataset
from tests.campaign.fuzz_inputs import write_clouds, write_drive
from tests.conftest import CHECKOUT
from tests.importers.bags import rig, write_capture, write_mcap
from tests.kit import small_trace
from tests.mapping.test_steps import trace_with_odometry
from tests.radar.scenes import write_targets
from tests.test_virtual_sensors import OPTIONS, SENSORS, trace_for

#: Real captures, as in `tests/conftest.py`.
CAPTURES = Path(os.environ.get("ROVER_PIPELINE_DATA", CHECKOUT.parent / "shared" / "data"))
#: Radar products that one pass over the frames makes.
IN_ONE_PASS = ("_radar_range_doppler", "_radar_range_azimuth", "_radar_spectrum", "_radar_points")
OLDER_STAMP = ".options-older"
IMUS = ("imu", "imu_cabin")
#: Results that read several sensors of a kind -> the step, and its options.
OF_A_CAR: dict[str, tuple[str, dict[str, object]]] = {
    "_bev": ("_bev", {}),
    "_radar_odom": ("_radar_odom", {}),
    "_map": ("_map", {"every": 4, "resolution": 0.4, "voxel": 1.0}),
    "_lidar_rear_points": ("_lidar_points", {"compensate": True}),
    "_odom": ("_odom", {"passes": 3, "points": 500}),
}


class Subject(NamedTuple):
    """Something that writes a result.

    Attributes:
        prepare: makes the folder in which the work is done, with all that is read.
        run: does the work in that folder, with the name of a stamp where results have one, on so many threads.
        results: what is made, below the folder. Each is published alone.
        replaces: whether an older result is replaced; otherwise it would be in the way.
        tells: whether a run that ends with an error still makes a result, which says what could not be read.
        shared: a file of the trace that the work adds to, after the result is there. It is as it was, or as it becomes.
    """

    prepare: Callable[[Path], object]
    run: Callable[[Path, str, int], object]
    results: tuple[str, ...]
    replaces: bool = True
    tells: bool = False
    shared: str = ""


def subjects() -> dict[str, Subject]:
    """All subjects by name. Those that need the real captures are left out where there are none."""
    steps = {name: _step(name, functools.partial(trace_for, name), OPTIONS.get(name, {})) for name in SENSORS}
    steps["_map"] = _step("_map", trace_with_odometry, {"every": 1, "resolution": 0.2, "voxel": 0.5})
    steps["_report"] = _step("_report", small_trace, {"instants": 0})
    assert set(TABLE) - set(steps) <= {"_camera_model"}, "a step is missing"  # it needs a model of the user
    steps |= {f"{name} of a car": _step(name, _car, options, product) for name, (product, options) in OF_A_CAR.items()}
    others = {
        "page of many": Subject(_recordings, _page_of_many, ("all/_report",), tells=True),
        "simulate": Subject(
            Path.mkdir,
            lambda folder, *_: simulate(folder / "new", preset="tiny", duration=0.5, seed=1, threads=1),
            ("new",),
            replaces=False,
        ),
        "radar in one pass": Subject(_radar, _one_pass, tuple(f"rec/{name}" for name in IN_ONE_PASS)),
        **{name: _export(name) for name in ("tum", "kitti-poses", "ply", "pcd")},
        **{f"dataset {name}": _dataset(name) for name in FORMATS},
        "import clouds": Subject(write_clouds, _import_clouds, ("new",), replaces=False),
        "import into": Subject(
            _trace_and_clouds, _import_into, ("rec/lidar",), replaces=False, shared="rec/config.yaml"
        ),
        "import pictures": Subject(write_clouds, _import_pictures, ("new",), replaces=False),
        "import kitti": Subject(
            lambda folder: write_drive(folder / "day" / "drive"), _import_kitti, ("new",), replaces=False
        ),
        "import ros": Subject(_bag, _import_ros, ("new",), replaces=False),
        "import velodyne": Subject(_capture, _import_velodyne, ("new",), replaces=False),
    }
    if CAPTURES.is_dir():
        others["import ouster"] = Subject(_ouster, _import_ouster, ("new",), replaces=False)
        others["import dca1000"] = Subject(_dca1000, _import_dca1000, ("new",), replaces=False)
    return {**steps, **others}


@functools.cache
def _made_car() -> Path:
    """A car with several sensors of each kind, and what its other results are made from."""
    folder = tempfile.TemporaryDirectory(prefix="car-")
    atexit.register(folder.cleanup)
    trace, sensors = Path(folder.name) / "rec", ("lidar_top", "lidar_rear", "radar_front", "radar_left", *IMUS)
    simulate(trace, preset="car", duration=1.2, seed=1, threads=1, sensors=sensors)
    for step in ("_lidar_image", "_odom", "_radar_points", "_radar_velocity", "_imu_filtered"):
        for name in instances(step, Rig(trace)):
            run_step(find_step(step), trace, name, Request())
    return trace


def _car(trace: Path) -> None:
    shutil.copytree(_made_car(), trace)


def _step(name: str, prepare: Callable[[Path], object], options: Mapping[str, object], product: str = "") -> Subject:
    def run(folder: Path, stamp: str, threads: int) -> None:
        run_step(find_step(product or name), folder / "rec", name, Request(options), threads=threads, stamps=(stamp,))

    return Subject(lambda folder: prepare(folder / "rec"), run, (f"rec/{name}",))


def _radar(folder: Path) -> None:
    write_targets(small_trace(folder / "rec", sensors=("radar",)))


def _one_pass(folder: Path, stamp: str, threads: int) -> None:
    asked = [ResultRequest(find_step(name), name, Request(OPTIONS.get(name, {})), (stamp,)) for name in IN_ONE_PASS]
    outcomes = run_together(asked, folder / "rec", threads=threads)
    for error in outcomes.values():
        if isinstance(error, Exception):
            raise error  # as the command ends with 1


def _recordings(folder: Path) -> None:
    for number in range(2):
        trace = small_trace(folder / "all" / f"rec{number}", 2, seed=number)
        run_step(find_step("_report"), trace, "_report", Request({"instants": 0}))


def _page_of_many(folder: Path, _stamp: str, _threads: int) -> None:
    _, rows = write_fleet([str(folder / "all")])
    if failed := [row.problem for row in rows if row.summary is None]:
        raise FormatError("; ".join(failed))  # as the command ends with 1


def _export(name: str) -> Subject:
    def run(folder: Path, _stamp: str, _threads: int) -> None:
        sensor = "_odom" if name in ("tum", "kitti-poses") else None
        export(name, [str(folder / "rec")], folder / "new" / "out", ExportOptions(sensor=sensor, threads=1))

    return Subject(lambda folder: trace_with_odometry(folder / "rec"), run, ("new/out",), replaces=False)


def _dataset(name: str) -> Subject:
    def run(folder: Path, _stamp: str, _threads: int) -> None:
        make_dataset(name, folder / "rec", folder / "new")

    return Subject(lambda folder: dataset_trace(folder / "rec"), run, ("new",), replaces=False)


def _ouster(folder: Path) -> None:
    folder.mkdir(parents=True)
    for path in (CAPTURES / "ouster").glob("OS-0-32-U1*"):
        shutil.copy(path, folder)


def _import_ouster(folder: Path, _stamp: str, _threads: int) -> None:
    import_ouster(next(folder.glob("*.pcap")), folder / "new")


def _dca1000(folder: Path) -> None:
    shutil.copytree(CAPTURES / "radar_iwr6843_3tx4rx", folder)


def _import_dca1000(folder: Path, _stamp: str, _threads: int) -> None:
    import_dca1000(folder / "adc_data.bin", folder / "mmwaveDevice.mmwave.json", folder / "new")


def _import_clouds(folder: Path, _stamp: str, _threads: int) -> None:
    import_clouds(folder / "npz", folder / "new")


def _trace_and_clouds(folder: Path) -> None:
    write_clouds(folder / "clouds")
    small_trace(folder / "rec", 2, sensors=("radar",))


def _import_into(folder: Path, _stamp: str, _threads: int) -> None:
    import_clouds(folder / "clouds" / "npz", folder / "rec")


def _import_pictures(folder: Path, _stamp: str, _threads: int) -> None:
    import_pictures(folder / "pictures", folder / "new")


def _drive(folder: Path) -> None:
    write_drive(folder / "day" / "drive")


def _import_kitti(folder: Path, _stamp: str, _threads: int) -> None:
    import_kitti(folder / "day" / "drive", folder / "new")


def _bag(folder: Path) -> None:
    folder.mkdir()
    write_mcap(folder / "rig.mcap", rig(3))


def _import_ros(folder: Path, _stamp: str, _threads: int) -> None:
    import_ros([folder / "rig.mcap"], folder / "new", say=lambda _: None)


def _capture(folder: Path) -> None:
    folder.mkdir()
    write_capture(folder / "lidar.pcap")


def _import_velodyne(folder: Path, _stamp: str, _threads: int) -> None:
    import_velodyne(folder / "lidar.pcap", folder / "new")
