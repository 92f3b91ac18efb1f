"""Pictures made of pixels: values as colours with the same scales everywhere, views from above, captions, data URLs."""

from __future__ import annotations

import base64
from typing import NamedTuple

import cv2
import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Colormap, LinearSegmentedColormap

from rover_pipeline.camera.pictures import encode_picture, resize
from rover_pipeline.draw import theme
from rover_pipeline.draw.theme import CEILING_M
from rover_pipeline.lidar.ranges import CLIPPED

#: Scales of the pictures: maximum span of the colours of power below the strongest cell, dB, where the noise is lower
#: still; heights in the frame of the lidar with the first and the last colour, m; and radial speed with the last one,
#: m/s. Layout.
_SPAN_DB, HEIGHTS, _FULL_SPEED = 70.0, (-1.8, 1.5), 1.0
#: Of an odd number of colours, so that one of them is `STILL`. Layout.
_VELOCITY = LinearSegmentedColormap.from_list(
    "velocity", np.array([theme.APPROACHING, theme.STILL, theme.RECEDING]) / 255, 257
)


def colour_map(quantity: str) -> Colormap:
    """The colours of `velocity`, or of a quantity of `COLOUR_MAPS`."""
    return _VELOCITY if quantity == "velocity" else colormaps[theme.COLOUR_MAPS[quantity]]


def colourise(values: np.ndarray, low: float, high: float, quantity: str) -> np.ndarray:
    """Values, (...), in colours of a quantity of `colour_map`, u1 (..., 3), from `low` to `high`. NaN is black."""
    fraction = np.clip((values - low) / max(high - low, 1e-9), 0, 1)
    colours = colour_map(quantity)(np.nan_to_num(fraction), bytes=True)[..., :3].copy()
    colours[~np.isfinite(values)] = 0
    return colours


def metres(ranges: np.ndarray) -> np.ndarray:
    """Ranges in mm as they are stored, u2 or u4, as f4, m; NaN where there was no return."""
    return np.where((ranges == 0) | (ranges == CLIPPED), np.float32(np.nan), ranges.astype("f4") / 1000)


def distance_limits(distances: np.ndarray) -> tuple[float, float]:
    """Distances with the first and the last colour, m. NaN does not count."""
    seen = distances[np.isfinite(distances)]
    near, far = np.percentile(seen, (2, 98)) if len(seen) else (0.5, 50.0)
    if far < 1.2 * near:  # one wall all around: what stands before it is to be seen all the same
        near, far = seen.min(), max(seen.max(), 1.01 * seen.min())
    return near, far


def colour_distances(distances: np.ndarray, near: float, far: float) -> np.ndarray:
    """Distances, f4 (row, column), m, in colours by their logarithm, u1 (row, column, 3): near is red, NaN is black."""
    return colourise(np.log(np.maximum(distances, 1e-3)), np.log(near), np.log(far), "distance")


def decibel_limits(power: np.ndarray) -> tuple[float, float]:
    """Values with the first and the last colour of several frames, dB: at the noise, or `_SPAN_DB` below the last."""
    finite = power[np.isfinite(power)]
    if not len(finite):
        return -_SPAN_DB, 0.0
    high = float(finite.max())
    return max(high - _SPAN_DB, float(np.median(finite))), high


def height_colours(z: np.ndarray) -> np.ndarray:
    """Colours of heights in the frame of the lidar, m, (N,), as u1 RGB (N, 3): low is blue, high is red."""
    return colourise(z, *HEIGHTS, "height")


def velocity_colours(doppler: np.ndarray) -> np.ndarray:
    """Colours of radial velocities, m/s, (N,), as u1 RGB (N, 3): receding is red, approaching is blue."""
    return colourise(np.nan_to_num(doppler), -_FULL_SPEED, _FULL_SPEED, "velocity")


#: Quality of the WebP pictures of a page, 0 to 100. Layout.
_WEBP_QUALITY = 82
_FONT = cv2.FONT_HERSHEY_SIMPLEX


class EmbeddedImage(NamedTuple):
    """A data URL with an image, and the size of the image in pixels."""

    url: str
    width: int
    height: int


