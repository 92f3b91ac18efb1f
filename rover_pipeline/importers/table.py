"""The table of all imports. Their modules are loaded when they are called.

Ours are here; an installed package adds its own by an entry point of the group `rover_pipeline.imports`
(`docs/how-to/own-format.md`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rover_pipeline.errors import ConfigError, one_line
from rover_pipeline.format.files import existing
from rover_pipeline.importers.tuning import KITTI_ELEVATION_DEG
from rover_pipeline.lookup import Registry, load


class Argument:
    """An argument of a command: its name, what stands for its value (None = it has none), and its help.

    Args:
        settings: further ones of `argparse.ArgumentParser.add_argument`.
    """

    def __init__(self, name: str, metavar: str | None, help: str | None, **settings: Any) -> None:
        self.name = name
        self.settings = {"help": help, **settings, **({"metavar": metavar} if metavar else {})}
        if metavar is None and not settings:
            self.settings["action"] = "store_true"


@dataclass(frozen=True)
class Importer:
    """An import: `rover-pipeline import NAME SOURCE -o TRACE`."""

    name: str  #: that users type.
    summary: str  #: a line for them.
    #: makes the trace, by its dotted name `package.module:function` or itself. It is given the arguments by their
    #: names, and `out`, and returns how many samples it made: a number, or one for each sensor.
    function: str | Callable[..., Any]
    arguments: tuple[Argument, ...]  #: of the command besides `-o TRACE`. The first one is the source.
    #: what a number counts; "" = the function only says what else to do, and there need be no TRACE.
    counted: str = "samples"

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Let a parser take the arguments and run the import."""
        names = []
        for each in self.arguments:
            names.append(parser.add_argument(each.name, **each.settings).dest)
            if len(names) == 1:
                parser.add_argument("-o", "--out", type=Path, required=self.counted != "", metavar="TRACE")

        def run(arguments: argparse.Namespace) -> int:
            function = load(self.function) if isinstance(self.function, str) else self.function
            made = function(out=arguments.out, **{name: getattr(arguments, name) for name in names})
            counts = made.items() if isinstance(made, dict) else ()
            text = ", ".join(f"{count} of {sensor}" for sensor, count in counts) or f"{made} {self.counted}"
            print(f"{arguments.out}: {text}")
            return 0

        parser.set_defaults(run=run, source=names[0])


def add_parsers(makers: argparse._SubParsersAction[argparse.ArgumentParser], asked: str | None = None) -> None:
    """Add the commands to those of `import`.

    Args:
        asked: the import that is about to run. Others of installed packages are listed and not loaded, and none is
            looked for where it is one of ours, or None.
    """
    for importer in IMPORTS.own.values():
        importer.add_to(makers.add_parser(importer.name, help=importer.summary))
    for name in () if asked is None or asked in IMPORTS.own else IMPORTS.keys() - IMPORTS.own.keys():
        parser = makers.add_parser(name, help="of an installed package")
        if name == asked:
            IMPORTS[name].add_to(parser)


def say(text: str) -> None:
    """Print a line for the user, whose text a capture may have given: names of topics and types."""
    print(one_line(text), file=sys.stderr, flush=True)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _refuse(capture: Path, out: Path | None, *, maker: str, how: str, messages: str) -> None:
    raise ConfigError(
        f"{capture}: no kept Python library decodes captures of {maker} lidars; {how}, record its "
        f"{messages} topic with `ros2 bag record`, and `rover-pipeline import ros BAG -o TRACE` takes that"
    )


_CAPTURE = Argument("capture", "FILE", None, type=existing)
_COMPRESS = Argument("--compress", None, "half the size, twenty times as long")
#: Lidars of Velodyne; `velodyne_packets.NAMES` has the same.
_MODELS = ("vlp16", "hires", "vlp32c", "hdl32e", "hdl64e")
_CALIBRATION = Argument("--calibration", "FILE", "of an HDL-64E: its db.xml or .yaml", type=Path)


def _folder(sample: str, sensor: str) -> tuple[Argument, ...]:
    return (
        Argument("folder", "FOLDER", None, type=existing),
        Argument("--times", "FILE", "a time a line (default: timestamps.txt, times.txt)", type=Path),
        Argument("--rate", "HZ", f"of the {sample}s, where there are no times", type=float),
        Argument("--start", "EPOCH_S", f"time of the first {sample}", type=float),
        Argument("--as", "NAME", f"of the sensor, such as {sensor}_left (default: {sensor})", dest="name"),
    )


