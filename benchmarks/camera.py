"""1080p video to 480x270 beside OpenCV's video reader, as roverd uses it: `python -m benchmarks.camera`.

Whole processes that read and write the same, and one frame somewhere in the recording.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import cv2
import numpy as np

from benchmarks.data import camera_recording
from benchmarks.measure import print_versions
from benchmarks.results import record
from benchmarks.steps import agree, compare
from rover_pipeline.camera.options import FramesOptions
from rover_pipeline.camera.steps import smaller
from rover_pipeline.format.sensor import Sensor

FRAMES = 600


def random_frames(trace: Path, rounds: int) -> None:
    """Milliseconds to open the video and read one frame by its number."""
    sensor = Sensor(trace / "camera")
    rng = np.random.default_rng(0)
    found = []
    for number in rng.integers(0, FRAMES, 4 * rounds).tolist():
        begin = time.perf_counter()
        smaller(sensor.channel("video.avi"), options=FramesOptions()).read(number, number + 1)
        middle = time.perf_counter()
        capture = cv2.VideoCapture(str(sensor.path / "video.avi"))
        capture.set(cv2.CAP_PROP_POS_FRAMES, number)
        cv2.resize(capture.read()[1], (480, 270), interpolation=cv2.INTER_AREA)
        found.append((1e3 * (middle - begin), 1e3 * (time.perf_counter() - middle)))
    ours, theirs = (statistics.median(column) for column in zip(*found, strict=True))
    record(
        "speed/camera one frame",
        f"{ours:.1f} ms, OpenCV {theirs:.1f} ms",
        of="one frame of a 1080p video by its number",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print_versions("numpy", "opencv-python-headless", "simplejpeg")
    compare("camera", FRAMES, rounds)
    agree("camera", 60)
    random_frames(camera_recording(FRAMES), rounds)