def embed_image(image: np.ndarray) -> EmbeddedImage:
    """Encode an image, u1 (row, column, 3) RGB or (row, column, 4) RGBA."""
    code = cv2.COLOR_RGB2BGR if image.shape[2] == 3 else cv2.COLOR_RGBA2BGRA
    data = encode_picture(".webp", cv2.cvtColor(image, code), (cv2.IMWRITE_WEBP_QUALITY, _WEBP_QUALITY))
    text = base64.b64encode(data).decode()
    return EmbeddedImage(f"data:image/webp;base64,{text}", image.shape[1], image.shape[0])


def resize_image(image: np.ndarray, width: int, aspect: float | None = None) -> np.ndarray:
    """Resize an image to `width` and the aspect ratio, width / height; without one it is only ever made smaller."""
    height, own_width = image.shape[:2]
    new_width = min(width, own_width) if aspect is None else width
    new_height = max(1, round(new_width / (aspect or own_width / height)))
    return resize(image, new_width, new_height)


def blank(width: int, height: int) -> np.ndarray:
    """The ground of a picture, u1 RGB (height, width, 3)."""
    return np.full((height, width, 3), theme.GROUND, "u1")


def fit(picture: np.ndarray, width: int, height: int) -> np.ndarray:
    """A picture resized into the middle of a panel. It keeps its proportions."""
    scale = min(width / picture.shape[1], height / picture.shape[0])
    size = (max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale)))
    panel = blank(width, height)
    left, top = (width - size[0]) // 2, (height - size[1]) // 2
    panel[top : top + size[1], left : left + size[0]] = resize(picture, *size)
    return panel


def draw_text(
    picture: np.ndarray, text: str, place: tuple[int, int], colour: tuple[int, ...], size: float = 0.5, line: int = 1
) -> None:
    """Write text with its lower left corner at (column, row), in OpenCV's units of size, lines so many pixels wide."""
    cv2.putText(picture, text, place, _FONT, size, colour, line, cv2.LINE_AA)


def draw_caption(picture: np.ndarray, text: str) -> None:
    """Write into the upper left corner, on a darkened ground so that it can be read."""
    (width, height), below = cv2.getTextSize(text, _FONT, 0.5, 1)
    picture[: height + below + 8, : width + 12] //= 3
    draw_text(picture, text, (6, height + 5), theme.CAPTION)


