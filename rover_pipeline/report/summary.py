"""Models of `summary.json`, the figures of the page for programs. `docs/make_summary.py` writes their manual."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

#: Raised when a key changes its meaning or is removed, but not for new keys. Layout.
SCHEMA = 1

Severity = Literal["error", "warning", "note"]
Verdict = Literal["bad", "fair", "good"]


class _Model(BaseModel):
    """Immutable. Unknown keys are ignored, so that a program can read the summaries of later versions."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Finding(_Model):
    """Something that is wrong with a recording, or worth knowing."""

    severity: Severity = Field(
        description="`error`: part of the recording is missing or cannot be used; `warning`: look before you use it; "
        "`note`: normal, but counted."
    )
    place: str = Field(description="Sensor, or sensor and channel.")
    text: str = Field(description="What is wrong.")
    advice: str = Field("", description="What to do about it; empty where there is nothing to do.")
    figure: str = Field("", description="Key of the figure that it is about, such as `lost`; empty without one.")


def finding(severity: Severity, place: str, text: str, advice: str = "", *, figure: str = "") -> Finding:
    """A finding from its parts in their order."""
    return Finding(severity=severity, place=place, text=text, advice=advice, figure=figure)


class Intervals(_Model):
    """Times between neighbouring samples, and how far samples stray from a constant rate."""

    median_ms: float = Field(description="Median interval, ms.")
    p95_ms: float = Field(description="95 % of the intervals are at most this far from the median, ms, without gaps.")
    max_ms: float = Field(description="Largest distance of an interval from the median, ms. Gaps do not count.")
    jitter_ms: float = Field(description="Standard deviation of the times about a straight line through all, ms.")


class ChannelSummary(_Model):
    """One channel."""

    name: str = Field(description="Name of the channel.")
    format: str = Field(description="Format, as in `meta.json`.")
    type: str = Field(description="Type, as in `meta.json`.")
    shape: tuple[int, ...] = Field(description="Shape of a sample.")
    samples: int = Field(description="Whole samples on disk.")
    bytes: int = Field(description="Bytes on disk.")
    ratio: float = Field(description="Bytes uncompressed over bytes on disk.")


class SensorSummary(_Model):
    """One sensor, raw or virtual."""

    name: str = Field(description="Name of the sensor; virtual ones begin with an underscore.")
    error: str = Field("", description="Why the sensor cannot be read; everything below is then empty.")
    samples: int = Field(0, description="Number of times in `ts`.")
    whole: int = Field(0, description="Samples that all channels have: fewer where the recording was cut off.")
    start_s: float | None = Field(None, description="First time, seconds since the Unix epoch.")
    end_s: float | None = Field(None, description="Last time, seconds since the Unix epoch.")
    rate_hz: float | None = Field(None, description="Samples a second, lost ones counted.")
    nominal_hz: float | None = Field(None, description="Rate that the recording's config.yaml asks for.")
    clock_ppm: float | None = Field(
        None, description="The sensor's rate against the configured one, by the host's clock, in millionths."
    )
    intervals: Intervals | None = Field(None, description="Intervals and jitter; null below three samples.")
    gaps: int = Field(0, description="Intervals longer than 1.55 median ones.")
    lost: int = Field(0, description="Samples that would fill the gaps.")
    longest_gap_s: float = Field(0.0, description="Longest gap, s.")
    invalid: int = Field(0, description="Samples with `valid` = 0.")
    bytes: int = Field(0, description="Bytes of all channels.")
    channels: tuple[ChannelSummary, ...] = Field((), description="Its channels.")


class Motion(_Model):
    """Where the rover went, from `_odom`, or else from `_reference`. Lengths are 0 below two valid poses."""

    source: str = Field("_odom", description="The sensor that has the poses.")
    distance_m: float = Field(description="Length of the path of valid poses, m.")
    extent_m: tuple[float, float, float] = Field(description="Size of the box around the path, m. [xyz]")
    end_to_start_m: float = Field(description="Distance of the last valid pose from the first, m.")
    max_speed_mps: float = Field(description="Largest speed, m/s.")
    median_speed_mps: float = Field(description="Median speed, m/s.")
    invalid: int = Field(description="Poses with `valid` = 0.")
    samples: int = Field(description="Poses.")
    quality: dict[str, tuple[float, float, float]] = Field(
        {}, description="Quality channels of `_odom`: least, median and largest value."
    )
    truth_rms_m: float | None = Field(None, description="RMS distance from the simulator's truth, m; null without one.")
    reference_rms_m: float | None = Field(
        None,
        description="RMS distance from a reference that came with the recording (`_reference`), after the rotation and "
        "translation that fit best, m; null without one.",
    )
    path_m: tuple[tuple[float, float], ...] = Field((), description="The path from above, thinned, m. [point, xy]")


