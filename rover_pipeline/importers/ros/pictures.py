"""Writes the sensor `camera` from pictures, JPEG without encoding them again, and its `camera.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import simplejpeg

from rover_pipeline.format.channels.jpeg import FACTORS, decode, encode, frame_size, marker_problem, png_size
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES, ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, SensorWriter
from rover_pipeline.importers.ros.sinks import Sink
from rover_pipeline.importers.tuning import TUNING

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
#: Those that the encoder takes as they are: it converts colours anyway.
_ORDERS = {"bgr8": "BGR", "8UC3": "BGR"}
_DESC = "Pictures, RGB. [height, width, RGB]"


class _Picture(NamedTuple):
    """Attributes: jpeg: as it is stored; size: (height, width); was: what it was, where it was no JPEG; else empty."""

    jpeg: bytes
    size: tuple[int, int]
    was: str = ""


class CameraSink(Sink):
    """`sensor_msgs/Image` and `sensor_msgs/CompressedImage`."""

    heavy = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.size: tuple[int, int] | None = None
        self._writer: SensorWriter | None = None
        self._encoded_again = ""

    def prepare(self, content: dict[str, Any], number: int) -> _Picture:
        return _compressed(content, number) if "format" in content else _raw(content)

    def add(self, ts: float, prepared: _Picture) -> None:
        size = prepared.size
        if self.size is None:
            self.size = size
            video = ChannelSpec(format="mjpg", type="u1", shape=(*size, 3), desc=_DESC)
            self._writer = SensorWriter(self.folder, {TS: TS_SPEC, "video.avi": video})
        if size != self.size or self._writer is None:
            raise ValueError(
                f"is a picture of {size[1]} x {size[0]}, those before it are {self.size[1]} x {self.size[0]}"
            )
        self._writer.append(ts=ts)
        self._writer.encoded("video.avi").append_encoded(prepared.jpeg)
        self._encoded_again = prepared.was
        self.count += 1

    def close(self) -> None:
        if self._encoded_again:
            self.notes.append(
                f"its pictures are {self._encoded_again}: stored as JPEG of quality {TUNING.jpeg_quality}, not lossless"
            )
        if self._writer:
            self._writer.close()


def _compressed(content: dict[str, Any], number: int) -> _Picture:
    """The picture of a CompressedImage. Raises ValueError where it is damaged, as far as that is looked for."""
    data = content["data"].tobytes()
    if data[:2] == b"\xff\xd8":
        size = frame_size(data)
        if size is None or b"\xff\xd9" not in data[-64:]:
            raise ValueError(f"is a JPEG of {len(data):,} bytes without its {'end' if size else 'headers'}")
        _require_size(size)
        if problem := marker_problem(data):
            raise ValueError(f"is a JPEG whose {problem}")
        if number < TUNING.first_decoded or number % TUNING.every_decoded == 0:
            decode(data, (*size, 3), FACTORS[-1])  # at an eighth of its size, which reads every bit
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
    order = _ORDERS.get(encoding, "RGB")
    if conversion is not None and encoding not in _ORDERS:
        image = cv2.cvtColor(np.ascontiguousarray(image), conversion)
    # 4:2:0, as cameras store it: chroma of half the resolution.
    data = simplejpeg.encode_jpeg(np.ascontiguousarray(image), TUNING.jpeg_quality, order, "420")
    return _Picture(data, (height, width), f"raw ({encoding})")


def _require_size(size: tuple[int, int]) -> None:
    if max(size) > TUNING.max_side or not 0 < 3 * size[0] * size[1] <= MAX_SAMPLE_BYTES:
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
