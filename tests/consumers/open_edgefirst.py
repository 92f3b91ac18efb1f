"""Opens an EdgeFirst dataset with edgefirst-client, polars, pypcd4 and Pillow: `open_edgefirst.py DATASET`.

It runs in an environment of its own, so it imports nothing of ours. Exit status 0 = everything was read.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import edgefirst_client
import numpy as np
import polars
from PIL import Image
from pypcd4 import PointCloud

COLUMNS = {
    "name": polars.String,
    "frame": polars.UInt32,
    "object_id": polars.String,
    "label_index": polars.UInt64,
    "box2d": polars.Array(polars.Float32, 4),
    "box3d": polars.Array(polars.Float32, 6),
    "size": polars.Array(polars.UInt32, 2),
    "pose": polars.Array(polars.Float32, 3),
}


def validate(folder: Path) -> None:
    """The vendor's validator. It ends with 0 even if pictures are missing, so its text is read."""
    client = Path(sys.executable).with_name("edgefirst-client")
    done = subprocess.run([client, "validate-snapshot", folder, "-v"], capture_output=True, text=True, check=False)
    text = (done.stdout + done.stderr).lower()
    bad = ("missing file", "critical error", "not found in container")
    assert done.returncode == 0 and not any(each in text for each in bad), text[-2000:]


def read_table(folder: Path) -> polars.DataFrame:
    path = folder / f"{folder.name}.arrow"
    assert edgefirst_client.read_dataset_metadata(str(path)).schema_version == "2026.04"
    table = polars.read_ipc(path)
    for name, kind in COLUMNS.items():
        assert table.schema[name] == kind, (name, table.schema[name])
    for name in ("label", "group"):
        assert isinstance(table.schema[name], polars.Categorical | polars.Enum), (name, table.schema[name])
    return table


def read_files(folder: Path, table: polars.DataFrame) -> int:
    container, count = folder / folder.name, 0
    for name, frame in table.select("name", "frame").unique().iter_rows():
        stem = str(container / name / f"{name}_{frame:03d}")
        for kind in ("camera.jpeg", "depth.png", "radar.png", "lidar.png", "lidar.jpeg"):
            picture = Image.open(f"{stem}.{kind}")
            picture.load()
            assert kind.endswith("jpeg") or picture.mode.startswith("I;16"), (kind, picture.mode)
        cube = np.asarray(Image.open(f"{stem}.radar.png")).astype("i4") - 32768
        ranges, dopplers = cube.shape[0] // 2, cube.shape[1] // 8
        assert cube.any() and cube.reshape(2, ranges, 4, dopplers, 2).shape[1] == ranges
        assert PointCloud.from_path(f"{stem}.radar.pcd").fields == ("x", "y", "z", "speed", "power", "noise", "rcs")
        assert len(PointCloud.from_path(f"{stem}.lidar.pcd").numpy(("x", "y", "z"))) > 100
        count += 1
    return count


def convert(folder: Path, table: polars.DataFrame) -> int:
    """Boxes survive the client's own converter."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "coco.json"
        count: int = edgefirst_client.arrow_to_coco(str(folder / f"{folder.name}.arrow"), str(out))
        assert len(json.loads(out.read_text())["annotations"]) == count
    assert count >= table.filter(polars.col("label").is_not_null() & polars.col("box2d").is_not_null()).height
    return count


def main(folder: Path) -> None:
    validate(folder)
    table = read_table(folder)
    samples, boxes = read_files(folder, table), convert(folder, table)
    with zipfile.ZipFile(folder / f"{folder.name}.zip") as archive:
        assert archive.testzip() is None and len(archive.namelist()) == 7 * samples
    print(json.dumps({"samples": samples, "rows": table.height, "boxes": boxes}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
