"""Steps that are small enough to see through, for tests of what runs steps."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from rover_pipeline.engine.decorator import step
from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.shared import Shared
from rover_pipeline.engine.step import Inspection, Output
from rover_pipeline.format.channels import Channel
from rover_pipeline.options import Options
from rover_pipeline.radar.frames import Frames
from rover_pipeline.radar.options import RangeDopplerOptions
from rover_pipeline.radar.prepare import Prepared

IQ = {"iq": "radar/iq"}


class GainOptions(Options):
    """Of `gain`."""

    factor: float = Field(2.0, gt=0, description="What samples are multiplied by.")


@step(
    inputs=IQ,
    outputs={
        "mean": "Mean over chirps and words. [tx, rx]",
        "words": Output("First words. [word]", "lzmaf"),
        "frame": Output("A frame. [chirp, tx, rx, word]", "npz"),
        "picture": Output("A picture. [height, width, rgb]", "jpg"),
        "video.avi": Output("The same, moving. [height, width, rgb]", "mjpg"),
    },
    version=3,
)
def everything(iq: np.ndarray) -> dict[str, np.ndarray]:
    """A channel in every format that can be made sample by sample."""
    grey = (iq[:, 0, 0, 0, :1] % 256).astype("u1")
    picture = np.broadcast_to(grey[:, :, None, None], (len(iq), 16, 16, 3))
    return {
        "mean": iq.mean(axis=(1, 4)).astype("f4"),
        "words": iq[:, 0, 0, 0],
        "frame": iq,
        "picture": picture,
        "video.avi": picture,
    }


@step(inputs=IQ, outputs={"power": "Mean square. [tx]"}, version=1)
def gain(iq: np.ndarray, *, options: GainOptions) -> np.ndarray:
    """One output, and options."""
    return (np.square(iq, dtype="f4").mean(axis=(1, 3, 4)) * np.float32(options.factor)).astype("f4")


@step(inputs=IQ, whole={"all": "radar/iq"}, by_range=("radar/iq",), outputs={"change": "Of the first word."}, version=1)
def change(iq: np.ndarray, *, all: Channel) -> np.ndarray:
    """Since the first frame, of which a range is read."""
    assert isinstance(all, Channel)
    return (iq - all[:1].astype("f4"))[:, 0, 0, 0, 0]


@step(inputs=IQ, outputs={"mean": "Mean of three frames. [tx]"}, version=1, halo=1)
def smooth(iq: np.ndarray) -> np.ndarray:
    """The mean of each frame and its neighbours, fewer at the ends."""
    means = iq.mean(axis=(1, 3, 4))
    padded = np.pad(means, ((1, 1), (0, 0)))
    weight = np.pad(np.ones(len(means)), 1)
    total = padded[:-2] + padded[1:-1] + padded[2:]
    return np.asarray(total / (weight[:-2] + weight[1:-1] + weight[2:])[:, None])


@step(inputs=IQ, outputs={"total": "Sum of all samples so far.", "seen": "Frames so far."}, version=1, ordered=True)
def total(iq: np.ndarray, *, state: tuple[float, int] | None) -> tuple[dict[str, np.ndarray], Any]:
    """Carries a sum and a count from frame to frame."""
    before, frames = state or (0.0, 0)
    sums, seen = [], []
    for frame in iq:
        before, frames = before * 0.5 + float(frame.sum()), frames + 1
        sums.append(before)
        seen.append(frames)
    return {"total": np.array(sums), "seen": np.array(seen, "u4")}, (before, frames)


@step(inputs=IQ, outputs={"loud": "Mean of magnitudes. [tx]"}, version=1)
def loud(iq: np.ndarray) -> dict[str, np.ndarray]:
    """Marks frames whose first word is negative as not to be trusted."""
    return {"loud": np.abs(iq.astype("f4")).mean(axis=(1, 3, 4)), "valid": iq[:, 0, 0, 0, 0] >= 0}


@step(
    inputs={"rng": "lidar/rng", "iq": "radar/iq"},
    files={"metadata": "lidar/lidar.json", "sidecar": "radar/radar.json"},
    outputs={"sum": "Sums of both. [sensor]"},
    version=1,
)
def both(rng: np.ndarray, iq: np.ndarray, *, metadata: str, sidecar: str = "") -> np.ndarray:
    """Two sensors of equal times."""
    return np.stack([rng.sum(axis=(1, 2), dtype="i8"), iq.sum(axis=(1, 2, 3, 4), dtype="i8")], axis=1)


@step(inputs={"video": "camera/video.avi"}, outputs={"brightness": "Mean. [rgb]"}, version=1)
def brightness(video: np.ndarray) -> np.ndarray:
    """From a camera, wherever its video is."""
    return video.mean(axis=(1, 2)).astype("f4")


@step(
    inputs={"ts": "radar/ts"},
    whole={"lidar_ts": "lidar/ts", "lidar_valid": "lidar/valid", "times": "*/ts", "gnss": "gnss/fix"},
    nearest={"rng": "lidar/rng", "near_ts": "lidar/ts"},
    outputs={"*": "Of the {name}.", "rng": "The nearest ranges. [beam, column]"},
    version=1,
)
def beside(
    ts: np.ndarray,
    rng: np.ndarray,
    near_ts: np.ndarray,
    *,
    lidar_ts: np.ndarray,
    lidar_valid: np.ndarray,
    times: dict[str, np.ndarray],
    gnss: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Sensors with times of their own."""
    assert gnss is None and len(lidar_ts) == len(lidar_valid)
    last = {name: np.searchsorted(other, ts, side="right") - 1 for name, other in times.items()}
    return {**last, "rng": rng, "valid": np.abs(near_ts - ts) < 0.04}


