"""Arguments of `import ros` and `import velodyne`. The modules that do the work are loaded when they are called."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rover_pipeline.lookup import load


def add_parsers(makers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both commands to those of `import`."""
    ros = makers.add_parser("ros", help="ROS 1 and ROS 2: .bag, .mcap and .db3 files, folders of rosbag2")
    ros.add_argument("bags", nargs="+", type=Path, metavar="BAG")
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
    ros.set_defaults(run=_import_ros)


def _import_ros(arguments: argparse.Namespace) -> int:
    options = load("rover_pipeline.importers.ros.record:Options")(
        arguments.topic, arguments.times, arguments.partial, arguments.doppler == "approaching"
    )
    samples = load("rover_pipeline.importers.ros.record:import_ros")(
        arguments.bags, arguments.out, options, lambda text: print(text, file=sys.stderr, flush=True)
    )
    print(f"{arguments.out}: {', '.join(f'{count} of {sensor}' for sensor, count in samples.items())}")
    return 0
