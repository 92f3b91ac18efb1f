"""What radar steps share of a frame is what each of them computes alone; and f2 has NumPy's bits."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.engine.shared import Shared
from rover_pipeline.radar.frames import Frames
from rover_pipeline.radar.options import PointsOptions, RangeAzimuthOptions, RangeDopplerOptions, SpectrumOptions
from rover_pipeline.radar.spectrum import samples_of, words_of
from rover_pipeline.simulate.sensors.radar import bursts
from tests.radar.scenes import Target, chirps, words

CHIRP = chirps("AWR1642", frame_length=32)


def test_steps_with_other_options_get_what_they_would_compute_alone() -> None:
    clean = words(CHIRP, [Target(2.0, 0.3), Target(3.0, -0.2, velocity_mps=1.0)])
    added = bursts(CHIRP, 0.3, np.random.default_rng(0))
    iq = words_of(samples_of(clean, False, "qqii") + added, False, "qqii")[None]
    options: list[RangeDopplerOptions] = [
        RangeDopplerOptions(),
        PointsOptions(interference="time"),
        RangeAzimuthOptions(),
        PointsOptions(interference="chirp"),
        SpectrumOptions(doppler_bins=64),
        RangeDopplerOptions(interference="time"),
    ]
    shared = Shared()
    for each in options:
        alone, together = Frames(iq, each, False), Frames(iq, each, False, None, shared)
        np.testing.assert_array_equal(together.power(0), alone.power(0))
        np.testing.assert_array_equal(together.spectrum(0), alone.spectrum(0))
        np.testing.assert_array_equal(together.cleaned(0), alone.cleaned(0))
        assert together.excised_share(0) == alone.excised_share(0)
        assert (alone.excised_share(0) > 0) == (each.interference != "keep")
    np.testing.assert_array_equal(together.samples(0), samples_of(iq[0], False, "qqii"))
    with pytest.raises(ValueError, match="2 frames"):
        Frames(np.repeat(iq, 2, axis=0), options[0], False, None, shared)