class SegmentOptions(Options):
    """Of `segments`."""

    frames: int = Field(4, gt=0, description="Frames of a segment.")


class _Energy:
    """Mean square of a segment; goes to other processes."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def __call__(self, start: int, stop: int) -> float:
        return float(np.square(self.recording.read("iq", start, stop), dtype="f8").mean())


@step(inputs=IQ, outputs={"energy": "Mean square of its segment."}, version=1, recording=True)
def segments(recording: Recording, *, options: SegmentOptions) -> tuple[dict[str, np.ndarray], Inspection]:
    """The whole recording at once, in segments."""
    edges = [(at, min(at + options.frames, recording.count)) for at in range(0, recording.count, options.frames)]
    energies = list(recording.map(_Energy(recording), edges, "segments"))
    frames = np.repeat(energies, [stop - start for start, stop in edges])
    told = Inspection({"segments": len(edges)}, [f"{len(edges)} segments"], {"segments.txt": f"{len(edges)}\n"})
    return {"energy": frames, "valid": np.arange(recording.count) != 4}, told


class RangesOptions(SegmentOptions):
    """As `SegmentOptions`, and whether the last frame is forgotten."""

    forgets: bool = Field(False, description="Leaves the last frame out.")


@step(inputs=IQ, outputs={"energy": "Mean square."}, version=1, recording=True)
def one_by_one(recording: Recording, *, options: RangesOptions) -> Iterator[dict[str, np.ndarray] | Inspection]:
    """Ranges of frames, each when it is ready."""
    count = recording.count - options.forgets
    for start in range(0, count, options.frames):
        frames = recording.read("iq", start, min(start + options.frames, count))
        energy = np.square(frames, dtype="f8").mean(axis=tuple(range(1, frames.ndim)))
        yield {"energy": energy, "valid": start + np.arange(len(frames)) != 4}
    yield Inspection({"count": count}, ["all frames are done"])


class _MeanRange:
    """Mean range of each frame of a segment."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def __call__(self, start: int, stop: int) -> np.ndarray:
        return self.recording.read("rng", start, stop).mean(axis=(1, 2))


@step(inputs={"rng": "lidar/rng"}, outputs={"mean": "Mean range, mm."}, version=1, recording=True)
def mean_range(recording: Recording) -> np.ndarray:
    """Reads every frame in segments of two."""
    edges = [(at, min(at + 2, recording.count)) for at in range(0, recording.count, 2)]
    return np.concatenate(list(recording.map(_MeanRange(recording), edges)))


@step(inputs=IQ, outputs={"collecting": "Whether Python looks for garbage."}, version=1)
def watchful(iq: np.ndarray) -> np.ndarray:
    """Tells how its process runs."""
    return np.full(len(iq), gc.isenabled(), "u1")


