"""`python -m tests.campaign coverage`: inputs of every importer and reader that grow by the code that they reach.

A fuzzer (Atheris, `pip install atheris`) mutates the file of a target, and keeps what runs lines that nothing before
ran. What must hold is what `fuzz` asks of a command: one line of error, or a status of 0; no traceback, hang, death or
gigabytes; and `check` accepts what was imported. Commands run in this process and outside of their cages.

What guides it are the modules of the format and of the importers, and what they import, but for those with kernels.

`--keep` adds a choice of what was found to `corpus/`, which `test_choice.py` runs again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import io
import random
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from tests.conftest import CHECKOUT

CORPUS = Path(__file__).with_name("corpus")
#: Bytes of a target's corpus, and of an input in it.
_MOST, _LARGEST = 9000, 6000
#: Name -> the file, and what reads it.
TARGETS: dict[str, tuple[str, str]] = {
    "ouster.json": ("lidar.json", "import ouster"),
    "ouster.pcap": ("lidar.pcap", "import ouster"),
    "dca1000.json": ("studio.mmwave.json", "import dca1000"),
    "dca1000.yaml": ("collection.yaml", "import dca1000"),
    "ros1.bag": ("bags/plain.bag", "import ros"),
    "ros1-lz4.bag": ("bags/lz4.bag", "import ros"),
    "ros2.mcap": ("bags/plain.mcap", "import ros"),
    "ros2-zstd.mcap": ("bags/zstd.mcap", "import ros"),
    "ros2.db3": ("bags/two.db3", "import ros"),
    "velodyne.pcap": ("bags/velodyne.pcap", "import velodyne"),
    "kitti.txt": ("day/calib_velo_to_cam.txt", "import kitti"),
    "kitti-oxts.txt": ("day/2011_09_26_drive_0001_sync/oxts/data/0000000000.txt", "import kitti"),
    "picture.png": ("day/2011_09_26_drive_0001_sync/image_02/data/0000000000.png", "import kitti"),
    "picture.jpg": ("clouds/pictures/0.jpg", "import pictures"),
    "lens.json": ("clouds/pictures/camera.json", "import pictures"),
    "times.txt": ("clouds/pictures/times.txt", "import pictures"),
    "config.yaml": ("config.yaml", "check"),
    "meta.json": ("radar/meta.json", "check"),
    "lzmaf": ("lidar/rng", "_lidar_image"),
    "lzmaf-index": ("lidar/rng_i", "_lidar_image"),
    "lidar.json": ("lidar/lidar.json", "_lidar_image"),
    "radar.json": ("radar/radar.json", "_radar_points"),
    "video.avi": ("camera/video.avi", "_camera_frames"),
    "times": ("imu/ts", "_imu_filtered"),
    "provenance.json": ("_radar_points/provenance.json", "check"),
    "calibration.yaml": ("calibration.yaml", "_radar_range_azimuth calibrated"),
}
_CLOUDS = ("bin", "pcd", "ply", "npz")


class _Target(NamedTuple):
    path: Path
    try_on: Callable[[bytes], str]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign coverage")
    parser.add_argument("targets", nargs="*", help="default: all")
    parser.add_argument("--minutes", type=float, default=10.0, help="of a processor for each target")
    parser.add_argument("--keep", action="store_true", help="add a choice of the inputs to the corpus")
    parser.add_argument("--child", metavar="FOLDER", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.child:
        _fuzz(arguments.targets[0], arguments.minutes, arguments.child)
        return
    failed = 0
    for name in arguments.targets or names():
        with tempfile.TemporaryDirectory(prefix="coverage-") as folder:
            command = [sys.executable, "-m", "tests.campaign", "coverage", name, "--minutes", str(arguments.minutes)]
            done = subprocess.run(
                [*command, "--child", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            findings = sorted(Path(folder).glob("finding-*"))
            lines = [line for line in done.stdout.splitlines() if re.match(r"#\d", line)] or done.stdout.splitlines()[
                -9:
            ]
            print(f"{name}: status {done.returncode}, {len(findings)} findings; {lines[-1]}", flush=True)
            for each in [*findings, *Path(folder).glob("crash-*"), *Path(folder).glob("timeout-*")]:
                print(f"  {each.name}: {each.read_bytes()[:3000]!r}", flush=True)
            failed += done.returncode != 0 or bool(findings)
            if arguments.keep and (Path(folder) / "corpus").is_dir():
                _keep(name, sorted((Path(folder) / "corpus").iterdir(), key=lambda path: path.stat().st_mtime_ns))
    sys.exit(1 if failed else 0)


def names() -> list[str]:
    """All targets, in which each format of point clouds has the files that the test kit writes."""
    return [*TARGETS, *(f"cloud.{kind}" for kind in _CLOUDS)]


def corpus(name: str) -> dict[str, bytes]:
    """The inputs that are kept of a target."""
    path = CORPUS / f"{name}.zip"
    if not path.exists():
        return {}
    with zipfile.ZipFile(path) as archive:
        return {each: archive.read(each) for each in archive.namelist()}


@contextlib.contextmanager
def target(name: str) -> Iterator[_Target]:
    """The file of a target, and a function that tries other content of it and says what is wrong with what happens."""
    from tests.campaign import fuzz
    from tests.campaign.fuzz_inputs import laboratory

    with (
        laboratory() as made,
        patch("rover_pipeline.engine.command.run_apart", lambda work, before, **rest: (before(), work())[1]),
        patch("rover_pipeline.importers.apart.run_apart", lambda work, *rest: work()),
    ):
        file, action = TARGETS.get(name) or (_cloud(made.captures, name), "import clouds")
        path, out = fuzz._folder(made, action) / file, made.trace.parent / "out"
        original, rng = path.read_bytes(), random.Random(0)
        result = out if action.startswith("import") else made.trace / action.partition(" ")[0]

        def try_on(data: bytes) -> str:
            path.write_bytes(data)
            try:
                status, printed, problems = fuzz._call(fuzz._argv(made, file, action, result, rng))
                if not status and result == out:
                    problems += [each for each in fuzz._judge_import(status, out)[1:] if each]
                return "; ".join([*problems, printed]) if problems else ""
            finally:
                if action not in ("check", "info"):
                    fuzz.remove(result)
                path.write_bytes(original)

        yield _Target(path, try_on)


def _cloud(captures: Path, name: str) -> str:
    found = sorted((captures / "clouds").glob(f"*/0.{name.removeprefix('cloud.')}"))
    return str(found[0].relative_to(captures))


def _fuzz(name: str, minutes: float, folder: Path) -> None:
    """Fuzz a target in this process, which ends with it."""
    try:
        import atheris
    except ImportError:
        sys.exit("coverage: needs Atheris: pip install atheris")
    modules = {
        ".".join(path.relative_to(CHECKOUT).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in (CHECKOUT / "rover_pipeline").rglob("*.py")
    }
    # Numba compiles no kernel that is instrumented.
    kernels = [each for each, text in modules.items() if "numerics.compiled import" in text or "_Kernel" in text]
    with atheris.instrument_imports(include=["rover_pipeline"], exclude=kernels):
        import rover_pipeline.cli  # noqa: F401
        import tests.campaign.fuzz  # noqa: F401

        for each in modules:
            if each.startswith("rover_pipeline.importers.") and not each.endswith("__init__"):
                importlib.import_module(each)
    seen: set[str] = set()
    with target(name) as made:
        (folder / "corpus").mkdir()
        (folder / "seeds").mkdir()
        for number, data in enumerate([made.path.read_bytes(), *corpus(name).values()]):
            (folder / "seeds" / str(number)).write_bytes(data)

        def once(data: bytes) -> None:
            problem = made.try_on(data)
            kind = "".join(each for each in problem[-300:] if each.isalpha())
            if problem and kind not in seen and len(seen) < 20:
                seen.add(kind)
                text = f"{problem[-3000:]}\n".encode()
                (folder / f"finding-{len(seen)}").write_bytes(text + data[:100_000])

        limits = [f"-max_total_time={max(1, round(60 * minutes))}", "-timeout=20", "-rss_limit_mb=2500"]
        limits += [f"-artifact_prefix={folder}/", f"-max_len={4 * made.path.stat().st_size + 4096}", "-seed=1"]
        atheris.Setup([sys.argv[0], *limits, str(folder / "corpus"), str(folder / "seeds")], once)
        atheris.Fuzz()


def _keep(name: str, found: list[Path]) -> None:
    """Add inputs to the corpus, evenly chosen from those that were found one after the other."""
    kept = corpus(name)
    candidates = [path for path in found if path.stat().st_size <= _LARGEST]
    for path in candidates[:: max(1, len(candidates) // 40)]:
        data = path.read_bytes()
        kept[hashlib.blake2b(data, digest_size=6).hexdigest()] = data
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_LZMA) as archive:
            for each in sorted(kept):
                archive.writestr(zipfile.ZipInfo(each, (2026, 1, 1, 0, 0, 0)), kept[each], zipfile.ZIP_LZMA)
        if packed.tell() > _MOST:
            break
        CORPUS.mkdir(exist_ok=True)
        (CORPUS / f"{name}.zip").write_bytes(packed.getvalue())
