"""Captures as mmWave Studio describes them: any subset and order of antennas, scripts and logs, and what is refused."""

from __future__ import annotations

import inspect
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import ConfigError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.dca1000 import Capture, import_dca1000, read_setup
from rover_pipeline.radar.axes import bins_of
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.steps import points
from rover_pipeline.simulate.presets import Chirps
from rover_pipeline.table import find_step
from rover_pipeline.validation.check import problems
from tests.radar.scenes import Target, chirps, texts, words

DOCUMENT = Path(__file__).parents[2] / "docs" / "radar-captures.md"
SCRIPT = """
-- ar1.ProfileConfig(0, 60, 7, 6, 60, 0, 0, 0, 0, 0, 0, 60, 0, 64, 10000, 0, 0, 30)
START = 77
ar1.ChanNAdcConfig(1, 1, 1, 1, 1, 0, 1, 2, 1, 0)
ar1.LVDSLaneConfig(0, 1, 1, 0, 0, 1, 0, 0)
ar1.ProfileConfig(0, START, 7, 6, 40, 0, 0, 0, 0, 0, 0, 70.006, 1, 256, 10000, 0, 0, 30)
ar1.ChirpConfig(0, 0, 0, 0, 0, 0, 0, 1, 0, 0)
ar1.ChirpConfig(2, 2, 0, 0, 0, 0, 0, 0, 1, 0)
ar1.ChirpConfig(1, 1, 0, 0, 0, 0, 0, 0, 0, 1)
ar1.FrameConfig(0, 2, 100, 64, 50, 0, 0, 1)
"""


class Reordered(Chirps):
    """A board whose transmitters fire in the order 1, 3, 2."""

    @property
    def antennas(self) -> tuple[np.ndarray, np.ndarray]:
        tx, rx = super().antennas
        return tx[[0, 2, 1]], rx


@pytest.fixture
def studio(captures: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((captures / "radar_iwr6843_3tx4rx" / "mmwaveDevice.mmwave.json").read_text())
    return content


def rf(content: dict[str, Any]) -> Any:
    return content["mmWaveDevices"][0]["rfConfig"]


def test_the_one_chirp_vibration_capture_comes_in_by_its_log_and_shows_its_line(captures: Path, tmp_path: Path) -> None:
    folder = captures / "radar_awr1642_fan"
    (tmp_path / "adc.bin").write_bytes(lzma.decompress((folder / "fan_on.bin.xz").read_bytes()))
    assert import_dca1000(tmp_path / "adc.bin", folder / "pipe_LogFile.txt", tmp_path / "trace") == 1000
    assert list(problems(tmp_path / "trace")) == []
    described = yaml.safe_load((tmp_path / "trace" / "config.yaml").read_text())["radar"]["args"]["radar"]
    assert described["device"] == "AWR1642" and described["tx"] == [1] and described["rx"] == [1, 2, 3, 4]
    assert described["frequency"] == pytest.approx(77.0, abs=1e-3)
    assert described["freq_slope"] == pytest.approx(29.98, abs=0.01) and described["frame_period"] == 1.0
    assert (described["idle_time"], described["adc_start_time"], described["ramp_end_time"]) == (100, 6, 130)
    iq = Sensor(tmp_path / "trace" / "radar").channel("iq").read()
    assert iq.shape == (1000, 1, 1, 4, 512)
    groups = iq[:, 0, 0, 0].reshape(1000, -1, 2, 2).astype("f8")
    samples = (groups[:, :, 1] + 1j * groups[:, :, 0]).reshape(1000, 256)
    # The fan stands at 2.0 m, bin 10; its line at 64 Hz is what the data set's description tells.
    phase = np.unwrap(np.angle(np.fft.fft(samples * np.hanning(256), axis=1)[:, 10]))
    line = np.abs(np.fft.rfft((phase - phase.mean()) * np.hanning(1000)))
    assert np.argmax(line[30:]) + 30 == pytest.approx(64, abs=2)
    run_step(find_step("_radar_points"), tmp_path / "trace", "_radar_points", Request())


def test_velocities_follow_from_the_centre_of_the_samples() -> None:
    chirp = chirps("AWR1843")
    capture = Capture.parse(chirp.model_dump())
    bins = chirp.range_resolution, chirp.doppler_resolution
    assert bins_of(capture.model_dump(), 3) == pytest.approx(bins, rel=1e-12)


def test_a_target_is_seen_in_its_direction_when_transmitters_fire_in_another_order() -> None:
    chirp = Reordered(**chirps("AWR1843").model_dump())
    target = Target(3.0, np.radians(20), np.radians(8), velocity_mps=0.9)
    iq = words(chirp, [target])[None]
    described = texts(chirp)
    section = {"radar": {"args": {"radar": {**chirp.model_dump(), "tx": [1, 3, 2]}}}}
    result = points(
        iq, np.ones(1, "u1"), options=PointsOptions(), sidecar=described["sidecar"], config=yaml.safe_dump(section)
    )
    found = result["xyz"][0, 0] / np.linalg.norm(result["xyz"][0, 0])
    assert np.degrees(np.arccos(found @ target.direction)) < 1.0


def test_the_script_of_a_capture_gives_its_antennas_in_the_order_they_fire(tmp_path: Path) -> None:
    (tmp_path / "capture.lua").write_text(SCRIPT)
    setup = read_setup(tmp_path / "capture.lua", "AWR1843")
    assert (setup.tx, setup.rx, setup.order, setup.start) == (3, 3, "iiqq", None)
    assert setup.capture.tx == (1, 3, 2) and setup.capture.rx == (1, 2, 4)
    assert setup.capture.frequency == 77 and setup.capture.freq_slope == 70.006 and setup.capture.frame_period == 50
    with pytest.raises(ConfigError, match="does not name the board"):
        read_setup(tmp_path / "capture.lua", None)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (("START = 77", "-- none"), "argument 2 of ar1.ProfileConfig is None, no number"),
        (("0, 0, 0, 0, 0, 0, 0, 1, 0, 0)", "0, 0, 0, 0, 0, 0, 0, 1, 1, 0)"), "chirp 0 has txEnable 0x3; one"),
        (("ar1.FrameConfig(0, 2,", "ar1.FrameConfig(0, 3,"), "does not configure chirp 3 of its frame"),
        (("ar1.FrameConfig(0", "ar1.FrameConfig(0, 1, 1, 2, 3)\nar1.FrameConfig(0"), "ar1.FrameConfig in 2 ways"),
        (("ar1.LVDSLaneConfig(0, 1, 1, 0", "ar1.LVDSLaneConfig(0, 1, 1, 1"), "complex samples on 3 LVDS lanes"),
        (("ar1.LVDSLaneConfig", "other"), "has no call of ar1.LVDSLaneConfig"),
    ],
)  # fmt: skip
def test_a_script_that_does_not_tell_what_was_captured_is_refused(
    changed: tuple[str, str], problem: str, tmp_path: Path
) -> None:
    (tmp_path / "capture.lua").write_text(SCRIPT.replace(*changed, 1))
    with pytest.raises(ConfigError, match=problem):
        read_setup(tmp_path / "capture.lua", "AWR1843")


