"""How long a frame of the radar lasts, from the texts of a recording."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml

from rover_pipeline.radar.timing import frame_duration
from rover_pipeline.simulate.presets import PRESETS

CHIRPS = PRESETS["indoor"].radar
TS = np.arange(20) * CHIRPS.frame_period / 1e3
SIDECAR = json.dumps({
    "shape": list(CHIRPS.shape),
    "range_resolution": CHIRPS.range_resolution,
    "doppler_resolution": CHIRPS.doppler_resolution,
})  # fmt: skip
META = json.dumps({"iq": {"shape": [*CHIRPS.shape[:3], CHIRPS.words]}})


def config(**changes: object) -> str:
    return yaml.safe_dump({"radar": {"args": {"radar": {**CHIRPS.model_dump(), **changes}}}})


@pytest.mark.parametrize(("sidecar", "meta"), [(SIDECAR, META), (SIDECAR, None), (None, META)])
def test_the_timing_of_the_chirps_gives_the_duration_of_a_frame(sidecar: str | None, meta: str | None) -> None:
    found = frame_duration(TS, config(), sidecar, meta)
    assert found.seconds == pytest.approx(CHIRPS.duration, rel=1e-12) and found.source == "config.yaml"
    assert found.middle == pytest.approx(CHIRPS.duration / 2) and not found.warnings


@pytest.mark.parametrize(
    "text",
    [None, "{}", "radar: 3", "radar: {args: []}", config(idle_time="long"), config(frame_length=float("nan")),
     config(ramp_end_time=-59.0), config(idle_time=True), config(frame_length=6400)],
)  # fmt: skip
def test_the_doppler_resolution_gives_it_where_the_timing_is_missing_or_absurd(text: str | None) -> None:
    found = frame_duration(TS, text, SIDECAR, META)
    assert found.seconds == pytest.approx(CHIRPS.duration, rel=0.03) and found.source == "radar.json"


def test_a_board_at_60_ghz_has_longer_waves() -> None:
    text = yaml.safe_dump({"radar": {"args": {"radar": {"device": "IWR6843"}}}})
    wave = 299_792_458.0 / 62e9
    sidecar = json.dumps({"shape": [85, 3, 4, 512], "range_resolution": 0.04, "doppler_resolution": wave / 2 / 0.1056})
    assert frame_duration(np.arange(5) * 0.15, text, sidecar, None).seconds == pytest.approx(0.1056)


@pytest.mark.parametrize("ts", [TS, TS[:1]])
@pytest.mark.parametrize("sidecar", [None, "{}", json.dumps({"shape": [64, 3, 4, 256], "doppler_resolution": 1e-9})])
def test_a_duration_that_nothing_tells_is_zero_with_a_warning(ts: np.ndarray, sidecar: str | None) -> None:
    found = frame_duration(ts, None, sidecar, None)
    assert found[:2] == (0.0, "unknown") and "not at their middle" in found.warnings[0]
