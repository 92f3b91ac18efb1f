"""`rover-pipeline calibrate radar`: opens recordings, collects echoes, and writes what the array makes of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from rover_pipeline.calibrate.array import TURN_PRIOR, Fit, Passed, fit_gains, fit_moving, strongest_directions
from rover_pipeline.calibrate.tuning import TUNING
from rover_pipeline.engine.task import PREPARED
from rover_pipeline.errors import ConfigError, FormatError, counted
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import run_command
from rover_pipeline.format.sensor import VALID, Sensor
from rover_pipeline.format.texts import read_text
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.radar.angles import coherence
from rover_pipeline.radar.axes import is_real, max_doppler, resolutions
from rover_pipeline.radar.boards import BOARDS, assumed_board, centre_frequency, placed_board, recorded_board
from rover_pipeline.radar.ego_motion import OUTLIER
from rover_pipeline.radar.frames import make_transform
from rover_pipeline.radar.options import CalibrationFile, PointsOptions, VelocitySection
from rover_pipeline.radar.points import PointFinder
from rover_pipeline.radar.prepare import prepare
from rover_pipeline.radar.spectrum import Coupling
from rover_pipeline.radar.tuning import TUNING as RADAR


class Reflector(NamedTuple):
    """A strong target that stands still in front of a radar that stands still."""

    near: float  #: where to look for it, m.
    #: its direction, degrees to the right and up; None = not known, which only an array without antennas along that
    #: axis allows.
    azimuth: float | None = None
    elevation: float | None = None
    distance: float | None = None  #: its measured distance, m; None = not known.


class _Echoes(NamedTuple):
    """Echoes of some frames: c16 (echo, antenna), then f8 (echo,), m, m/s and power over noise; frame of each."""

    snapshots: np.ndarray
    range_m: np.ndarray
    doppler: np.ndarray
    snr: np.ndarray
    frame: np.ndarray


class _Radar:
    """The radar of a recording."""

    def __init__(self, trace: Path, board: str | None, order: str) -> None:
        self.path = trace / "radar"
        if not (self.path / META).is_file():
            raise FormatError(f"{self.path}: no such sensor; `calibrate radar` needs radar/iq")
        self.sensor = Sensor(self.path)
        self.iq = self.sensor.channel("iq")
        self.count = self.sensor.length(channels=("iq", *([VALID] if VALID in self.sensor.specs else [])))
        texts = {"sidecar": self.path / "radar.json", "config": trace / CONFIG}
        self.texts: dict[str, Any] = {name: read_text(path) for name, path in texts.items() if path.is_file()}
        bins = resolutions(self.texts.get("sidecar"))
        if bins is None:
            raise FormatError(f"{self.path}/radar.json: must give range_resolution and doppler_resolution, above zero")
        self.bin_m, self.bin_mps = bins
        self.doppler_sigma = VelocitySection().doppler_sigma(self.bin_mps)
        self.options = PointsOptions.parse({"board": board, "sample_order": order})
        self.shape = self.iq.spec.shape
        self.real = is_real(self.shape[-1], self.texts["sidecar"])
        self.board = placed_board(self.options, self.texts.get("config"), self.shape)
        self.hertz = centre_frequency(self.texts.get("config"))
        if self.hertz is None:
            self.hertz = self.board.design_ghz * 1e9
            print(
                f"{trace}: config.yaml has no frequency, slope and sample rate of the chirps; the antennas are taken "
                "to be half a wavelength apart",
                file=sys.stderr,
            )
        self.valid = self.sensor.valid(self.count) > 0
        self.coupling: Coupling | None = None

    @property
    def board_name(self) -> str:
        named = self.options.board or recorded_board(self.texts.get("config")) or assumed_board(self.shape)
        return str(named).upper()

    def frames(self, usable: np.ndarray, count: int) -> np.ndarray:
        """At most `count` of the usable frames, evenly spread."""
        numbers = np.flatnonzero(usable)
        return numbers[np.unique(np.linspace(0, len(numbers) - 1, count).astype(int))] if len(numbers) else numbers

    def prepare(self) -> None:
        """Find the coupling."""
        numbers = self.frames(self.valid, PREPARED)
        if not len(numbers):
            raise FormatError(f"{self.path}: has no valid frame to calibrate from")
        iq = np.concatenate([self.iq.read(int(n), int(n) + 1) for n in numbers])
        self.coupling = prepare(iq, options=self.options, **self.texts).coupling

    def collect(self, numbers: np.ndarray, near: float | None = None) -> _Echoes:
        """The strongest echoes of some frames, or of each the strongest static one near a distance."""
        transform = make_transform(self.shape, self.options, self.real, self.coupling)
        finder, middle, found = PointFinder(self.board, self.options), self.shape[0] // 2, []
        for number in numbers.tolist():
            spectrum, power = transform.spectrum_and_power(self.iq.read(number, number + 1)[0])
            peaks = finder.detect(power)
            keep = np.flatnonzero(peaks.snr >= RADAR.strong_snr)[: TUNING.frame_echoes]
            if near is not None:
                there = (np.abs(peaks.range * self.bin_m - near) < TUNING.near_m) & (np.abs(peaks.doppler - middle) < 1)
                keep = np.flatnonzero(there)[:1]
            peaks = peaks.select(keep)
            snapshots, doppler = finder.snapshots(spectrum, peaks), (peaks.doppler - middle) * self.bin_mps
            found.append(_Echoes(snapshots, peaks.range * self.bin_m, doppler, peaks.snr, np.full(len(keep), number)))
        return _Echoes(*(np.concatenate(column) for column in zip(*found, strict=True)))


def calibrate_radar(
    traces: Sequence[Path],
    out: Path,
    *,
    reflector: Reflector | None = None,
    board: str | None = None,
    order: str = "qqii",
) -> CalibrationFile:
    """Calibrate the radar of some recordings and write the file `out`.

    Args:
        traces: recordings of one radar with the same chirps.
        reflector: what to calibrate on; None = the strong echoes of recordings that move, with `_radar_pose`.
        board: name of the board; None = as the recordings say.
        order: of the words of two samples.

    Raises:
        FormatError, ConfigError: a recording cannot be used, or its echoes do not determine the array.
    """
    radars = [_Radar(trace, board, order) for trace in traces]
    first = radars[0]
    for radar in radars[1:]:
        same = (radar.shape, radar.bin_m, radar.hertz, radar.board)
        if same != (first.shape, first.bin_m, first.hertz, first.board):
            raise ConfigError(
                f"{radar.path}: has other chirps, or another board, than {first.path}; calibrate it alone"
            )
    for radar in radars:
        radar.prepare()
    bias: tuple[float, float | None] = (0.0, None)
    if reflector is not None:
        parts = [radar.collect(radar.frames(radar.valid, TUNING.frames), reflector.near) for radar in radars]
        echoes = _Echoes(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        fit = _on_reflector(first, echoes, reflector)
        if reflector.distance is not None:
            sigma = max(float(echoes.range_m.std()), first.bin_m / 50)
            bias = (round(float(np.median(echoes.range_m) - reflector.distance), 4), round(sigma, 4))
    else:
        fit, echoes = _in_motion(radars)
    content = _described(first, fit, echoes, "recording" if reflector is None else "reflector", bias)
    before, after = content["coherence"]
    if not after >= before:
        hint = "the array needs no correction, or more motion past strong targets"
        if reflector is not None:
            hint = f"is one reflector at {reflector.near} m, where it was said to be, and does nothing move?"
        raise ConfigError(
            f"{first.path}: the correction lowers the coherence of the {content['targets']} echoes that it was fitted "
            f"to: {before:.3f} before, {after:.3f} after; {hint}"
        )
    file = CalibrationFile.parse(content, str(out))
    replace_file(out, yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120))
    return file


def _on_reflector(radar: _Radar, echoes: _Echoes, reflector: Reflector) -> Fit:
    if not len(echoes.snr):
        raise ConfigError(
            f"{radar.path}: no static echo within {TUNING.near_m} m of {reflector.near} m; give the reflector's "
            "distance"
        )
    # Phases that grow along the array turn all directions: an echo whose direction is not known leaves them open.
    spans = dict(zip(("azimuth", "elevation"), np.ptp(radar.board.antennas, axis=0) > 0, strict=True))
    if missing := [f"--{name}" for name, span in spans.items() if span and getattr(reflector, name) is None]:
        raise ConfigError(
            f"{radar.path}: a reflector whose direction is not known leaves phases open that grow along the array; "
            f"give {' and '.join(missing)}, degrees from straight ahead"
        )
    up = np.sin(np.radians(reflector.elevation or 0.0))
    right = np.sin(np.radians(reflector.azimuth or 0.0)) * np.sqrt(1 - up**2)
    count = len(echoes.snr)
    return fit_gains(radar.board, echoes.snapshots, echoes.snr, np.full(count, right), np.full(count, up))


def _in_motion(radars: Sequence[_Radar]) -> tuple[Fit, _Echoes]:
    """The array from echoes past which the radar moves."""
    parts, velocities = [], []
    for radar in radars:
        velocity, usable = _velocities(radar)
        numbers = radar.frames(usable & radar.valid, TUNING.frames)
        if len(numbers):
            parts.append(radar.collect(numbers))
            velocities.append(velocity[parts[-1].frame])
    count, needed = sum(len(part.snr) for part in parts), TUNING.min_echoes * len(radars[0].board.antennas)
    if count < needed:
        raise ConfigError(
            f"{radars[0].path}: has {count} strong echoes while the radar moves, more slowly than its largest Doppler, "
            f"{needed} are needed; calibrate on a reflector (--reflector)"
        )
    echoes = _Echoes(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    passed = Passed(echoes.doppler, np.concatenate(velocities), np.full(count, radars[0].doppler_sigma))
    fit = fit_moving(radars[0].board, echoes.snapshots, echoes.snr, passed)
    if fit.used.sum() < needed:
        raise ConfigError(
            f"{radars[0].path}: {int(fit.used.sum())} of {count} echoes have the Doppler that `_radar_pose` predicts; "
            "is rig.radar right? Else calibrate on a reflector (--reflector)"
        )
    return fit, echoes


def _velocities(radar: _Radar) -> tuple[np.ndarray, np.ndarray]:
    """Velocity of the radar in its own frame, f8 (frame, 3), and the frames in which it determines directions."""
    path = radar.path.parent / "_radar_pose"
    if not (path / META).is_file():
        raise ConfigError(
            f"{path}: is needed to calibrate from a recording; make it with "
            f"`{run_command(path.parent, [path.name])}`, or give --reflector"
        )
    pose = Sensor(path)
    count = pose.length(channels=("vel", "rot"))
    if count != radar.count:
        raise FormatError(f"{path}: has {counted(count, 'sample')}, radar/ has {radar.count}; make it again")
    world = pose.channel("vel").read(0, count)
    velocity = np.einsum("fij,fi->fj", pose.channel("rot").read(0, count), world)
    speed = np.linalg.norm(velocity, axis=1)
    limit = (max_doppler(radar.texts["sidecar"]) or np.inf) - OUTLIER * radar.doppler_sigma
    # Slower, a Doppler says no more about a direction than the prior of a turn does.
    return velocity, (pose.valid(count) > 0) & (speed > radar.doppler_sigma / TURN_PRIOR) & (speed < limit)


def _described(
    radar: _Radar, fit: Fit, echoes: _Echoes, method: str, bias: tuple[float, float | None]
) -> dict[str, Any]:
    """The content of the file."""
    used = radar.board, echoes.snapshots[fit.used]
    before = float(np.median(coherence(*used, *strongest_directions(*used))))
    sigma = fit.spacing_sigma if np.isfinite(fit.spacing_sigma) else TURN_PRIOR * fit.spacing
    receivers = len(BOARDS[radar.board_name].rx)
    antennas = [
        {
            "tx": number // receivers,
            "rx": number % receivers,
            "phase_deg": round(float(np.degrees(np.angle(gain))), 2),
            "phase_sigma_deg": round(float(np.degrees(deviation)), 2),
            "gain_db": round(float(20 * np.log10(abs(gain))), 3),
            "gain_sigma_db": round(float(8.686 * deviation), 3),
        }
        for number, (gain, deviation) in enumerate(zip(fit.gains, fit.phase_sigma, strict=True))
    ]
    return {
        "board": radar.board_name,
        "method": method,
        "targets": int(fit.used.sum()),
        "centre_ghz": round(float(radar.hertz or 0) / 1e9, 6),
        "spacing": {"value": round(float(fit.spacing), 5), "sigma": round(float(sigma), 5)},
        "range_bias": {"value": bias[0], "sigma": bias[1]},
        "coherence": [round(before, 3), round(float(np.median(fit.coherence[fit.used])), 3)],
        "antennas": antennas,
        "coupling": _tones(radar),
    }


def _tones(radar: _Radar) -> dict[str, Any] | None:
    found = radar.coupling
    if found is None:
        return None
    amplitudes = found.amplitudes.reshape(-1, len(found.bins))
    parts = np.stack([amplitudes.real, amplitudes.imag], axis=-1).reshape(len(amplitudes), -1)
    return {
        "range_resolution": radar.bin_m,
        "samples": radar.shape[-1] // (1 if radar.real else 2),
        "sample_order": radar.options.sample_order,
        "reach": found.reach,
        "bins": list(found.bins),
        "tones": np.round(parts, 2).tolist(),  # ADC counts
    }
