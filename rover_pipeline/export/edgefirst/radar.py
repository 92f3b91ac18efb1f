"""The radar's files of EdgeFirst samples: the complex range-Doppler cube, and points with power, noise and RCS.

The cube is `[sequence, rx, range, doppler]` of complex int16. DRVEGRD radars send two sequences of chirps. Ours are
those of the first two transmitters, whose chirps alternate (TDM), or both halves of the chirps of a single one.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.tuning import TUNING
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.texts import parse_json, read_text
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.radar.axes import resolutions
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.spectrum import RangeDoppler, decibel
from rover_pipeline.validation.rig import made_with

#: Added to int16, so that a PNG, which has no sign, can hold it. Layout.
OFFSET = 32768


class RadarFrames:
    """The frames of a radar as EdgeFirst's files have them. Can be shared by threads.

    Attributes:
        valid: bool (N,), frames that can be trusted.
        scale: stored value of an amplitude of one ADC count.
    """

    def __init__(self, recording: Recording) -> None:
        folder, points = recording.folder("radar"), recording.folder("_radar_points")
        self._radar = Sensor(folder)
        self._iq = self._radar.channel("iq")
        shape = self._radar.specs["iq"].shape
        path = recording.file("radar/radar.json")
        sidecar = read_text(path)
        made = made_with(recording.path, points.name)
        known = {key: value for key, value in made.items() if key in PointsOptions.model_fields}
        self._options = PointsOptions.parse(known, "radar.points")
        found = resolutions(sidecar)
        if not found or not all(found):
            raise FormatError(f"{path}: gives no resolutions above zero, so that points have no cells")
        self._metres, self._mps = found
        real = int(parse_json(sidecar, "radar.json")["shape"][-1]) == shape[-1]
        windows = self._options.range_window, self._options.doppler_window
        order, static = self._options.sample_order, self._options.remove_static
        self._transform = RangeDoppler(shape, *windows, real, order=order, remove_static=static)
        self._halves: RangeDoppler | None = None
        if shape[1] == 1:
            if shape[0] % 2:
                raise FormatError(f"{folder}: one transmitter and {shape[0]} chirps make no two sequences")
            half = (shape[0] // 2, *shape[1:])
            self._halves = RangeDoppler(half, *windows, real, order=order, remove_static=static)
        self.mount = recording.mount("radar")
        count = self._radar.length(truncate=True, channels=("iq",))
        self.valid = self._radar.valid(count).astype(bool)
        if points.is_dir():
            self._points: Sensor | None = Sensor(points)
            good = self._points.valid(self._points.length()).astype(bool)
            self.valid[: len(good)] &= good[:count]
        else:
            self._points = None
        self.scale = self._find_scale()

    def _find_scale(self) -> float:
        """A power of two, so that the stored values of any frame are easily undone."""
        good = np.flatnonzero(self.valid)
        largest = 0.0
        for at in np.unique(good[np.linspace(0, len(good) - 1, TUNING.cube_frames).astype(int)]) if len(good) else ():
            spectrum, _ = self.read(int(at))
            largest = max(largest, float(np.abs(spectrum.view("f4")).max()))
        return float(2.0 ** np.floor(np.log2(TUNING.cube_amplitude / largest))) if largest > 0 else 1.0

    def read(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Spectrum of the two sequences, c8 (2, rx, doppler, range), zero Doppler in the middle, and the mean power
        over the antennas, f4 (doppler, range), dB re one squared ADC count."""
        frame = self._iq.read(number, number + 1)[0]
        spectrum, power = self._transform.spectrum_and_power(frame)
        if self._halves is not None:
            half = len(frame) // 2
            parts = [self._halves.spectrum(part)[0].copy() for part in (frame[:half], frame[half:])]
            spectrum = np.stack(parts)
        return np.fft.fftshift(spectrum[:2], axes=2), decibel(power)

    def image(self, spectrum: np.ndarray) -> np.ndarray:
        """The cube as u2 (2 * range, rx * doppler * 2): `[s R + r, a 2 D + 2 d + c]` holds part c, real first, of
        sequence s, antenna a, range r and Doppler d, plus 32768."""
        cells = np.ascontiguousarray(spectrum.transpose(0, 3, 1, 2)).view("f4")
        stored = np.clip(np.rint(cells * self.scale), -OFFSET, OFFSET - 1) + OFFSET
        return stored.astype("u2").reshape(2 * spectrum.shape[3], -1)

    def points(self, number: int, power: np.ndarray) -> dict[str, np.ndarray]:
        """Points of a frame: `x y z` m in the lidar frame, `speed` m/s, `power`, `noise` and `rcs` in dB, f4 (N,).

        Args:
            power: f4 (doppler, range), of the frame, dB.
        """
        assert self._points is not None
        read = {name: self._points.channel(name).read(number, number + 1)[0] for name in ("xyz", "doppler", "snr")}
        count = int(self._points.channel("count").read(number, number + 1)[0])
        xyz, speed, snr = (read[name][:count].astype("f8") for name in ("xyz", "doppler", "snr"))
        distance = np.linalg.norm(xyz, axis=1)
        row = np.rint(speed / self._mps).astype(int) + len(power) // 2
        column = np.clip(np.rint(distance / self._metres).astype(int), 0, power.shape[1] - 1)
        level = power[row % len(power), column].astype("f8")
        moved = matmul(xyz, self.mount.rotation.T) + self.mount.translation
        rcs = level + 40 * np.log10(np.maximum(distance, self._metres))
        x, y, z = moved.T
        return {"x": x, "y": y, "z": z, "speed": speed, "power": level, "noise": level - snr, "rcs": rcs}

    def describe(self) -> dict[str, object]:
        """What a reader must know of the cube and of the points."""
        transform = self._halves or self._transform
        return {
            "scale": self.scale,
            "layout": "pixel [s R + r, a 2 D + 2 d + c] = value + 32768; c = 0 real, 1 imaginary; value = amplitude in "
            "ADC counts (divided by the coherent gain) times scale",
            "sequences": "first and second transmitter, TDM, not phase-compensated"
            if self._halves is None
            else "first and second half of the chirps",
            "doppler": "zero velocity at bin D / 2, larger bins recede",
            "doppler_bins": transform.doppler_bins,
            "range_bins": transform.range_bins,
            "range_resolution_m": self._metres,
            "doppler_resolution_mps": self._mps * (1 if self._halves is None else 2),
            "points": "x y z m in the lidar frame, front-left-up; speed m/s, radial, positive recedes; power dB re one "
            "squared ADC count; noise = power - SNR, dB; rcs = power + 40 log10(range / 1 m), dB, not calibrated",
        }
