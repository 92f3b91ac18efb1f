"""The lens of a camera: a pinhole with radial and tangential distortion (D. C. Brown, Close-range camera calibration,
Photogrammetric Engineering 37, 1971).

A direction (x, y) = (right, down) / ahead is seen at

    x' = x (1 + k1 r2 + k2 r2^2 + k3 r2^3 + k4 r2^4) + 2 p1 x y + p2 (r2 + 2 x^2)
    y' = y (1 + k1 r2 + k2 r2^2 + k3 r2^3 + k4 r2^4) + p1 (r2 + 2 y^2) + 2 p2 x y
    column = fx x' + cx,  row = fy y' + cy

with r2 = x^2 + y^2 and (0, 0) the middle of the first pixel: OpenCV's model, but for k4, which there divides.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Lens:
    """Intrinsics of pictures of a given size.

    Attributes:
        width, height: of the pictures, pixels.
        fx, fy: focal lengths, pixels.
        cx, cy: principal point, pixels.
        k: radial distortion.
        p: tangential distortion.
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    k: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    p: tuple[float, ...] = (0.0, 0.0)

    @staticmethod
    def parse(text: str, width: int, height: int) -> Lens:
        """The content of a `camera.json`: `fx fy cx cy`, and `k` (four numbers) and `p` (two) where it distorts.

        Raises:
            ValueError: it is something else.
        """
        try:
            content = json.loads(text)
            fx, fy, cx, cy = (float(content[name]) for name in ("fx", "fy", "cx", "cy"))
            k = tuple(float(value) for value in content.get("k", Lens.k))
            p = tuple(float(value) for value in content.get("p", Lens.p))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"camera.json must give the numbers fx, fy, cx, cy, and lists k and p ({error})"
            ) from error
        lens = Lens(width, height, fx, fy, cx, cy, k, p)
        if len(k) != 4 or len(p) != 2 or not np.isfinite([fx, fy, cx, cy, *k, *p]).all() or min(fx, fy) <= 0:
            raise ValueError(
                "camera.json must give finite numbers: fx and fy above zero, four in k, two in p; it gives "
                f"{lens.describe()}"
            )
        return lens

    @property
    def distorts(self) -> bool:
        return any(self.k) or any(self.p)

    @property
    def widest(self) -> float:
        """Tangent of the angle off the axis from which on the distortion leads pixels back towards the middle."""
        radius = np.linspace(0.0, 10.0, 10_001)
        seen = radius * (1 + np.polyval([*self.k[::-1], 0.0], radius**2))
        back = np.flatnonzero(np.diff(seen) <= 0)
        return float(radius[back[0]]) if len(back) else np.inf

    def describe(self) -> dict[str, object]:
        """The content of a `camera.json` of this lens."""
        content = asdict(self)
        return {name: content[name] for name in ("fx", "fy", "cx", "cy", "k", "p")}

    def resized(self, width: int, height: int) -> Lens:
        """The lens of the same pictures at another size."""
        across, down = width / self.width, height / self.height
        return replace(
            self,
            width=width,
            height=height,
            fx=self.fx * across,
            fy=self.fy * down,
            cx=(self.cx + 0.5) * across - 0.5,
            cy=(self.cy + 0.5) * down - 0.5,
        )

    def straight(self) -> Lens:
        """The same pinhole without distortion."""
        return replace(self, k=Lens.k, p=Lens.p)

    def pixels(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Column and row at which directions are seen.

        Args:
            x, y: (right, down) / ahead, of one shape.
        """
        square = x * x + y * y
        radial = 1 + np.polyval([*self.k[::-1], 0.0], square)
        p1, p2 = self.p
        across = x * radial + 2 * p1 * x * y + p2 * (square + 2 * x * x)
        down = y * radial + p1 * (square + 2 * y * y) + 2 * p2 * x * y
        return self.fx * across + self.cx, self.fy * down + self.cy

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Directions (x, y) seen by each pixel of a lens without distortion, f8 (height, width) each."""
        columns, rows = np.meshgrid(np.arange(self.width), np.arange(self.height))
        return (columns - self.cx) / self.fx, (rows - self.cy) / self.fy
