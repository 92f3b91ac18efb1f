"""The import of ouster-sdk without its readers of ROS bags."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from rover_pipeline.lidar.ouster_core import core
assert "rosbags" not in sys.modules and core.SensorInfo
import ouster.sdk
assert "ouster.sdk.bag" not in sys.modules
try:
    ouster.sdk.open_source(sys.argv[1])
except Exception as error:
    print(type(error).__module__, error)
assert "rosbags" in sys.modules
import ouster.sdk.bag
assert isinstance(ouster.sdk.bag.BagFrameSetSource, type)
"""


def test_ouster_sdk_still_opens_bags_which_it_learns_when_it_first_does(tmp_path: Path) -> None:
    bag = tmp_path / "none.bag"
    bag.write_bytes(b"#ROSBAG V2.0\n")
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(bag)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "AttributeError" not in done.stdout + done.stderr