_OUSTER = (
    _CAPTURE,
    Argument("--meta", "JSON", "sensor metadata (default: the .json beside FILE)", dest="metadata", type=Path),
    Argument("--start", "EPOCH_S", "time of the first sweep, if FILE has no times", type=float),
    Argument("--sensor", "N", "number from 0 on, or serial number, of one of several (default: all)"),
)
_DCA1000 = (
    Argument("adc", "ADC.bin", None, type=existing),
    Argument("--config", "FILE", "JSON, script or log of mmWave Studio, or a config.yaml", type=Path, required=True),
    Argument("--order", None, "order of words (default: what FILE says)", choices=("iiqq", "qqii")),
    Argument("--device", "BOARD", "for example IWR6843 (default: what FILE says)"),
    Argument("--start", "EPOCH_S", "time of the first frame", type=float),
)
_CLOUDS = (
    *_folder("sweep", "lidar"),
    Argument("--poses", "FILE", "of the lidar, TUM or KITTI: they become _reference", type=Path),
    Argument("--fields", "A,B", "f4 columns of .bin files (default: x,y,z,intensity)", type=_names, default=[]),
    Argument("--compensated", None, "the motion within sweeps is undone already"),
    Argument(
        "--turning",
        None,
        "date points without times by their azimuth: how the beams turn, seen from above, from behind to behind; "
        "the time of a file is when they look ahead",
        choices=("clockwise", "counterclockwise"),
    ),
    _COMPRESS,
)
_PICTURES = (
    *_folder("picture", "camera"),
    Argument("--intrinsics", "JSON", "the lens (default: camera.json in FOLDER)", type=Path),
)
_RAISE = "raise points, whose published elevations are too low; 0 = as published (default: %(default)s)"
_KITTI = (
    Argument("drive", "DRIVE", "the folder with velodyne_points, image_0X and oxts", type=existing),
    Argument("--calib", "DIR", "with calib_*.txt (default: the folder above DRIVE)", type=Path),
    Argument("--camera", "NAME", "one of image_00 to image_03 (default: all that there are)"),
    Argument("--elevation", "DEG", _RAISE, type=float, default=KITTI_ELEVATION_DEG),
    _COMPRESS,
)
_ROS = (
    Argument("bags", "BAG", None, nargs="+", type=existing),
    Argument(
        "--topic",
        "SENSOR=TOPIC",
        "for example lidar=/points, this lidar alone; `lidar=` leaves lidars out (default: all topics of each kind)",
        action="append",
        default=[],
    ),
    Argument(
        "--times",
        None,
        "auto (default): stamps of headers where they are times of measurement, else when messages were recorded",
        choices=("auto", "header", "bag"),
        default="auto",
    ),
    Argument("--partial", None, "use what is whole of a truncated or damaged bag"),
    Argument(
        "--doppler",
        None,
        "how targets move whose Doppler velocity is positive in the bag (default: receding)",
        choices=("receding", "approaching"),
        default="receding",
    ),
    Argument("--model", None, "of a Velodyne, of packets (default: as they say)", choices=_MODELS),
    _CALIBRATION,
    Argument("--meta", "JSON", "metadata of an Ouster, of packets (default: of a topic in the bag)", type=Path),
)
_VELODYNE = (
    _CAPTURE,
    Argument("--model", None, "the lidar (default: as its packets say)", choices=_MODELS),
    _CALIBRATION,
    Argument("--partial", None, "use the packets before the capture is cut off"),
)


def _ours(
    name: str, summary: str, function: str, arguments: tuple[Argument, ...], counted: str = "samples"
) -> Importer:
    return Importer(name, summary, f"rover_pipeline.importers.{function}", arguments, counted)


def _elsewhere(maker: str, how: str, messages: str) -> Importer:
    refuse = partial(_refuse, maker=maker, how=how, messages=messages)
    summary = f"says how captures of {maker} lidars become traces"
    return Importer(maker.lower(), summary, refuse, (Argument("capture", "FILE", None, type=Path),), "")


IMPORTS = Registry(
    "rover_pipeline.imports",
    Importer,
    (
        _ours("ouster", "Ouster .pcap or .osf", "ouster:import_ouster", _OUSTER, "sweeps"),
        _ours("dca1000", "TI radar samples through a DCA1000", "dca1000:import_dca1000", _DCA1000, "frames"),
        _ours(
            "clouds",
            "a folder of .bin, .pcd, .ply or .npz files, one a sweep",
            "clouds:import_clouds",
            _CLOUDS,
            "sweeps",
        ),
        _ours("pictures", "a folder of pictures as the camera", "pictures:import_pictures", _PICTURES, "pictures"),
        _ours("kitti", "a drive of KITTI's raw recordings", "kitti:import_kitti", _KITTI),
        _ours("ros", "ROS 1 and ROS 2: .bag, .mcap and .db3 files, folders of rosbag2", "ros.record:import_ros", _ROS),
        _ours("velodyne", "captures of Velodyne lidars: .pcap", "velodyne:import_velodyne", _VELODYNE, "sweeps"),
        # No kept library on the package index decodes captures of these makers; their drivers for ROS do.
        _elsewhere(
            "Hesai", "let HesaiLidar_ROS_2.0 read it (its config.yaml names a pcap as the source)", "PointCloud2"
        ),
        _elsewhere(
            "Livox",
            "play it to livox_ros_driver2 (`tcpreplay`, which sends its packets again)",
            "CustomMsg or PointCloud2",
        ),
    ),
)