def message_panel(width: int, height: int, text: str) -> np.ndarray:
    """A panel with nothing but a message in its middle."""
    picture = blank(width, height)
    (wide, high), _ = cv2.getTextSize(text, _FONT, 0.5, 1)
    draw_text(picture, text, ((width - wide) // 2, (height + high) // 2), theme.REMARK)
    return picture


def range_picture(distances: np.ndarray, limits: tuple[float, float], width: int, height: int) -> np.ndarray:
    """A range image, f4 (row, column), m, with colours by the logarithm of distance, u1 (height, width, 3)."""
    # Nearest pixels, because the mean of a near and a far surface is a place where there is nothing.
    return colour_distances(cv2.resize(distances, (width, height), interpolation=cv2.INTER_NEAREST), *limits)


class ViewFromAbove(NamedTuple):
    """A picture of what is around a sensor from above: ahead is up, and what is to the left is left."""

    picture: np.ndarray  #: u1 RGB (row, column, 3), which is drawn on.
    centre: tuple[float, float]  #: column and row of the sensor.
    scale: float  #: pixels in a metre.
    line: int = 1  #: width of lines, pixels.

    def pixels(self, points: np.ndarray) -> np.ndarray:
        """(column, row) of points in the sensor's frame, front-left-up, f8 (N, 2)."""
        return self.centre - self.scale * points[:, 1::-1]

    def draw_rings(self, reach: float) -> None:
        """Rings at round distances up to `reach`, m, with labels."""
        step = next((each for each in (1, 2, 5, 10, 20, 50) if reach / each <= 5), 100)
        column, row = (int(each) for each in self.centre)
        for distance in range(step, int(reach) + 1, step):
            radius = round(distance * self.scale)
            cv2.circle(self.picture, (column, row), radius, theme.RING, self.line, cv2.LINE_AA)
            place = (column + 4 * self.line, row - radius + 14 * self.line)
            draw_text(self.picture, f"{distance} m", place, theme.RING_LABEL, 0.38 * self.line, self.line)

    def draw_lidar_points(self, points: np.ndarray) -> None:
        """Colour each pixel by its highest point, f4 (N, 3), m. Ceilings are left out."""
        points = points[points[:, 2] < CEILING_M]
        points = points[np.argsort(points[:, 2], kind="stable")]
        pixels = self.pixels(points).astype("i4")
        inside = ((pixels >= 0) & (pixels < self.picture.shape[1::-1])).all(axis=1)
        self.picture[pixels[inside, 1], pixels[inside, 0]] = height_colours(points[inside, 2])

    def draw_radar_points(self, points: np.ndarray, doppler: np.ndarray, radius: int, thickness: int = -1) -> None:
        """Circles of a radius in pixels around points, f4 (N, 3), m, NaN where there is none: those that recede, by
        their Doppler, f4 (N,), m/s, are red. Points far beyond the picture are left out. `thickness`: -1 = filled."""
        pixels = self.pixels(points.astype("f8"))
        near = (np.abs(pixels) < 4 * max(self.picture.shape)).all(axis=1)  # NaN is not
        centres = np.rint(pixels[near]).astype(int).tolist()
        for centre, colour in zip(centres, velocity_colours(doppler[near]).tolist(), strict=True):
            cv2.circle(self.picture, centre, radius, colour, thickness, cv2.LINE_AA)

    def draw_rover(self, past: np.ndarray) -> None:
        """A line through past positions, f8 (N, 3), m, and an arrow that points ahead at the sensor."""
        if len(past) > 1:
            line = np.rint(self.pixels(past)).astype("i4")
            cv2.polylines(self.picture, [line], False, theme.ROVER, self.line, cv2.LINE_AA)
        arrow = np.array([[0, -9], [-5, 6], [5, 6]]) + np.array(self.centre, int)
        cv2.fillPoly(self.picture, [arrow.astype("i4")], theme.ROVER, cv2.LINE_AA)


def radar_points_picture(points: np.ndarray, doppler: np.ndarray, reach: float, width: int) -> np.ndarray:
    """Points before a radar, as in `ViewFromAbove.draw_radar_points`, which is in the middle of the lower edge, as
    RGBA, u1 (row, column, 4). `reach`: metres from the lower to the upper edge; `width`: twice its height."""
    finer = 2  # drawn larger and then averaged, so that edges are smooth
    size, height = finer * width, finer * width // 2
    view = ViewFromAbove(blank(size, height), (size / 2, height), height / reach, finer)
    view.draw_rings(reach)
    view.draw_radar_points(points, doppler, max(3, size // 75))
    small = cv2.resize(view.picture, (width, height // finer), interpolation=cv2.INTER_AREA)
    return np.dstack([small, np.full(small.shape[:2], 255, "u1")])


def polar_to_cartesian(
    values: np.ndarray, azimuth: np.ndarray, ranges: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Polar images as bird's-eye views: ahead is up, the sensor is in the middle of the lower edge. Returns values, f8
    (..., row, column), and whether the sensor measures there, bool (row, column).

    Args:
        values: float, (..., azimuth, range).
        azimuth: of each row, radians, ascending, positive to the right; ranges: of each column, m, ascending.
        width: of the bird's-eye view, pixels.
    """
    max_range = float(ranges[-1])
    max_azimuth = float(np.abs(azimuth).max())
    half_width = float(np.sin(np.clip(max_azimuth, 0, np.pi / 2))) * max_range
    behind = max(0.0, -float(np.cos(min(max_azimuth, np.pi))))  # share of the maximum range
    pixel = 2 * half_width / width
    y = (np.arange(width) + 0.5) * pixel - half_width
    x = max_range - (np.arange(max(1, round((1 + behind) * max_range / pixel))) + 0.5) * pixel
    right, ahead = np.meshgrid(y, x)
    distance, angle = np.hypot(right, ahead), np.arctan2(right, ahead)
    row = np.rint(np.interp(angle, azimuth, np.arange(len(azimuth)))).astype(int)
    column = np.rint(np.interp(distance, ranges, np.arange(len(ranges)))).astype(int)
    # The field of view is symmetric: the first of an even number of azimuth bins has no partner on the right.
    low, high = float(azimuth[0]), float(azimuth[-1])
    if low < 0 < high:
        low, high = -min(-low, high), min(-low, high)
    inside = (distance <= max_range) & (angle >= low) & (angle <= high)
    return values[..., row, column].astype("f8"), inside
