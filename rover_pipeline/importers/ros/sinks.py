"""Writers of the sensors of a trace from decoded messages: IMU, GNSS, poses, and radars that send points.

Each takes messages in the order of their times. A sensor is made by its first message, so that none stays empty.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import cv2
import numpy as np
from scipy.constants import g
from scipy.spatial.transform import Rotation

from rover_pipeline.format.channels.jpeg import FACTORS, decode, encode, frame_size, marker_problem, png_size
from rover_pipeline.format.files import replace_json
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES, ChannelSpec, raw
from rover_pipeline.format.sensor import VALID, VALID_SPEC, SensorWriter
from rover_pipeline.importers.reference import REFERENCE, ReferenceWriter
from rover_pipeline.importers.ros.layouts import DOPPLER, SNR, STRENGTH, columns, find_field, vectors
from rover_pipeline.importers.ros.survey import pose_matrix
from rover_pipeline.importers.tuning import TUNING
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.robust import FALSE_ALARM

#: Samples, and numbers in the largest channel of a radar, that are written at once. Schedule.
_BATCH, _MAX_NUMBERS = 4096, 1 << 22


class Sink(ABC):
    """Takes the messages of one topic. `count` is how many samples were written; `notes` say what was assumed or left
    out, one line each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.notes: list[str] = []

    #: Whether `prepare` takes so long that threads should do it, and messages may be prepared at the same time.
    threaded = False

    def prepare(self, content: dict[str, Any]) -> Any:
        """What can be done with the decoded fields of a message before the messages before it are added. Raises
        ValueError where it cannot be a sample."""
        return content

    @abstractmethod
    def add(self, ns: int, prepared: Any) -> None:
        """Take one message, as `prepare` gave it, of the time `ns` since 1970; as s, a float has 0.2 us of it. Raises
        ValueError when it cannot be a sample."""

    @abstractmethod
    def close(self) -> None:
        """Write what is left and make the sensor complete."""


class BatchSink(Sink):
    """A sensor of small samples, which are written many at once."""

    #: What each channel is, of which a sensor may have only some.
    specs: ClassVar[Mapping[str, ChannelSpec]] = {}
    #: Samples that are written at once.
    batch = _BATCH

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._rows: list[tuple[Any, ...]] = []
        self._writer: SensorWriter | None = None

    def push(self, ns: int, *values: Any) -> None:
        # The arrays of a message are views into the chunk of the bag that it came in, which they would keep in memory.
        self._rows.append((ns / 1e9, *(each.copy() if isinstance(each, np.ndarray) else each for each in values)))
        self.count += 1
        if len(self._rows) >= self.batch:
            self._flush()

    def close(self) -> None:
        self._flush()
        if self._writer:
            self._writer.close()

    @abstractmethod
    def channels(self, *values: tuple[Any, ...]) -> dict[str, np.ndarray]:
        """The samples of some messages, (message, ...), by channel, from the values of all of them."""

    def open_writer(self, names: Iterable[str]) -> SensorWriter:
        """The writer of the sensor, which has the channels `names` besides its times."""
        return SensorWriter(self.folder, {name: self.specs[name] for name in names})

    def _flush(self) -> None:
        if not self._rows:
            return
        ts, *values = zip(*self._rows, strict=True)
        samples = self.channels(*values)
        if self._writer is None:
            self._writer = self.open_writer(samples)
        self._writer.append(ts=np.array(ts), **samples)
        self._rows = []


