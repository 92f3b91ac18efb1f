"""Pictures of a recording, as the tests of its camera's mount see them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import rover_pipeline as rp
from rover_pipeline.validation.mounts import _grey, _recorded


def test_raw_pictures_are_seen_at_their_own_size_where_files_of_a_camera_are_seen_smaller(
    tiny: Path, tmp_path: Path
) -> None:
    pictures = np.asarray(rp.open(tiny)["camera"]["video.avi"])
    trace = tmp_path / "trace"
    for name in ("config.yaml", "lidar"):
        trace.mkdir(exist_ok=True)
        (trace / name).symlink_to(tiny / name)
    camera = trace / "camera"
    camera.mkdir()
    (camera / "ts").symlink_to(tiny / "camera" / "ts")
    meta = json.loads((tiny / "camera" / "meta.json").read_text())
    meta["video.avi"]["format"] = "raw"
    (camera / "meta.json").write_text(json.dumps(meta))
    for other in (tiny / "camera").iterdir():
        if other.name not in ("ts", "meta.json", "video.avi"):
            (camera / other.name).symlink_to(other)
    (camera / "video.avi").write_bytes(pictures.tobytes())
    lens, video, times = _recorded(trace, "camera", 2.0)
    assert (lens.height, lens.width) == pictures.shape[1:3]
    smaller, reduced, same = _recorded(tiny, "camera", 2.0)
    assert smaller.width < lens.width and times.tolist() == same.tolist()
    means = [np.mean(_grey(each, 3)) for each in (video, reduced)]
    assert abs(means[0] - means[1]) < 2