@step(inputs=IQ, products={"sum.txt": "Sum of all samples.", "name.txt": "Of the trace."}, version=1, recording=True)
def folder(recording: Recording, *, trace: Path) -> dict[str, bytes]:
    """Files, and no sensor."""
    total = sum(int(recording.read("iq", at, at + 1).sum()) for at in range(recording.count))
    return {"sum.txt": str(total).encode(), "name.txt": (trace / "config.yaml").read_bytes()}


@step(inputs=IQ, outputs={"a": "A.", "b": "B."}, version=1)
def forgetful(iq: np.ndarray) -> dict[str, np.ndarray]:
    """Declares more than it returns."""
    return {"a": np.zeros(len(iq))}


@step(inputs=IQ, outputs={"a": "A."}, version=1)
def talkative(iq: np.ndarray) -> dict[str, np.ndarray]:
    """Returns more than it declares."""
    return {"a": np.zeros(len(iq)), "extra": np.zeros(len(iq))}


@step(inputs=IQ, outputs={"a": "A."}, version=1)
def short(iq: np.ndarray) -> np.ndarray:
    """Drops frames that are not valid, as no step may."""
    return np.zeros(max(1, len(iq) - 1))


@step(inputs=IQ, outputs={"a": "A. [x]"}, version=1)
def moody(iq: np.ndarray) -> np.ndarray:
    """Changes the shape of its result with the number of frames."""
    return np.zeros((len(iq), len(iq)))


@step(inputs=IQ, outputs={"a": "A."}, version=1)
def failing(iq: np.ndarray) -> np.ndarray:
    """Fails on more than the first frame."""
    if len(iq) > 1:
        raise ValueError("first line\nsecond line")
    return np.zeros(1)


@step(inputs=IQ, outputs={"a": Output("A. [word]", type="f4")}, version=1)
def whole(iq: np.ndarray) -> np.ndarray:
    """Returns another type than it declares."""
    return np.ones((len(iq), 3), "i4")


@step(inputs=IQ, outputs={"a": "A. [word]"}, version=1)
def flat(iq: np.ndarray) -> np.ndarray:
    """Returns fewer axes than it declares."""
    return np.ones(len(iq))


@step(inputs=IQ, outputs={"a": "A."}, version=1)
def mistyped(iq: Any) -> np.ndarray:
    """Calls what there is not."""
    return np.asarray(iq.summ(axis=1))


@step(inputs=IQ, outputs={"a": "A."}, version=1)
def wordy(iq: np.ndarray) -> np.ndarray:
    """Returns what no channel holds."""
    return np.array(["text"] * len(iq))


@step(inputs=IQ, outputs={"a": "A."}, version=1)
def unsure(iq: np.ndarray) -> dict[str, np.ndarray]:
    """Returns `valid` of a wrong shape."""
    return {"a": np.zeros(len(iq)), "valid": np.ones((len(iq), 2), bool)}


@step(inputs={"echo": "sonar/echo"}, outputs={"a": "A."}, version=1)
def sonar(echo: np.ndarray) -> np.ndarray:
    """Needs a sensor that no trace has."""
    return echo


@step(inputs=IQ, outputs={"sum": "Sum of all samples."}, version=1, shares="radar")
def rude(iq: np.ndarray) -> np.ndarray:
    """In the pass of the radar; spoils what it is given."""
    total = iq.sum(axis=(1, 2, 3, 4), dtype="i8")
    iq[:] = 0
    return np.asarray(total)


@step(inputs=IQ, outputs={"a": "A."}, version=1, shares="radar")
def halting(iq: np.ndarray) -> np.ndarray:
    """In the pass of the radar; fails on a frame whose first word is 12345."""
    if (iq[:, 0, 0, 0, 0] == 12345).any():
        raise ValueError("12345")
    return np.zeros(len(iq))


@step(
    inputs=IQ,
    outputs={"power": "Mean power over Doppler. [range]"},
    prepare="rover_pipeline.radar.prepare:prepare",
    version=1,
    shares="radar",
)
def profile(
    iq: np.ndarray,
    *,
    options: RangeDopplerOptions,
    prepared: Prepared | None = None,
    shared: Shared | None = None,
) -> np.ndarray:
    """A user's channel from the transform of the radar's own steps."""
    frames = Frames(iq, options, False, prepared.coupling if prepared else None, shared)
    return np.stack([frames.power(i).mean(axis=0) for i in range(len(frames))])