class ImuSink(BatchSink):
    """`sensor_msgs/Imu`: `acc`, `avel`, and `rot` where the device gives its orientation."""

    specs: ClassVar[Mapping[str, ChannelSpec]] = {
        VALID: VALID_SPEC,
        "rot": raw("f4", (3,), "Roll, pitch, yaw of the device's own estimate, rad, intrinsic XYZ. [rpy]"),
        "acc": raw("f4", (3,), "Acceleration, gravity included, m/s^2. [xyz], IMU frame."),
        "avel": raw("f4", (3,), "Angular velocity, rad/s. [xyz], IMU frame."),
    }

    _scale = 0.0  # of accelerations; 0 = not known yet
    _oriented = False

    def add(self, ns: int, content: dict[str, Any]) -> None:
        self.push(ns, content["values"])

    def channels(self, *values: tuple[Any, ...]) -> dict[str, np.ndarray]:
        # Quaternion 0 to 3 and its covariance 4 to 12, angular velocity 13 to 15, acceleration 25 to 27. A covariance
        # whose first number is -1 says that there is no such measurement.
        rows = np.array(values[0], "f8")
        acc, avel, quaternion = rows[:, 25:28], rows[:, 13:16], rows[:, :4]
        known = np.isfinite(quaternion).all(axis=1) & (np.linalg.norm(quaternion, axis=1) > 0.5) & (rows[:, 4] != -1)
        if not self._scale:
            self._oriented = bool(known.any())
            size = float(np.median(np.linalg.norm(acc, axis=1)))
            self._scale = g if TUNING.gravity_range[0] < size < TUNING.gravity_range[1] else 1.0
            if self._scale != 1:
                self.notes.append(f"its accelerations have a length of {size:.2f}: taken for g and stored as m/s^2")
        valid = np.isfinite(acc).all(axis=1) & np.isfinite(avel).all(axis=1)
        valid &= (rows[:, 16] != -1) & (rows[:, 28] != -1)
        result = {VALID: valid.astype("u1")}
        if self._oriented:
            rot = np.full((len(rows), 3), np.nan, "f4")
            if known.any():
                rot[known] = Rotation.from_quat(quaternion[known]).as_euler("XYZ")
            result["rot"] = rot
        return result | {"acc": (acc * self._scale).astype("f4"), "avel": avel.astype("f4")}


class GnssSink(BatchSink):
    """`sensor_msgs/NavSatFix`."""

    specs: ClassVar[Mapping[str, ChannelSpec]] = {
        VALID: VALID_SPEC,
        "lat": raw("f8", (), "Latitude, degrees, WGS 84."),
        "lon": raw("f8", (), "Longitude, degrees, WGS 84."),
        "alt": raw("f8", (), "Height above the ellipsoid, m, WGS 84."),
        "cov": raw("f4", (3, 3), "Covariance of the position, m2; NaN where unknown. [east-north-up, east-north-up]"),
        "status": raw("i1", (), "-1 no fix, 0 a fix, 1 with satellite corrections, 2 with those of a ground station."),
    }

    def add(self, ns: int, content: dict[str, Any]) -> None:
        known = content["covariance_type"] != 0
        cov = content["covariance"] if known else np.full(9, np.nan)
        self.push(ns, content["position"], cov, content["status"])

    def channels(self, *values: tuple[Any, ...]) -> dict[str, np.ndarray]:
        position, status = np.array(values[0], "f8"), np.array(values[2], "i1")
        return {
            VALID: ((status >= 0) & np.isfinite(position).all(axis=1)).astype("u1"),
            **dict(zip(("lat", "lon", "alt"), position.T, strict=True)),
            "cov": np.array(values[1], "f4").reshape(-1, 3, 3),
            "status": status,
        }


class ReferenceSink(BatchSink):
    """Odometry and poses of any kind as the virtual sensor `_reference`.

    Args:
        trace: folder of the trace.
        body: what the poses are of.
        mount: `T_body_lidar`, f8 (4, 4), where the poses are those of another body and `tf` says where the lidar is on
            it: the poses that are stored are then the lidar's. None = they are stored as they are.
        options: what the poses came from; inputs: fingerprints of the bags.
    """

    def __init__(
        self, trace: Path, body: str, mount: np.ndarray | None, options: dict[str, Any], inputs: dict[str, Any]
    ) -> None:
        super().__init__(trace / REFERENCE)
        self._trace, self._body, self._options, self._inputs = trace, body, options, inputs
        self._mount = np.eye(4) if mount is None else mount

    def add(self, ns: int, content: dict[str, Any]) -> None:
        try:
            pose = matmul(pose_matrix(content["pose"]), self._mount)
        except ValueError:  # lost for the moment, as trackers say it
            pose = np.full((4, 4), np.nan)
        self.push(ns, pose)

    def channels(self, *values: tuple[Any, ...]) -> dict[str, np.ndarray]:
        poses = np.stack(values[0])
        return {"pos": poses[:, :3, 3], "rot": poses[:, :3, :3]}

    def open_writer(self, names: Iterable[str]) -> ReferenceWriter:
        return ReferenceWriter(
            self._trace, names, body=self._body, command="import ros", options=self._options, inputs=self._inputs
        )


