"""Pictures of radar products: what is where, in metres, metres a second and degrees."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.cli import main
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.step import find_step
from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.export.picture import draw
from rover_pipeline.format.sensor import Sensor
from tests.kit import environment, small_trace

STEPS = ("range_doppler", "range_azimuth", "spectrum", "points", "velocity")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small trace with every radar product."""
    path = small_trace(tmp_path_factory.mktemp("picture") / "trace", sensors=("radar",))
    for name in STEPS:
        run_step(find_step(f"rover_pipeline.radar.steps:{name}"), path, f"_radar_{name}", Request())
    return path


@pytest.mark.parametrize("name", STEPS)
def test_every_radar_product_has_a_picture(name: str, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / f"{name}.png"
    assert main(["picture", str(trace), f"radar_{name}", "-o", str(out), "--frame", "3"]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")


def test_a_picture_takes_no_others_place_and_a_full_disk_leaves_none(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.png"
    out.write_text("precious")
    assert main(["picture", str(trace), "radar_points", "-o", str(out)]) == 1
    assert f"{out}: is there already" in capsys.readouterr().err and out.read_text() == "precious"
    command = [sys.executable, "-m", "rover_pipeline", "picture", str(trace), "radar_points"]
    limited = ["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", *command, "-o", str(tmp_path / "new.png")]
    done = subprocess.run(limited, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and f"{tmp_path}/new.png: cannot be written: File too large" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.png"]


def test_axes_are_in_metres_and_metres_a_second(trace: Path) -> None:
    plot = draw(trace, "_radar_range_doppler").axes[0]
    assert plot.get_xlabel() == "range (m)" and "m/s" in plot.get_ylabel()
    power = Sensor(trace / "_radar_range_doppler").channel("power").read(0, 1)[0]
    sidecar = json.loads((trace / "radar" / "radar.json").read_text())
    # Cells are drawn around the values of their bins.
    assert np.mean(plot.get_xlim()) == pytest.approx((power.shape[1] - 1) / 2 * sidecar["range_resolution"])
    assert plot.get_ylim()[0] == pytest.approx(-2.5 * sidecar["doppler_resolution"])


def test_azimuth_is_in_degrees_to_the_right(trace: Path) -> None:
    plot = draw(trace, "radar_range_azimuth").axes[0]
    assert "degrees" in plot.get_ylabel() and "right" in plot.get_ylabel()
    assert plot.get_ylim()[0] < -85 and plot.get_ylim()[1] > 70


def test_a_frame_that_is_not_valid_is_called_so(trace: Path) -> None:
    for frame, doubt in ((1, False), (2, True)):
        figure = draw(trace, "_radar_points", frame)
        assert ("not valid" in figure.get_suptitle()) == doubt


def test_errors_name_what_there_is(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean '_radar_points'"):
        draw(trace, "_radar_point")
    with pytest.raises(ConfigError, match="has 6 frames; there is no frame 6"):
        draw(trace, "_radar_points", 6)
    with pytest.raises(FormatError, match="--outputs radar_points"):
        draw(small_trace(tmp_path / "bare", sensors=("radar",)), "radar_points")
