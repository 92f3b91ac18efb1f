"""Arguments of `import ros` and `import velodyne`. The modules that do the work are loaded when they are called."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rover_pipeline.errors import ConfigError, one_line
from rover_pipeline.format.files import existing
from rover_pipeline.lookup import load

#: Lidars of Velodyne; `velodyne_models.NAMES` has the same.
MODELS = ("vlp16", "hires", "vlp32c", "hdl32e", "hdl64e")

#: Makers whose captures no kept library on the package index decodes -> how their driver for ROS takes one, and the
#: messages of it that `import ros` reads.
DRIVERS = {
    "Hesai": ("let HesaiLidar_ROS_2.0 read it (its config.yaml names a pcap as the source)", "PointCloud2"),
    "Livox": ("play it to livox_ros_driver2 (`tcpreplay`, which sends its packets again)", "CustomMsg or PointCloud2"),
}


def _say(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)  # a bag names topics and types


def add_parsers(makers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both commands to those of `import`."""
    ros = makers.add_parser("ros", help="ROS 1 and ROS 2: .bag, .mcap and .db3 files, folders of rosbag2")
    ros.add_argument("bags", nargs="+", type=existing, metavar="BAG")
    ros.add_argument("-o", "--out", type=Path, required=True, metavar="TRACE")
    ros.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="SENSOR=TOPIC",
        help="for example lidar=/points; `lidar=` leaves the lidar out (default: the best of each kind)",
    )
    ros.add_argument(
        "--times",
        choices=("auto", "header", "bag"),
        default="auto",
        help="auto (default): stamps of headers where they are times of measurement, else when messages were recorded",
    )
    ros.add_argument("--partial", action="store_true", help="use what is whole of a truncated or damaged bag")
    ros.add_argument(
        "--doppler",
        choices=("receding", "approaching"),
        default="receding",
        help="how targets move whose Doppler velocity is positive in the bag (default: receding)",
    )
    ros.add_argument("--model", choices=MODELS, help="of a Velodyne, of packets (default: as they say)")
    ros.add_argument("--calibration", type=Path, metavar="FILE", help="of an HDL-64E: its db.xml or .yaml")
    ros.add_argument(
        "--meta", type=Path, metavar="JSON", help="metadata of an Ouster, of packets (default: of a topic in the bag)"
    )
    ros.set_defaults(run=_import_ros)

    velodyne = makers.add_parser("velodyne", help="captures of Velodyne lidars: .pcap")
    velodyne.add_argument("capture", type=existing, metavar="FILE")
    velodyne.add_argument("-o", "--out", type=Path, required=True, metavar="TRACE")
    velodyne.add_argument("--model", choices=MODELS, help="the lidar (default: as its packets say)")
    velodyne.add_argument("--calibration", type=Path, metavar="FILE", help="of an HDL-64E: its db.xml or .yaml")
    velodyne.add_argument("--partial", action="store_true", help="use the packets before the capture is cut off")
    velodyne.set_defaults(run=_import_velodyne)

    for maker in DRIVERS:
        other = makers.add_parser(maker.lower(), help=f"says how captures of {maker} lidars become traces")
        other.add_argument("capture", type=Path, metavar="FILE")
        other.add_argument("-o", "--out", type=Path, metavar="TRACE")
        other.set_defaults(run=_refuse, maker=maker)


def _import_ros(arguments: argparse.Namespace) -> int:
    options = load("rover_pipeline.importers.ros.record:Options")(
        arguments.topic,
        arguments.times,
        arguments.partial,
        arguments.doppler == "approaching",
        load("rover_pipeline.importers.velodyne:model_of")(arguments.model, arguments.calibration),
        arguments.meta,
    )
    samples = load("rover_pipeline.importers.ros.record:import_ros")(arguments.bags, arguments.out, options, _say)
    print(f"{arguments.out}: {', '.join(f'{count} of {sensor}' for sensor, count in samples.items())}")
    return 0


def _refuse(arguments: argparse.Namespace) -> int:
    how, messages = DRIVERS[arguments.maker]
    raise ConfigError(
        f"{arguments.capture}: no kept Python library decodes captures of {arguments.maker} lidars; {how}, record its "
        f"{messages} topic with `ros2 bag record`, and `rover-pipeline import ros BAG -o TRACE` takes that"
    )


def _import_velodyne(arguments: argparse.Namespace) -> int:
    model = load("rover_pipeline.importers.velodyne:model_of")(arguments.model, arguments.calibration)
    count = load("rover_pipeline.importers.velodyne:import_velodyne")(
        arguments.capture, arguments.out, model, _say, partial=arguments.partial
    )
    print(f"{arguments.out}: {count} sweeps")
    return 0