class RadarSpeed(_Model):
    """Speed against the largest one that the radar measures without ambiguity."""

    max_doppler_mps: float = Field(description="Largest radial speed that does not wrap, m/s: half the Doppler axis.")
    above_share: float | None = Field(None, description="Share of valid poses that are faster.")
    max_speed_mps: float | None = Field(None, description="Largest speed of the radar, m/s.")
    difference_mps: float | None = Field(
        None, description="RMS difference between the speeds of `_radar_velocity` and of the radar's pose, m/s."
    )
    contradicted_share: float | None = Field(
        None,
        description="Share of frames in which these speeds differ by more than 0.5 m/s and three "
        "standard deviations of the radar's.",
    )
    contradicted_mps: tuple[float, float] | None = Field(
        None, description="Median speeds by the pose and by `_radar_velocity` in those frames, m/s."
    )


class SyncSummary(_Model):
    """Times of one sensor beside those of the reference, from `_sync`."""

    sensor: str = Field(description="The sensor.")
    matched: int = Field(description="Reference samples with a partner within the tolerance.")
    missing: int = Field(description="Reference samples without one.")
    median_ms: float | None = Field(None, description="Median signed residual, ms.")
    p50_ms: float | None = Field(None, description="Median absolute residual, ms.")
    p95_ms: float | None = Field(None, description="95th percentile of the absolute residual, ms.")
    p99_ms: float | None = Field(None, description="99th percentile of the absolute residual, ms.")
    max_ms: float | None = Field(None, description="Largest absolute residual, ms.")
    drift_ppm: float | None = Field(None, description="Change of the clock's rate over the recording, millionths.")
    latency_p95_ms: float | None = Field(None, description="95 % of samples arrive this soon after the fastest, ms.")


class MountSummary(_Model):
    """A sensor's mount as the recording shows it, in the frame of the lidar."""

    sensor: str = Field(description="The sensor.")
    translation: tuple[float, float, float] = Field(description="Of the sensor, m. [xyz]")
    rotation: tuple[tuple[float, float, float], ...] = Field(description="Lidar-from-sensor. [lidar, sensor]")
    time_offset: float = Field(description="What is added to the sensor's times, s.")
    covariance: tuple[tuple[float, ...], ...] = Field(
        description="Of rotation, rad, translation, m, and time, s, as `rover-pipeline calibrate rig` writes it. "
        "[rotation, translation and time; the same]"
    )
    shared: tuple[tuple[float, ...], ...] = Field(
        description="The part of it that all recordings of the sensor share. [rotation, translation and time; the same]"
    )


class StepSummary(_Model):
    """How a result was made, from its `provenance.json`."""

    sensor: str = Field(description="The virtual sensor, or folder of files.")
    step: str = Field(description="Dotted name of the step.")
    version: int | str = Field(description="Version of the step.")
    samples: int = Field(0, description="Samples made.")
    invalid: int = Field(0, description="Of these, with `valid` = 0.")
    corrupt: int = Field(0, description="Input samples that could not be decoded, or were not measured as a whole.")
    dropped: int = Field(0, description="Input samples left out, because not all channels have them.")
    bytes: int = Field(0, description="Bytes of all its files.")
    seconds: float | None = Field(None, description="Time taken, s.")
    started: str = Field("", description="When it was started, ISO 8601.")
    notes: tuple[str, ...] = Field((), description="Its warnings and notes.")
    left_out: str = Field("", description="Why it made nothing, where the recording cannot give the result.")


class Summary(_Model):
    """The whole of `summary.json`."""

    schema_version: int = Field(SCHEMA, description="1; raised when a key changes its meaning.")
    trace: str = Field(description="Name of the trace's directory.")
    verdict: Verdict = Field(description="`bad` when there is an error, `fair` when there is a warning, else `good`.")
    headline: str = Field(description="The verdict in a sentence.")
    findings: tuple[Finding, ...] = Field((), description="What is wrong, worst first.")
    start_s: float | None = Field(None, description="First time of a raw sensor, seconds since the Unix epoch.")
    duration_s: float = Field(0.0, description="From the first to the last time of a raw sensor, s.")
    raw_bytes: int = Field(0, description="Bytes of the raw sensors.")
    derived_bytes: int = Field(0, description="Bytes of the virtual sensors and folders of files.")
    simulated: bool = Field(False, description="Whether a simulator made the recording.")
    sensors: tuple[SensorSummary, ...] = Field((), description="All sensors, virtual ones last.")
    motion: Motion | None = Field(None, description="Null without `_odom` and `_reference`.")
    radar_speed: RadarSpeed | None = Field(None, description="Null without several chirps and a Doppler resolution.")
    sync: tuple[SyncSummary, ...] = Field((), description="Empty without `_sync`.")
    mounts: tuple[MountSummary, ...] = Field((), description="Of sensors whose mount the recording shows.")
    tested: dict[str, str] = Field(
        {}, description="Sensor -> from which size on errors of its mount are found, and which are not tested."
    )
    steps: tuple[StepSummary, ...] = Field((), description="In the order in which they were started.")
