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
from rover_pipeline.table import find_step

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
    ours = RangeDoppler((85, 3, 4, 1024), "none", "none").spectrum(iq)
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
