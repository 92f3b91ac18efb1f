"""What the fuzz campaign damages: a trace, files that imports read, a calibration, and exported datasets."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import yaml

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.table import find_step
from tests.campaign.datasets import FORMATS, dataset_trace, make_dataset, write_whole_odometry
from tests.conftest import CHECKOUT
from tests.importers.bags import write_all
from tests.importers.clouds_kit import FORMATS as CLOUDS
from tests.importers.clouds_kit import table
from tests.kit import pictures, small_trace, snapshot

#: Result -> whether it stands in the trace that is damaged. The others are only made.
_RESULTS = {
    "_lidar_image": True, "_radar_points": True, "_imu_filtered": False, "_radar_range_doppler": False,
    "_radar_range_azimuth": False, "_radar_velocity": True, "_lidar_points": False, "_camera_frames": True,
    "_imu_pose": True, "_radar_pose": False, "_sync": True, "_radar_quality": False, "_report": False,
}  # fmt: skip
#: A file that the options of radar steps name, beside what imports read, and a step that uses it.
CALIBRATION = "calibration.yaml"
CALIBRATED = "_radar_range_azimuth"


class Laboratory(NamedTuple):
    """What cases are run on.

    Attributes:
        trace: a recording; captures: the folder of files for imports, and of a calibration.
        datasets: the folder of exported datasets, by the names of their formats.
        wanted: what undisturbed steps make of the trace; `_STEP calibrated`: with the calibration.
    """

    trace: Path
    captures: Path
    datasets: Path
    wanted: dict[str, dict[str, bytes]]


@contextlib.contextmanager
def laboratory() -> Iterator[Laboratory]:
    """Makes the trace, the files for imports, and the undisturbed results. They are removed afterwards."""
    memory = Path("/dev/shm")  # thousands of small files are synced
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if memory.is_dir() else None) as folder:
        trace = _trace(Path(folder) / "here" / "rec")
        wanted = {}
        for name, stays in _RESULTS.items():
            run_step(find_step(name), trace, name, Request(), stamps=(".options-0",))
            wanted[name] = snapshot(trace / name, ignore=("time",))
            wanted[name].pop("provenance.json")
            if not stays:
                shutil.rmtree(trace / name)
        captures, datasets = Path(folder) / "here" / "captures", Path(folder) / "here" / "datasets"
        captures.mkdir()
        _write_captures(captures)
        write_clouds(captures / "clouds")
        write_all(captures / "bags")
        write_drive(captures / "day" / "2011_09_26_drive_0001_sync")
        _write_calibration(captures / CALIBRATION)
        options = {"calibration": str(captures / CALIBRATION)}
        run_step(find_step(CALIBRATED), trace, CALIBRATED, Request(options), stamps=(".options-0",))
        wanted[f"{CALIBRATED} calibrated"] = snapshot(trace / CALIBRATED, ignore=("time",))
        wanted[f"{CALIBRATED} calibrated"].pop("provenance.json")
        assert wanted[f"{CALIBRATED} calibrated"] != wanted[CALIBRATED], "the calibration changes nothing"
        shutil.rmtree(trace / CALIBRATED)
        source = dataset_trace(Path(folder) / "source")
        for name in FORMATS:
            make_dataset(name, source, datasets / name)
        shutil.rmtree(source)
        yield Laboratory(trace, captures, datasets, wanted)


def _trace(path: Path) -> Path:
    trace = small_trace(path, sensors=("lidar", "radar", "camera", "imu"), iq_shape=(16, 2, 4, 64))
    lens = {"fx": 9.0, "fy": 9.0, "cx": 12.0, "cy": 8.0, "k": [0.006, 0.008, -0.002, -0.023], "p": [0.0, 0.0]}
    (trace / "camera" / "camera.json").write_text(json.dumps(lens))
    turn = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    rig = {name: {"translation": [0.1, 0.0, -0.1], "rotation": turn} for name in ("radar", "imu", "camera")}
    config = yaml.safe_load((trace / "config.yaml").read_text())
    (trace / "config.yaml").write_text(json.dumps({**config, "rig": rig}))
    write_whole_odometry(trace, invalid=(1,))
    _write_provenance(trace / "_odom", "rover_pipeline.odometry.steps:odom")
    (trace / "_map").mkdir()
    grid = {"image": "occupancy.pgm", "resolution": 0.05, "origin": [0.0, 0.0, 0.0], "negate": 0}
    (trace / "_map" / "occupancy.yaml").write_text(yaml.safe_dump(grid))
    (trace / "_map" / "occupancy.pgm").write_bytes(b"P5 4 4 255\n" + bytes(range(16)))
    for name in ("map.ply", "bev.png"):
        (trace / "_map" / name).write_bytes(b"something")
    _write_provenance(trace / "_map", "rover_pipeline.mapping.steps:map_files")
    return trace


def _write_provenance(folder: Path, step: str) -> None:
    files = sorted(path.name for path in folder.iterdir())
    version = find_step(folder.name).version
    content = {"made_by": "rover_pipeline", "step": step, "version": version, "files": files}
    (folder / "provenance.json").write_text(json.dumps(content))


def _write_captures(folder: Path) -> None:
    """A radar capture with both kinds of configuration, and a lidar capture where real ones are at hand."""
    data = Path(os.environ.get("ROVER_PIPELINE_DATA", CHECKOUT.parent / "shared" / "data"))
    profile = {
        "startFreqConst_GHz": 60.0, "idleTimeConst_usec": 7.0, "adcStartTimeConst_usec": 6.0, "rampEndTime_usec": 60.0,
        "txStartTime_usec": 0.0, "freqSlopeConst_MHz_usec": 60.0, "numAdcSamples": 16, "digOutSampleRate": 10000,
    }  # fmt: skip
    device = {
        "rfConfig": {
            "rlProfiles": [{"rlProfileCfg_t": profile}],
            "rlFrameCfg_t": {"chirpStartIdx": 0, "chirpEndIdx": 2, "numLoops": 4, "framePeriodicity_msec": 50.0},
            "rlAdcOutCfg_t": {"fmt": {"b2AdcBits": 2, "b2AdcOutFmt": 1}},
            "rlChanCfg_t": {"txChannelEn": "0x7", "rxChannelEn": "0xF"},
        },
        "rawDataCaptureConfig": {
            "rlDevLaneEnable_t": {"laneEn": "0x3"}, "rlDevDataFmtCfg_t": {"iqSwapSel": 0},
        },
    }  # fmt: skip
    studio = {"configGenerator": {"createdOn": "2023-07-04T12:00:00"}, "mmWaveDevices": [device]}
    (folder / "studio.mmwave.json").write_text(json.dumps(studio))
    (folder / "board.setup.json").write_text(json.dumps({"mmWaveDevice": "IWR6843"}))
    capture = {
        "device": "IWR6843", "frequency": 60.0, "idle_time": 7.0, "adc_start_time": 6.0, "ramp_end_time": 60.0,
        "freq_slope": 60.0, "adc_samples": 16, "sample_rate": 10000, "frame_length": 4, "frame_period": 50.0,
    }  # fmt: skip
    (folder / "collection.yaml").write_text(yaml.safe_dump({"radar": {"args": {"radar": capture}}}))
    words = np.random.default_rng(0).integers(-500, 500, 2 * 4 * 3 * 4 * 32).astype("<i2")
    words.tofile(folder / "adc.bin")
    for suffix in ("json", "pcap"):
        for path in sorted((data / "ouster").glob(f"OS-0-32*.{suffix}")):
            shutil.copyfile(path, folder / f"lidar.{suffix}")


def write_clouds(folder: Path) -> None:
    """A folder of two small clouds for each format, and one of pictures."""
    for name, (suffix, write) in CLOUDS.items():
        place = folder / name.replace(" ", "-")
        place.mkdir(parents=True)
        for number in range(2):
            write(place / f"{number}{suffix}", table(40, number))
        (place / "times.txt").write_text("1700000000.1\n1700000000.2\n")
    (folder / "pictures").mkdir()
    for number, image in enumerate(pictures(2, 16, 24)):
        cv2.imwrite(str(folder / "pictures" / f"{number}.{'png' if number else 'jpg'}"), image)
    (folder / "pictures" / "times.txt").write_text("1700000000.1\n1700000000.2\n")
    lens = {"model": "brown", "fx": 9.0, "fy": 9.0, "cx": 12.0, "cy": 8.0, "k": [0.1, 0.0], "p": [0.0, 0.0]}
    (folder / "pictures" / "camera.json").write_text(json.dumps(lens))


def write_drive(drive: Path) -> None:
    """A drive in KITTI's layout, of two sweeps, pictures and records of the INS."""
    for name in ("velodyne_points", "image_02", "oxts"):
        (drive / name / "data").mkdir(parents=True)
        lines = (f"2011-09-26 13:02:25.{number}00000000\n" for number in range(2))
        (drive / name / "timestamps.txt").write_text("".join(lines))
    record = [49.0, 8.4, 112.8, 0.02, 0.01, -0.9, 0.1, 7.0, 7.1, 0.0, 0.0, 0.1, 0.2, 9.8, 0.1, 0.2, 9.8, *[0.01] * 8]
    for number, image in enumerate(pictures(2, 16, 24)):
        CLOUDS["bin"][1](drive / "velodyne_points" / "data" / f"{number:010d}.bin", table(40, number))
        cv2.imwrite(str(drive / "image_02" / "data" / f"{number:010d}.png"), image)
        (drive / "oxts" / "data" / f"{number:010d}.txt").write_text(" ".join(map(str, record)))
    turn = "R: 1 0 0 0 1 0 0 0 1\nT: 0.1 0.2 0.3\n"
    (drive.parent / "calib_imu_to_velo.txt").write_text(turn)
    (drive.parent / "calib_velo_to_cam.txt").write_text(turn)
    (drive.parent / "calib_cam_to_cam.txt").write_text("P_rect_02: 9 0 12 1 0 9 8 0 0 0 1 0\n")


def _write_calibration(path: Path) -> None:
    """A calibration of the trace's radar."""
    antennas = [
        {"tx": tx, "rx": rx, "phase_deg": 20.0 * tx - 10.0 * rx, "phase_sigma_deg": 1.0, "gain_db": 0.5 * tx,
         "gain_sigma_db": 0.1}
        for tx in range(2) for rx in range(4)
    ]  # fmt: skip
    content = {
        "board": "AWR1642", "method": "reflector", "targets": 40, "centre_ghz": 78.9,
        "spacing": {"value": 1.01, "sigma": 0.01}, "range_bias": {"value": 0.02, "sigma": 0.001},
        "coherence": [0.8, 0.95], "antennas": antennas, "coupling": None,
    }  # fmt: skip
    path.write_text(yaml.safe_dump(content))