class RadarSink(BatchSink):
    """Clouds with the radial velocity of each point: the sensor `radar` as points.

    Args:
        places: points of the largest cloud.
        sign: what the file's velocities are multiplied by, so that positive ones recede.
    """

    def __init__(self, folder: Path, places: int, fields: list[str], sign: float, source: str) -> None:
        super().__init__(folder)
        self._doppler = find_field(fields, DOPPLER)
        self._strength = find_field(fields, (*SNR, *STRENGTH))
        self._places, self._sign, self._source = max(places, 1), sign, source
        self.batch = max(1, min(_BATCH, _MAX_NUMBERS // (3 * self._places)))
        self._speeds: set[float] = set()
        is_snr = self._strength in SNR
        self._channel = "snr" if is_snr else "intensity"
        unit = "Signal over noise, dB" if is_snr else "Strength in the unit of the radar"
        self.specs = {  # type: ignore[misc]  # its own: they depend on the topic
            VALID: VALID_SPEC,
            "xyz": raw(
                "f4", (self._places, 3), "Points in the radar frame, front-left-up, m; NaN past count. [point, xyz]"
            ),
            "doppler": raw("f4", (self._places,), "Radial velocity, m/s; positive recedes. NaN past count. [point]"),
            self._channel: raw("f4", (self._places,), f"{unit}; NaN past count. [point]"),
            "count": raw("u2", (), "Number of points."),
        }

    def add(self, ns: int, content: dict[str, Any]) -> None:
        points = columns(content)
        xyz = vectors(points)
        doppler = points[self._doppler].astype("f4") * np.float32(self._sign)
        kept = np.isfinite(xyz).all(axis=1) & np.isfinite(doppler)
        xyz, doppler, points = xyz[kept], doppler[kept], points[kept]
        if len(self._speeds) < _BATCH:  # more are no multiples of a step
            self._speeds.update(np.abs(doppler).tolist())
        strength = points[self._strength].astype("f4") if self._strength else np.full(len(xyz), np.nan, "f4")
        self.push(ns, xyz, doppler, strength)

    def channels(self, *values: tuple[Any, ...]) -> dict[str, np.ndarray]:
        count = len(values[0])
        xyz = np.full((count, self._places, 3), np.nan, "f4")
        doppler, strength = np.full((2, count, self._places), np.nan, "f4")
        for i, (points, speeds, strengths) in enumerate(zip(*values, strict=True)):
            xyz[i, : len(points)], doppler[i, : len(points)], strength[i, : len(points)] = points, speeds, strengths
        counts = np.array([len(points) for points in values[0]], "u2")
        result = {VALID: np.ones(count, "u1"), "xyz": xyz, "doppler": doppler, "count": counts}
        return result | ({self._channel: strength} if self._strength else {})

    def close(self) -> None:
        super().close()
        if self.count:
            bin = bin_size(np.array(sorted(self._speeds)))
            described = {"max_points": self._places, "doppler_resolution": bin, "source": self._source}
            replace_json(self.folder / "points.json", described)


def bin_size(values: np.ndarray) -> float | None:
    """The step that all values are multiples of; None if they are not quantised, or too few to decide.

    Args:
        values: f8 (N,), the different values among the measurements, at least zero.
    """
    values = np.unique(np.asarray(values, "f8"))
    values = values[~np.isclose(values, np.append(0.0, values[:-1]))]  # they were rounded to 24 bits
    if len(values) < 2:
        return None
    step = float(np.diff(values, prepend=0.0).min())
    # The largest values give the step best, but only once it is known how many steps they are.
    for max_steps in (4, 32, 256, np.inf):
        near = values[values <= max_steps * step]
        number = np.round(near / step)
        if len(near):
            step = float((near * number).sum() / (number**2).sum())
    off = np.abs(values / step - np.round(values / step))
    # Values that are not quantised are anywhere between multiples of a step, which one of them gives.
    return step if (2 * off.max()) ** (len(values) - 1) < FALSE_ALARM else None


# Writes the sensor `camera` from pictures, JPEG without encoding them again, and its `camera.json`.

#: Encodings of sensor_msgs/image_encodings.h -> how OpenCV makes RGB of them, and channels of the stored array.
#: Layout.
_ENCODINGS: dict[str, tuple[int | None, int]] = {
    "rgb8": (None, 3), "bgr8": (cv2.COLOR_BGR2RGB, 3), "8UC3": (cv2.COLOR_BGR2RGB, 3),
    "rgba8": (cv2.COLOR_RGBA2RGB, 4), "bgra8": (cv2.COLOR_BGRA2RGB, 4), "8UC4": (cv2.COLOR_BGRA2RGB, 4),
    "mono8": (cv2.COLOR_GRAY2RGB, 1), "8UC1": (cv2.COLOR_GRAY2RGB, 1),
    # OpenCV names a Bayer pattern by its second row: its BG is what everybody else calls RGGB.
    "bayer_rggb8": (cv2.COLOR_BayerBG2RGB, 1), "bayer_bggr8": (cv2.COLOR_BayerRG2RGB, 1),
    "bayer_gbrg8": (cv2.COLOR_BayerGR2RGB, 1), "bayer_grbg8": (cv2.COLOR_BayerGB2RGB, 1),
    "yuv422": (cv2.COLOR_YUV2RGB_UYVY, 2), "uyvy": (cv2.COLOR_YUV2RGB_UYVY, 2),
    "yuv422_yuy2": (cv2.COLOR_YUV2RGB_YUY2, 2), "yuyv": (cv2.COLOR_YUV2RGB_YUY2, 2),
}  # fmt: skip
_DESC = "Pictures, RGB. [height, width, RGB]"


class _Picture(NamedTuple):
    """Attributes: jpeg: as it is stored; size: (height, width); was: what it was, where it was no JPEG; else empty."""

    jpeg: bytes
    size: tuple[int, int]
    was: str = ""


class CameraSink(Sink):
    """`sensor_msgs/Image` and `sensor_msgs/CompressedImage`."""

    threaded = True
    size: tuple[int, int] | None = None
    _writer: SensorWriter | None = None
    _encoded_again = ""

    def prepare(self, content: dict[str, Any]) -> _Picture:
        return _compressed(content) if "format" in content else _raw(content)

    def add(self, ns: int, prepared: _Picture) -> None:
        size = prepared.size
        if self.size is None:
            if not prepared.was:  # its markers do not say whether it can be decoded
                decode(prepared.jpeg, (*size, 3), FACTORS[-1])
            self.size = size
            video = ChannelSpec(format="mjpg", type="u1", shape=(*size, 3), desc=_DESC)
            self._writer = SensorWriter(self.folder, {"video.avi": video})
        if size != self.size or self._writer is None:
            raise ValueError(
                f"is a picture of {size[1]} x {size[0]}, those before it are {self.size[1]} x {self.size[0]}"
            )
        self._writer.append(ts=ns / 1e9, **{"video.avi": prepared.jpeg})
        self._encoded_again = prepared.was
        self.count += 1

    def close(self) -> None:
        if self._encoded_again:
            self.notes.append(f"its pictures are {self._encoded_again}: stored as JPEG, not lossless")
        if self._writer:
            self._writer.close()


def _compressed(content: dict[str, Any]) -> _Picture:
    """The picture of a CompressedImage. Raises ValueError where its markers show that it is damaged."""
    data = content["data"].tobytes()
    if data[:2] == b"\xff\xd8":
        size = frame_size(data)
        if size is None or b"\xff\xd9" not in data[-64:]:
            raise ValueError(f"is a JPEG of {len(data):,} bytes without its {'end' if size else 'headers'}")
        _require_size(size)
        if problem := marker_problem(data):
            raise ValueError(f"is a JPEG whose {problem}")
        return _Picture(data, size)
    size = png_size(data)
    if size is None:
        raise ValueError(f"is a picture of the format {content['format'][:40]!r}; JPEG and PNG can be read")
    _require_size(size)
    image = cv2.imdecode(content["data"], cv2.IMREAD_COLOR)
    if image is None:
        raise ValueError("is a PNG that cannot be decoded")
    return _Picture(encode(cv2.cvtColor(image, cv2.COLOR_BGR2RGB)), image.shape[:2], "PNG")


def _raw(content: dict[str, Any]) -> _Picture:
    """The picture of an Image, encoded. Raises ValueError where its sizes do not fit, or its encoding is not known."""
    encoding, height, width, step = (content[name] for name in ("encoding", "height", "width", "step"))
    if encoding not in _ENCODINGS:
        raise ValueError(f"has the encoding {encoding[:40]!r}; known: {', '.join(_ENCODINGS)}")
    conversion, channels = _ENCODINGS[encoding]
    if step < width * channels or len(content["data"]) < height * step or not height * width:
        raise ValueError(f"has {len(content['data']):,} bytes for {height} rows of {step}, of {width} pixels each")
    _require_size((height, width))
    rows = content["data"][: height * step].reshape(height, step)[:, : width * channels]
    image = rows.reshape(height, width, channels) if channels > 1 else rows
    if conversion is not None:
        image = cv2.cvtColor(np.ascontiguousarray(image), conversion)
    return _Picture(encode(image), (height, width), f"raw ({encoding})")


def _require_size(size: tuple[int, int]) -> None:
    # The sides of a JPEG have 16 bits.
    if max(size) > 0xFFFF or not 0 < 3 * size[0] * size[1] <= MAX_SAMPLE_BYTES:
        raise ValueError(f"is a picture of {size[1]} x {size[0]} pixels, which no camera makes")


def lens_of(info: dict[str, Any], size: tuple[int, int], rectified: bool) -> tuple[dict[str, Any] | None, str]:
    """The content of `camera.json` from a CameraInfo, and a note: why there is none, or what was assumed.

    Args:
        size: (height, width) of the pictures.
        rectified: whether the pictures are those after rectification, which the matrix P describes, without distortion.
    """
    height, width = info["height"], info["width"]
    model, d = str(info["distortion_model"]), [float(each) for each in info["d"]]
    matrix = info["p"].reshape(3, 4) if rectified else info["k"].reshape(3, 3)
    fx, fy, cx, cy = (float(matrix[at]) for at in ((0, 0), (1, 1), (0, 2), (1, 2)))
    if not (np.isfinite([fx, fy, cx, cy, *d]).all() and min(fx, fy) > 0):
        return None, "the camera is not calibrated: its CameraInfo has no focal length"
    note = ""
    if (height, width) != size:
        binning = [max(int(each), 1) for each in info["binning"]]
        if not all(info["roi"][:2] == 0) or (size[1] * binning[0], size[0] * binning[1]) != (width, height):
            return None, (
                f"its CameraInfo is for pictures of {width} x {height}, they are {size[1]} x {size[0]}: no camera.json"
            )
        # A pixel of the binned picture covers several, so the centre of the first one lies between them.
        fx, cx = fx / binning[0], (cx + 0.5) / binning[0] - 0.5
        fy, cy = fy / binning[1], (cy + 0.5) / binning[1] - 0.5
        note = f"its intrinsics are those of {width} x {height} pixels, divided by the binning"
    lens: dict[str, Any] = {"width": size[1], "height": size[0], "fx": fx, "fy": fy, "cx": cx, "cy": cy}
    if rectified or not any(d):
        return lens | {"model": "pinhole", "k": [], "p": []}, note
    if model in ("equidistant", "fisheye") and len(d) >= 4:
        return lens | {"model": "fisheye", "k": d[:4], "p": []}, note
    if model in ("plumb_bob", "rational_polynomial", "") and len(d) >= 4:
        if any(d[5:]):
            return None, f"its lens is a {model} with a denominator ({len(d)} coefficients), which no model here has"
        return lens | {"model": "brown", "k": [*d[:2], *d[4:5]], "p": d[2:4]}, note
    return None, f"its lens is a {model[:40]!r} with {len(d)} coefficients, which is not known: no camera.json"
