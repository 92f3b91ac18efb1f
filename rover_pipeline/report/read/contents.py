"""What a few samples of each raw sensor hold: a sensor that ran but saw nothing has files without a fault."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.draw.formatting import count as counted
from rover_pipeline.draw.formatting import percent
from rover_pipeline.errors import ConfigError, unless_damaged
from rover_pipeline.format.channels.jpeg import FACTORS, PictureChannel
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.trace import Trace
from rover_pipeline.kinematics.mounts import compare
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.options import ReportOptions
from rover_pipeline.radar.health import clipped_share
from rover_pipeline.report.read.sensors import SensorRecord
from rover_pipeline.report.summary import Finding, MountSummary, Severity, finding
from rover_pipeline.report.tuning import TUNING
from rover_pipeline.validation.against import Comparison, contradiction_text
from rover_pipeline.validation.mounts import shown_mounts


def look_into(trace: Trace, records: Mapping[str, SensorRecord], results: Collection[str]) -> list[Finding]:
    """What a look at a few samples of the raw sensors finds. What one of the virtual sensors that are there, `results`,
    reports of all samples is not reported of some here."""
    remarks: list[Finding] = []
    rig = Rig(trace.path)
    for type, channel, axes, look in _LOOKS:
        for record in (records[name] for name in rig.of(type) if name in records):
            spec = record.sensor.specs.get(channel) if record.sensor else None
            if spec is None or len(spec.shape) != axes or spec.dtype.kind not in "iuf":
                continue
            if look is _saturated and f"_{record.name}_quality" in results:
                continue
            if len(samples := _samples(trace, record, channel, few=type != "imu")):
                remarks += [finding(how, f"{record.name}/{channel}", text) for text, how in look(samples)]
    for name in (each for each in rig.of("camera") if f"_{each}_pose" in results):
        with unless_damaged():
            remarks += [finding(how, f"{name}/video.avi", text) for text, how in _hung(trace, name)]
    return remarks


def _samples(trace: Trace, record: SensorRecord, name: str, *, few: bool) -> np.ndarray:
    """Samples that are valid and can be decoded, (sample, ...): as many as the page shows, or all. `check` names the
    others."""
    chosen = record.samples[record.valid != 0]
    found = []
    with unless_damaged():
        channel: Any = trace.source(record.name, name).channel(name)
        chosen = chosen[chosen < len(channel)]
        if not few:
            return np.asarray(channel.read_whole()[chosen])
        if isinstance(channel, PictureChannel):
            channel = channel.reduced(max(FACTORS))
        places = np.linspace(0, len(chosen) - 1, ReportOptions().instants).round().astype(int) if len(chosen) else ()
        for at in np.unique(places):
            with unless_damaged():
                found.append(channel.sample(int(chosen[at])))
    return np.stack(found) if found else np.empty(0)


_Found = Iterator[tuple[str, Severity]]


def _blind(ranges: np.ndarray) -> _Found:
    """Sweeps of the lidar, mm, (sweep, beam, column)."""
    if not ((ranges > 0) & (ranges < CLIPPED)).any():
        yield f"has no return in any of {counted(len(ranges), 'sweep')} looked at: the lidar sees nothing", "error"


def _empty(counts: np.ndarray) -> _Found:
    """Number of points of each sweep of a lidar that sends points, (sweep,)."""
    if not counts.any():
        yield f"is 0 in {counted(len(counts), 'sweep')} looked at: the lidar sees nothing", "error"


def _saturated(iq: np.ndarray) -> _Found:
    """Frames of the radar, (frame, chirp, tx, rx, word)."""
    if iq.min() == iq.max():
        yield (
            f"holds nothing but {int(iq.flat[0])} in {counted(len(iq), 'frame')} looked at: no signal arrives",
            "error",
        )
        return
    shares = clipped_share(iq) if iq.dtype.kind in "iu" else np.zeros(len(iq))
    if (shares > 0).any():
        yield (
            f"is clipped in {int((shares > 0).sum())} of {counted(len(iq), 'frame')} looked at, up to "
            f"{percent(float(shares.max()))} of a frame: the receiver saturates, which makes targets where there are "
            "none; lower its gain",
            "warning",
        )


def _pictures(images: np.ndarray) -> _Found:
    """Pictures of the camera, (picture, row, column, 3)."""
    flat = images.reshape(len(images), -1, images.shape[-1])
    if (np.ptp(flat, axis=1) <= TUNING.one_colour).all():
        text = f"shows one colour in {counted(len(images), 'picture')} looked at: it is dark, or the lens covered"
        yield text, "error"
    elif len(images) > 1 and (images == images[0]).all():
        text = f"shows the same in {counted(len(images), 'picture')} looked at: the camera hung, or nothing moved"
        yield text, "warning"


def _hung(trace: Trace, camera: str) -> _Found:
    """Pictures that are the one before them although the camera has moved since: labels of their times do not fit them.

    Noise makes any two pictures differ; those of a camera without noise are the same where it stands.
    """
    channel, pose = trace.source(camera, "video.avi").channel("video.avi"), trace.sensor(f"_{camera}_pose")
    if not isinstance(channel, PictureChannel):
        return
    length = min(len(channel), pose.length())
    repeats = channel.repeats()[:length]
    shown = np.maximum.accumulate(np.where(repeats, 0, np.arange(length)))  # the picture that a repeated one is
    pos, rot, cov = (pose.channel(name).read_whole(length) for name in ("pos", "rot", "cov"))
    turned = np.einsum("nji,nji->n", rot, rot[shown]).clip(-1, 3)  # the trace of the rotation between them
    way = np.sum((pos - pos[shown]) ** 2, axis=1), np.arccos((turned - 1) / 2) ** 2
    variances = np.einsum("nii->ni", cov + cov[shown]).reshape(-1, 2, 3).sum(2).T
    valid = pose.valid(length) != 0
    known = repeats & valid & valid[shown]
    # Three standard deviations: both are of the same trajectory, so that they differ by less than independent ones.
    moved = np.any([square > 9 * variance for square, variance in zip(way, variances, strict=True)], axis=0)
    wrong = known & moved
    if wrong.any():
        yield (
            f"repeats a picture while the camera moves, in {counted(int(wrong.sum()), 'picture')}, sample "
            f"{int(wrong.argmax())} first: the camera hung; labels of their times are of what they do not show",
            "warning",
        )


def _vectors(values: np.ndarray) -> _Found:
    """All values of a channel of the IMU, (sample, 3)."""
    bad = int((~np.isfinite(values)).any(axis=1).sum())
    if bad:
        yield f"has {counted(bad, 'sample')} that are not finite numbers", "error" if bad == len(values) else "warning"
    elif len(values) > 1 and (values == values[0]).all():
        yield f"is the same in all {counted(len(values), 'sample')}: the IMU hung, or does not measure it", "error"


#: What is looked at: type of the sensor, channel, number of axes of a sample, and the function. That gives texts about
#: what is wrong; it is an error where nothing can be made of the channel. Layout.
_LOOKS: tuple[tuple[str, str, int, Callable[[np.ndarray], _Found]], ...] = (
    ("lidar", "rng", 2, _blind),
    ("lidar", "count", 0, _empty),
    ("radar", "iq", 4, _saturated),
    ("camera", "video.avi", 3, _pictures),
    ("imu", "acc", 1, _vectors),
    ("imu", "avel", 1, _vectors),
)


#: What `read_mounts` returns.
MountsFound = tuple[list[MountSummary], list[tuple[str, str]], dict[str, str]]


def read_mounts(trace: Path) -> MountsFound:
    """Mounts that the recording shows; the sensors whose mount contradicts it, and by how much; and of each other one
    how far it was tested. A sensor of which nobody says where it is is where the lidar is."""
    found: list[MountSummary] = []
    wrong: list[tuple[str, str]] = []
    tested: dict[str, str] = {}
    # `check`, whose lines are on the page, names what is damaged, and the results say what is wrong with a rig.
    with suppress(ConfigError), unless_damaged():
        for each in shown_mounts(trace):
            off, estimate = compare(each.declared, each.estimate), each.estimate
            if estimate.adopted and off.is_wrong:
                stated = "what `rig` says" if each.declared.known else "the lidar's pose, which it gets: `rig` has none"
                wrong.append((each.sensor, f"{off} off {stated}"))
            else:
                shown = estimate.observed.any() and not off.is_wrong
                tested[each.sensor] = estimate.tested() if shown else "; ".join(("not tested", *estimate.remarks))
            if estimate.observed.any():
                values = estimate.mount._asdict() | {"covariance": estimate.covariance, "shared": estimate.shared}
                texts = {name: value.tolist() for name, value in values.items() if isinstance(value, np.ndarray)}
                found.append(MountSummary(sensor=each.sensor, time_offset=estimate.mount.time_offset, **texts))
    return found, wrong, tested


def contradicted(compared: Iterable[Comparison]) -> Iterator[Finding]:
    """What the page says of contradictions between `_odom` and references."""
    for found in compared:
        for each in found.contradictions:
            text = contradiction_text(each, Path(found.against).name)
            yield finding("error" if each.wrong else "warning", "_odom", text)
