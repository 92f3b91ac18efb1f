"""Arguments of imports, but for those of `import ros` and `import velodyne`. Their modules are loaded when called."""

from __future__ import annotations

import argparse
from pathlib import Path

from rover_pipeline.format.files import existing
from rover_pipeline.lookup import load


def add_parsers(makers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those of `import`."""
    ouster = makers.add_parser("ouster", help="Ouster .pcap or .osf")
    ouster.add_argument("capture", type=existing, metavar="FILE")
    ouster.add_argument("-o", "--out", type=Path, required=True, metavar="TRACE")
    ouster.add_argument(
        "--meta", dest="metadata", type=Path, metavar="JSON", help="sensor metadata (default: the .json beside FILE)"
    )
    ouster.add_argument("--start", type=float, metavar="EPOCH_S", help="time of the first sweep, if FILE has no times")
    ouster.add_argument("--sensor", metavar="N", help="number from 0 on, or serial number, where FILE has several")
    _runs(ouster, "ouster:import_ouster", "capture", "out", "metadata", "start", "sensor", what="sweeps")

    dca1000 = makers.add_parser("dca1000", help="TI radar samples through a DCA1000")
    dca1000.add_argument("adc", type=existing, metavar="ADC.bin")
    dca1000.add_argument(
        "--config",
        type=Path,
        required=True,
        metavar="FILE",
        help="JSON, script or log of mmWave Studio, or a config.yaml",
    )
    dca1000.add_argument("-o", "--out", type=Path, required=True, metavar="TRACE")
    dca1000.add_argument("--order", choices=("iiqq", "qqii"), help="order of words (default: what FILE says)")
    dca1000.add_argument("--device", metavar="BOARD", help="for example IWR6843 (default: what FILE says)")
    dca1000.add_argument("--start", type=float, metavar="EPOCH_S", help="time of the first frame")
    _runs(dca1000, "dca1000:import_dca1000", "adc", "config", "out", "order", "device", "start", what="frames")

    clouds = makers.add_parser("clouds", help="a folder of .bin, .pcd, .ply or .npz files, one a sweep")
    _add_folder(clouds, "sweep")
    clouds.add_argument("--poses", type=Path, metavar="FILE", help="of the lidar, TUM or KITTI: they become _reference")
    clouds.add_argument(
        "--fields", type=_names, default=[], metavar="A,B", help="f4 columns of .bin files (default: x,y,z,intensity)"
    )
    clouds.add_argument("--compensated", action="store_true", help="the motion within sweeps is undone already")
    clouds.add_argument(
        "--turning",
        choices=("clockwise", "counterclockwise"),
        help="date points without times by their azimuth: how the beams turn, seen from above, from behind to behind; "
        "the time of a file is when they look ahead",
    )
    clouds.add_argument("--compress", action="store_true", help="half the size, twenty times as long")
    given = ("folder", "out", "times", "rate", "start")
    more = ("fields", "poses", "compensated", "turning", "compress")
    _runs(clouds, "clouds:import_clouds", *given, *more, what="sweeps")

    pictures = makers.add_parser("pictures", help="a folder of pictures as the camera")
    _add_folder(pictures, "picture")
    pictures.add_argument("--intrinsics", type=Path, metavar="JSON", help="the lens (default: camera.json in FOLDER)")
    _runs(pictures, "pictures:import_pictures", *given, "intrinsics", what="pictures")

    kitti = makers.add_parser("kitti", help="a drive of KITTI's raw recordings")
    kitti.add_argument(
        "drive", type=existing, metavar="DRIVE", help="the folder with velodyne_points, image_0X and oxts"
    )
    kitti.add_argument("-o", "--out", type=Path, required=True, metavar="TRACE")
    kitti.add_argument("--calib", type=Path, metavar="DIR", help="with calib_*.txt (default: the folder above DRIVE)")
    kitti.add_argument("--camera", metavar="NAME", help="image_00 to image_03 (default: image_02, or what there is)")
    text = "raise points, whose published elevations are too low; 0 = as published (default: %(default)s)"
    kitti.add_argument("--elevation", type=float, default=0.205, metavar="DEG", help=text)
    kitti.add_argument("--compress", action="store_true", help="half the size, twenty times as long")
    _runs(kitti, "kitti:import_kitti", "drive", "out", "calib", "camera", "elevation", "compress")


def _add_folder(parser: argparse.ArgumentParser, sample: str) -> None:
    parser.add_argument("folder", type=existing, metavar="FOLDER")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="TRACE")
    parser.add_argument("--times", type=Path, metavar="FILE", help="a time a line (default: timestamps.txt, times.txt)")
    parser.add_argument("--rate", type=float, metavar="HZ", help=f"of the {sample}s, where there are no times")
    parser.add_argument("--start", type=float, metavar="EPOCH_S", help=f"time of the first {sample}")


def _runs(parser: argparse.ArgumentParser, function: str, *given: str, what: str = "") -> None:
    """Let a command run a function of this room with the arguments that it has under the same names.

    Args:
        what: it counts, where it does not say so itself.
    """

    def run(arguments: argparse.Namespace) -> int:
        made = load(f"rover_pipeline.importers.{function}")(**{name: getattr(arguments, name) for name in given})
        text = f"{made} {what}" if what else ", ".join(f"{count} of {name}" for name, count in made.items())
        print(f"{arguments.out}: {text}")
        return 0

    parser.set_defaults(run=run)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
