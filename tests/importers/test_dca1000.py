"""A real IWR6843 capture: its targets are at positive range, which proves the order of I and Q."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.dca1000 import import_dca1000
from rover_pipeline.radar.spectrum import RangeDoppler
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.table import find_step
from rover_pipeline.validation.check import problems

RANGE_DOPPLER = find_step("_radar_range_doppler")


@pytest.fixture
def adc(captures: Path) -> Path:
    return captures / "radar_iwr6843_3tx4rx" / "adc_data.bin"


@pytest.fixture
def config(captures: Path) -> Path:
    return captures / "radar_iwr6843_3tx4rx" / "mmwaveDevice.mmwave.json"


def range_profile(trace: Path) -> np.ndarray:
    """Power over range, linear, summed over Doppler, from `_radar_range_doppler` of the only frame."""
    run_step(RANGE_DOPPLER, trace, "_radar_range_doppler", Request())
    decibel = Sensor(trace / "_radar_range_doppler").channel("power").read(0, 1)[0]
    return (10 ** (decibel / 10)).sum(axis=0)


def test_the_peaks_of_the_capture_are_at_1_0_1_6_and_1_7_metres(adc: Path, config: Path, tmp_path: Path) -> None:
    assert import_dca1000(adc, config, tmp_path / "trace") == 1
    profile = range_profile(tmp_path / "trace")
    resolution = json.loads((tmp_path / "trace" / "radar" / "radar.json").read_text())["range_resolution"]
    assert resolution == pytest.approx(0.0393, abs=1e-4)
    inner = profile[1:-1]
    is_peak = (inner > profile[:-2]) & (inner > profile[2:])
    bins = 1 + np.flatnonzero(is_peak)
    bins = bins[bins * resolution > 0.5]  # closer bins hold antenna coupling
    strongest = np.sort(bins[np.argsort(profile[bins])[-3:]]) * resolution
    np.testing.assert_allclose(strongest, [1.0, 1.6, 1.7], atol=0.06)


def test_the_mirrored_half_of_the_range_spectrum_is_10_db_lower(adc: Path, config: Path, tmp_path: Path) -> None:
    import_dca1000(adc, config, tmp_path / "trace")
    profile = range_profile(tmp_path / "trace")
    ratio = profile[1:256].sum() / profile[257:].sum()
    assert 10 * np.log10(ratio) > 10


def test_the_wrong_order_of_words_mirrors_the_range_spectrum(adc: Path, config: Path, tmp_path: Path) -> None:
    import_dca1000(adc, config, tmp_path / "trace", order="qqii")
    profile = range_profile(tmp_path / "trace")
    assert profile[1:256].sum() < profile[257:].sum()


def test_the_words_of_the_capture_are_only_reordered(adc: Path, config: Path, tmp_path: Path) -> None:
    import_dca1000(adc, config, tmp_path / "trace")
    iq = Sensor(tmp_path / "trace" / "radar").channel("iq").read(0, 1)[0]
    assert iq.shape == (85, 3, 4, 1024)
    captured = np.fromfile(adc, "<i2").reshape(-1, 4)
    samples = (captured[:, :2] + 1j * captured[:, 2:]).reshape(85, 3, 4, 512)
    ours = RangeDoppler((85, 3, 4, 1024), "none", "none").spectrum_and_power(iq)[0]
    # Without a window, the transform's zero-Doppler, zero-range bin is the mean sample of each antenna.
    np.testing.assert_allclose(ours[:, :, 0, 0], samples.mean(axis=(0, 3)), rtol=1e-3)


def test_a_collection_config_gives_the_same_trace_as_mmwave_studio(adc: Path, config: Path, tmp_path: Path) -> None:
    import_dca1000(adc, config, tmp_path / "one", start=0.0)
    collection = tmp_path / "collection.yaml"
    collection.write_text((tmp_path / "one" / "config.yaml").read_text())
    assert yaml.safe_load(collection.read_text())["radar"]["args"]["radar"]["device"] == "IWR6843"
    import_dca1000(adc, collection, tmp_path / "two", order="iiqq", start=0.0)
    for name in ("iq", "ts", "valid", "radar.json"):
        assert (tmp_path / "one" / "radar" / name).read_bytes() == (tmp_path / "two" / "radar" / name).read_bytes()


def test_a_truncated_capture_is_refused_with_its_sizes(adc: Path, config: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.bin"
    cut.write_bytes(adc.read_bytes()[:-10])
    with pytest.raises(FormatError, match=r"cut\.bin: 2,088,950 bytes .* 2,088,960-byte frames"):
        import_dca1000(cut, config, tmp_path / "trace")
    assert not (tmp_path / "trace").exists()


def test_a_config_without_the_board_is_an_error_that_names_the_option(config: Path, adc: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.mmwave.json"
    shutil.copy(config, alone)
    with pytest.raises(ConfigError, match="--device"):
        import_dca1000(adc, alone, tmp_path / "trace")
    assert import_dca1000(adc, alone, tmp_path / "trace", device="IWR6843") == 1


CAPTURE = {
    "device": "IWR6843", "frequency": 60.0, "idle_time": 7.0, "adc_start_time": 6.0, "ramp_end_time": 60.0,
    "freq_slope": 60.0, "adc_samples": 16, "sample_rate": 10000, "frame_length": 4, "frame_period": 50.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"frame_period": 1e-9}, "frame_period: Input should be greater than or equal to 0.01"),
        ({"sample_rate": 1e30}, "sample_rate: Input should be less than or equal to"),
        ({"sample_rate": float("nan")}, "sample_rate"),
        ({"freq_slope": float("inf")}, "freq_slope"),
        ({"adc_samples": 1 << 40}, "adc_samples: Input should be less than or equal to 65536"),
        ({"adc_samples": 1 << 16, "frame_length": 1 << 16}, r"a frame of \[65536, 3, 4, 131072\] int16 has"),
        ({"frame_length": None}, "frame_length"),
    ],
)
def test_a_waveform_that_no_radar_has_is_refused(changed: dict[str, object], problem: str, tmp_path: Path) -> None:
    (tmp_path / "adc.bin").write_bytes(bytes(2 * 4 * 3 * 4 * 32 * 2))
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"radar": {"args": {"radar": CAPTURE}}}))
    assert import_dca1000(tmp_path / "adc.bin", tmp_path / "c.yaml", tmp_path / "whole", start=1.7e9) == 2
    assert list(problems(tmp_path / "whole")) == []
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"radar": {"args": {"radar": {**CAPTURE, **changed}}}}))
    with pytest.raises(ConfigError, match=problem):
        import_dca1000(tmp_path / "adc.bin", tmp_path / "c.yaml", tmp_path / "trace", start=1.7e9)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("configGenerator", "createdOn"), "yesterday", "createdOn is 'yesterday', no time of a capture"),
        (("configGenerator", "createdOn"), "0001-01-01T00:00:00", "createdOn is '0001"),
        (("configGenerator", "createdOn"), 5, "createdOn is 5"),
        (
            ("mmWaveDevices", 0, "rfConfig", "rlFrameCfg_t", "chirpEndIdx"),
            -3,
            "a frame of chirps 0 to -3, 85 times, is none",
        ),
        (("mmWaveDevices", 0, "rfConfig", "rlFrameCfg_t", "chirpEndIdx"), None, "is no mmWave Studio configuration"),
        (
            ("mmWaveDevices", 0, "rfConfig", "rlChanCfg_t", "rxChannelEn"),
            "0x0",
            "gives 0x0 as receivers; a radar has 1 to 16",
        ),
        (("mmWaveDevices", 0, "rfConfig"), None, "is no mmWave Studio configuration"),
        (("mmWaveDevices", 0), "device", "is no mmWave Studio configuration"),
    ],
)
def test_a_studio_configuration_that_cannot_be_is_refused_in_one_line(
    path: tuple[str | int, ...], value: object, problem: str, config: Path, adc: Path, tmp_path: Path
) -> None:
    content = json.loads(config.read_text())
    parent = content
    for key in path[:-1]:
        parent = parent.setdefault(key, {}) if isinstance(parent, dict) else parent[key]
    parent[path[-1]] = value
    (tmp_path / "c.mmwave.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=problem):
        import_dca1000(adc, tmp_path / "c.mmwave.json", tmp_path / "trace", device="IWR6843")


@pytest.mark.parametrize("generator", [None, [1], "mmWave Studio"])
def test_a_generator_that_is_no_object_means_no_time(
    generator: object, config: Path, adc: Path, tmp_path: Path
) -> None:
    content = {**json.loads(config.read_text()), "configGenerator": generator}
    (tmp_path / "c.mmwave.json").write_text(json.dumps(content))
    assert import_dca1000(adc, tmp_path / "c.mmwave.json", tmp_path / "trace", device="IWR6843") == 1


def test_the_configuration_that_simulate_writes_is_accepted(tmp_path: Path) -> None:
    rig = build(PRESETS["tiny"], 0)
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(rig.config()))
    chirps = rig.preset.radar
    words = np.zeros(int(np.prod(chirps.shape[:3])) * chirps.words, "<i2")
    words.tofile(tmp_path / "adc.bin")
    assert import_dca1000(tmp_path / "adc.bin", tmp_path / "c.yaml", tmp_path / "trace", start=1.7e9) == 1
    assert list(problems(tmp_path / "trace")) == []


def test_frames_with_zeros_in_the_place_of_lost_packets_are_not_valid(adc: Path, config: Path, tmp_path: Path) -> None:
    whole = np.fromfile(adc, "<i2")
    lost = whole.copy()
    lost[100 * 728 : 101 * 728] = 0
    np.concatenate([whole, lost]).tofile(tmp_path / "adc_data.bin")
    import_dca1000(tmp_path / "adc_data.bin", config, tmp_path / "trace", device="IWR6843")
    assert Sensor(tmp_path / "trace/radar").channel("valid").read().tolist() == [1, 0]
