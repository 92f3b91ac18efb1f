"""An `_objects` as the step makes it, from the truth of a simulated recording, for tests of annotations."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.objects.options import CLASSES
from tests.kit import spec_of

EXTENT = (0.6, 0.4, 1.7)
#: Slots of a sample; those past `count` hold NaN.
SLOTS = 5


def write_objects(trace: Path, yaw: float = 0.5) -> np.ndarray:
    """Give a simulated recording the boxes of its bodies. Returns their centres in the world, f8 (sample, body, 3)."""
    truth = Sensor(trace / "_truth")
    bodies = truth.channel("bodies").read()
    frames, count = bodies.shape[:2]
    arrays = {
        "centre": np.full((frames, SLOTS, 3), np.nan, "f4"),
        "extent": np.full((frames, SLOTS, 3), np.nan, "f4"),
        "vel": np.full((frames, SLOTS, 3), np.nan, "f4"),
        "yaw": np.full((frames, SLOTS), np.nan, "f4"),
        "track": np.full((frames, SLOTS), -1, "i4"),
        "probability": np.full((frames, SLOTS, len(CLASSES)), np.nan, "f4"),
    }
    arrays["centre"][:, :count], arrays["vel"][:, :count] = bodies[..., :3], bodies[..., 3:]
    arrays["extent"][:, :count], arrays["yaw"][:, :count] = EXTENT, yaw
    arrays["track"][:, :count] = np.arange(count)
    arrays["probability"][:, :count] = [0.05, 0.8, 0.1, 0.05]
    specs: dict[str, ChannelSpec] = {name: spec_of(values) for name, values in arrays.items()}
    text = f"Probability of each class by rules of size and speed, not learned: {', '.join(CLASSES)}. [object, class]"
    specs["probability"] = specs["probability"].model_copy(update={"desc": text})
    specs |= {TS: TS_SPEC, VALID: VALID_SPEC, "count": spec_of(np.zeros(frames, "u2"))}
    with SensorWriter(trace / "_objects", specs) as writer:
        counts = np.full(frames, count, "u2")
        writer.append(ts=truth.channel("ts").read(), valid=np.ones(frames, "u1"), count=counts, **arrays)
    return np.asarray(bodies[..., :3])
