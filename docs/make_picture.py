"""Draws docs/result.png, the README's picture, of a processed trace: `python docs/make_picture.py TRACE [FRAME]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from rover_pipeline.format.sensor import Sensor


def main(trace: Path, frame: int) -> None:
    lidar, radar = Sensor(trace / "_lidar_image"), Sensor(trace / "_radar_range_doppler")
    when = lidar.times(lidar.length())[frame]
    nearest = int(np.abs(radar.times(radar.length()) - when).argmin())
    metres = lidar.channel("rng").read(frame, frame + 1)[0] / 1000
    power = radar.channel("power").read(nearest, nearest + 1)[0]
    sidecar = json.loads((trace / "radar" / "radar.json").read_text())
    far = power.shape[1] * sidecar["range_resolution"]
    fast = power.shape[0] / 2 * sidecar["doppler_resolution"]

    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(9, 5.2), height_ratios=(1, 1.6), layout="constrained", facecolor="white"
    )
    shown = top.imshow(
        np.where(metres > 0, metres, np.nan), aspect="auto", cmap="turbo_r", vmax=np.percentile(metres, 99)
    )
    top.set(title="_lidar_image/rng", xlabel="column", ylabel="beam")
    figure.colorbar(shown, ax=top, label="range, m")
    shown = bottom.imshow(
        power,
        aspect="auto",
        origin="lower",
        extent=(0, far, -fast, fast),
        cmap="magma",
        vmin=np.percentile(power, 20),
    )
    bottom.set(title="_radar_range_doppler/power", xlabel="range, m", ylabel="velocity, m/s (positive recedes)")
    figure.colorbar(shown, ax=bottom, label="power, dB re 1 ADC count²")
    figure.savefig(Path(__file__).with_name("result.png"), dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
