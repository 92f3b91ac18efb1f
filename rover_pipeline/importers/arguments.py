"""Arguments of `import clouds`, `import kitti` and `import pictures`. Their modules are loaded when called."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rover_pipeline.format.files import existing
from rover_pipeline.lookup import load


def add_parsers(makers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those of `import`."""
    clouds = makers.add_parser("clouds", help="a folder of .bin, .pcd, .ply or .npz files, one a sweep")
    _add_folder(clouds, "sweep")
    clouds.add_argument("--poses", type=Path, metavar="FILE", help="of the lidar, TUM or KITTI: they become _reference")
    clouds.add_argument("--fields", metavar="A,B", help="f4 columns of .bin files (default: x,y,z,intensity)")
    clouds.add_argument("--compensated", action="store_true", help="the motion within sweeps is undone already")
    clouds.add_argument(
        "--turning",
        choices=("clockwise", "counterclockwise"),
        help="date points without times by their azimuth: how the beams turn, seen from above, from behind to behind; "
        "the time of a file is when they look ahead",
    )
    clouds.add_argument("--compress", action="store_true", help="half the size, twenty times as long")
    clouds.set_defaults(run=_import_clouds)

    pictures = makers.add_parser("pictures", help="a folder of pictures as the camera")
    _add_folder(pictures, "picture")
    pictures.add_argument("--intrinsics", type=Path, metavar="JSON", help="the lens (default: camera.json in FOLDER)")
    pictures.set_defaults(run=_import_pictures)

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
    kitti.set_defaults(run=_import_kitti)


def _add_folder(parser: argparse.ArgumentParser, sample: str) -> None:
    parser.add_argument("folder", type=existing, metavar="FOLDER")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="TRACE")
    parser.add_argument("--times", type=Path, metavar="FILE", help="a time a line (default: timestamps.txt, times.txt)")
    parser.add_argument("--rate", type=float, metavar="HZ", help=f"of the {sample}s, where there are no times")
    parser.add_argument("--start", type=float, metavar="EPOCH_S", help=f"time of the first {sample}")


def _import_clouds(arguments: argparse.Namespace) -> int:
    given = _given(arguments, "times", "rate", "start", "poses", "compensated", "turning", "compress")
    fields = [name.strip() for name in (arguments.fields or "").split(",") if name.strip()]
    make = load("rover_pipeline.importers.clouds:import_clouds")
    count = make(arguments.folder, arguments.out, fields=fields, **given)
    print(f"{arguments.out}: {count} sweeps")
    return 0


def _import_pictures(arguments: argparse.Namespace) -> int:
    given = _given(arguments, "times", "rate", "start", "intrinsics")
    count = load("rover_pipeline.importers.pictures:import_pictures")(arguments.folder, arguments.out, **given)
    print(f"{arguments.out}: {count} pictures")
    return 0


def _import_kitti(arguments: argparse.Namespace) -> int:
    given = _given(arguments, "calib", "camera", "elevation", "compress")
    counts = load("rover_pipeline.importers.kitti:import_kitti")(arguments.drive, arguments.out, **given)
    print(f"{arguments.out}: {', '.join(f'{count} of {name}' for name, count in counts.items())}")
    return 0


def _given(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Arguments of the command that the import has under the same names."""
    return {name: getattr(arguments, name) for name in names}
