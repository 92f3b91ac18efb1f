"""Steps that are small enough to see through, for tests of what runs steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from rover_pipeline.options import Options
from rover_pipeline.steps import Output, step

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
