"""One pass over the samples of a recording in an environment with torch: see `benchmarks/loading.py`.

python loading_peers.py CHECKOUT TRACE ours|roverd|litdata WORKERS CHANNELS
"""

from __future__ import annotations

import json
import resource
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_TYPES = {"u1": "<u1", "u2": "<u2", "f4": "<f4", "f8": "<f8"}
_BATCH = 4


class RoverdReader:
    """What roverd 0.3.5 does for a sample: each channel is opened for it, and a video too.

    The matched indices are computed beforehand, as its synchronisation does.
    """

    def __init__(self, trace: Path, channels: Mapping[str, Sequence[str]], indices: Mapping[str, np.ndarray]) -> None:
        self._indices = indices
        self._sensors = {}
        for sensor, names in channels.items():
            meta = json.loads((trace / sensor / "meta.json").read_text())
            self._sensors[sensor] = {name: (str(trace / sensor / name), meta[name]) for name in (*names, "ts")}

    def __len__(self) -> int:
        return len(next(iter(self._indices.values())))

    def __getitem__(self, at: int) -> dict[str, dict[str, np.ndarray]]:
        return {
            sensor: {name: self._read(*stored, int(self._indices[sensor][at]))[0] for name, stored in channels.items()}
            for sensor, channels in self._sensors.items()
        }

    def _read(self, path: str, spec: dict[str, Any], index: int) -> np.ndarray:
        if spec["format"] == "mjpg":
            return _roverd_video(path, index)
        dtype = np.dtype(_TYPES[spec["type"]])
        size = int(np.prod(spec["shape"])) * dtype.itemsize
        with open(path, "rb") as file:
            if index > 0:
                file.seek(size * index, 0)
            data = file.read(size)
        # A copy, because torch refuses to collate what cannot be written to without a warning.
        return np.frombuffer(data, dtype).reshape(-1, *spec["shape"]).copy()


def _roverd_video(path: str, index: int) -> np.ndarray:
    import cv2

    capture = cv2.VideoCapture(path)
    if index != 0:
        capture.set(cv2.CAP_PROP_POS_FRAMES, index - 1)
    frames: list[np.ndarray] = []
    while capture.isOpened():
        found, frame = capture.read()
        if not found or len(frames) == 1:
            break
        frames.append(frame[..., ::-1])
    capture.release()
    return np.stack(frames)


class Ours:
    """Synced samples without what peers do not give: only the channels and `ts`."""

    def __init__(self, trace: Path, channels: Mapping[str, Sequence[str]]) -> None:
        import rover_pipeline as rp

        names = [f"{sensor}/{name}" for sensor, listed in channels.items() for name in listed]
        self.synced = rp.open(trace).synced(*names)

    def __len__(self) -> int:
        return len(self.synced)

    def __getitem__(self, at: int) -> Any:
        return self.synced[at]


def litdata_samples(trace: Path, channels: Mapping[str, Sequence[str]], workers: int) -> Any:
    """LitData's own loader over the same samples in its own chunks. Pictures are kept as the JPEG that was recorded."""
    from litdata import StreamingDataLoader, StreamingDataset, optimize

    place = trace.with_name(f"{trace.name}_litdata")
    if not (place / "index.json").exists():
        optimize(Packed(trace, channels), list(range(len(Packed(trace, channels)))), str(place), chunk_bytes="64MB",
                 num_workers=1, mode="overwrite")  # fmt: skip

    class Decoded(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            import simplejpeg

            sample = super().__getitem__(index)
            sample["camera/video.avi"] = simplejpeg.decode_jpeg(sample["camera/video.avi"])
            return sample

    dataset = Decoded(str(place), shuffle=True)
    return StreamingDataLoader(dataset, batch_size=_BATCH, num_workers=workers)


class Packed:
    """The samples as LitData stores them."""

    def __init__(self, trace: Path, channels: Mapping[str, Sequence[str]]) -> None:
        self.ours = Ours(trace, channels)
        self.channels = channels

    def __len__(self) -> int:
        return len(self.ours)

    def __call__(self, at: int) -> dict[str, Any]:
        instant = int(self.ours.synced.instants[at])
        packed: dict[str, Any] = {}
        for name, member in self.ours.synced.members.items():
            for channel in member.channels:
                index = int(member.index[instant])
                stored: Any = channel._channel
                jpeg = stored.jpeg(index) if channel.is_picture else None
                packed[f"{name}/{channel.name}"] = channel.take(index) if jpeg is None else jpeg
        return packed


def main() -> None:
    import torch
    from torch.utils.data import DataLoader

    trace, reader, workers, channels = Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), json.loads(sys.argv[5])
    torch.set_num_threads(1)
    if reader == "litdata":
        loader = litdata_samples(trace, channels, workers)
    else:
        dataset: Any = Ours(trace, channels)
        if reader == "roverd":
            synced = dataset.synced
            indices = {name: member.index[synced.instants] for name, member in synced.members.items()}
            dataset = RoverdReader(trace, channels, indices)
        generator = torch.Generator().manual_seed(0)
        loader = DataLoader(dataset, batch_size=_BATCH, shuffle=True, num_workers=workers, generator=generator)
    used, begin = _processor(), time.perf_counter()
    count, digest = 0, 0
    sums: list[int] = []
    for batch in loader:
        power = batch["_radar_range_azimuth/power"] if reader == "litdata" else batch["_radar_range_azimuth"]["power"]
        count += len(power)
        sums += [zlib.crc32(one.numpy().tobytes()) for one in power]
    wall, used = time.perf_counter() - begin, _processor() - used
    for one in sorted(sums):
        digest = zlib.crc32(str(one).encode(), digest)
    print(json.dumps({"wall_ms": 1e3 * wall / count, "processor_ms": 1e3 * used / count, "digest": digest}))


def _processor() -> float:
    whole = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in whole)


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    main()