def test_the_chirps_of_a_studio_file_say_which_transmitters_fire_and_when(
    studio: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "c.mmwave.json"
    for number, bits in enumerate(("0x1", "0x4", "0x1")):
        rf(studio)["rlChirps"][number]["rlChirpCfg_t"]["txEnable"] = bits
    path.write_text(json.dumps(studio))
    with pytest.raises(ConfigError, match=r"the transmitters \[1, 3, 1\] of a loop do not take turns"):
        read_setup(path, "IWR6843")
    rf(studio)["rlFrameCfg_t"]["chirpEndIdx"] = 1
    rf(studio)["rlChanCfg_t"]["rxChannelEn"] = "0x6"
    path.write_text(json.dumps(studio))
    setup = read_setup(path, "IWR6843")
    assert setup.capture.tx == (1, 3) and setup.capture.rx == (2, 3) and (setup.tx, setup.rx) == (2, 2)
    rf(studio)["rlChirps"][1]["rlChirpCfg_t"]["txEnable"] = "0x1"
    path.write_text(json.dumps(studio))
    assert (read_setup(path, "IWR6843").capture.tx, read_setup(path, "IWR6843").capture.frame_length) == ((1,), 170)
    rf(studio)["rlChirps"][0]["rlChirpCfg_t"]["idleTimeVar_usec"] = 1.0
    path.write_text(json.dumps(studio))
    with pytest.raises(ConfigError, match="differ in their waveform"):
        read_setup(path, "IWR6843")


def test_all_missing_keys_are_named_in_one_error(studio: dict[str, Any], tmp_path: Path) -> None:
    del rf(studio)["rlChanCfg_t"]["rxChannelEn"], rf(studio)["rlProfiles"][0]["rlProfileCfg_t"]["numAdcSamples"]
    rf(studio)["rlFrameCfg_t"]["numLoops"] = "many"
    (tmp_path / "c.mmwave.json").write_text(json.dumps(studio))
    with pytest.raises(ConfigError) as raised:
        read_setup(tmp_path / "c.mmwave.json", "IWR6843")
    for key in ("rlProfiles[0].rlProfileCfg_t.numAdcSamples", "rlFrameCfg_t.numLoops", "rlChanCfg_t.rxChannelEn"):
        assert f"rfConfig.{key}" in str(raised.value)
    (tmp_path / "c.yaml").write_text("radar: {args: {radar: {device: AWR1642, frequency: 77}}}")
    with pytest.raises(ConfigError, match=r"lacks idle_time \(.*us.\); .*ramp_end_time.*frame_period \(.*ms.\)$"):
        read_setup(tmp_path / "c.yaml", None)


def test_a_log_without_the_calls_that_configured_the_capture_names_them_all(tmp_path: Path) -> None:
    stamp = "02-Jan-2026 17:15:50: API:"
    (tmp_path / "log.txt").write_text(
        f"{stamp}ProfileConfig,0,1435384036,10000,600,13000,0,0,621,0,256,10000,0,0,30,0,\n{stamp}ChirpConfig,0,0,0,0,0,0,0,1,-5,\n"
    )
    with pytest.raises(
        ConfigError, match="lacks API:FrameConfig, API:ChirpConfig, API:ChannelConfig, API:DataFmtConfig, "
    ):
        read_setup(tmp_path / "log.txt", "AWR1642")


def test_every_key_of_a_capture_is_documented_with_its_unit() -> None:
    document = DOCUMENT.read_text()
    for name, field in Capture.model_fields.items():
        assert f"| `{name}` | {field.description}" in document, name
    assert inspect.getdoc(Capture)
