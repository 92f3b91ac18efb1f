"""FMCW radar with time-division multiplexing (TDM) of its transmitters: from scatterers to the words of the ADC.

Axes: chirp, tx, rx, sample. The radar frame is front-left-up. An echo at distance d gives exp(+2 pi i f (2 d / c))
with the frequency f of the ramp at the time of the sample. So range is a positive frequency along the samples, receding
speed along the chirps, and an angle to the right along an array that is numbered towards the left.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.fft
from scipy.constants import speed_of_light

from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.numerics.linear import matmul, solve
from rover_pipeline.simulate.faults import Unkind
from rover_pipeline.simulate.presets import Chirps
from rover_pipeline.simulate.scene.materials import INDEX, MATERIAL_TABLE, f4
from rover_pipeline.simulate.scene.raycast import visible
from rover_pipeline.simulate.scene.terrain import height
from rover_pipeline.simulate.scene.world import BOX, CYLINDER, FOLIAGE, TERRAIN, Part, World

#: Scatterers of a square metre, and the smallest and largest number of them on one primitive. Layout.
_PER_SQUARE_METRE = 5.0
_MINIMUM, _MAXIMUM = 6, 600
#: Instants of a frame at which distances are computed, as fractions of its duration; a cubic runs between them. Layout.
NODES = np.array([0.0, 1 / 3, 2 / 3, 1.0])
#: The node at which visibility, incidence and the antenna pattern are evaluated, once for the whole frame. Layout.
_REFERENCE = 1
#: Specular reflection near normal incidence: cross-section over the diffuse one, and width of the peak, rad. Layout.
_SPECULAR, _SPECULAR_WIDTH = 25.0, 0.12
#: Metres that a scatterer is lifted off its surface, so that this surface does not hide it. Layout.
_LIFT = 1e-3


class Scatterers(NamedTuple):
    """Points on surfaces, in the frame of the scene or of the body they belong to."""

    point: np.ndarray  #: f8 (S, 3).
    normal: np.ndarray  #: f8 (S, 3).
    amplitude: np.ndarray  #: f8 (S,), square root of the diffuse cross-section at normal incidence, m.
    phase: np.ndarray  #: f8 (S,), radians, of the reflection.
    body: np.ndarray  #: i8 (S,), index of the body, -1 for what stands still.


def scatter(world: World, seed: int) -> Scatterers:
    """Points at random on all surfaces of a world, uniformly, with exponentially distributed cross-sections."""
    parts = []
    for number, (part, owner) in enumerate(zip(world.parts, world.owner, strict=True)):
        rng = np.random.default_rng([seed, 0x5CA7, number])
        area = _area(part)
        count = int(np.clip(area * _PER_SQUARE_METRE, _MINIMUM, _MAXIMUM))
        point, normal = _on_surface(part, count, rng)
        # A road of thousands of square metres must not become a few hundred strong points.
        patch = min(area / count, 1 / _PER_SQUARE_METRE)
        rcs = MATERIAL_TABLE.rcs[INDEX[part.material]] * patch * rng.exponential(1.0, count)
        parts.append((point, normal, np.sqrt(rcs), rng.uniform(0, 2 * np.pi, count), np.full(count, owner)))
    return Scatterers(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _area(part: Part) -> float:
    x, y, z = part.half
    if part.kind == BOX:
        return 8 * (x * y + y * z + z * x)
    if part.kind == CYLINDER:
        return 4 * np.pi * x * z + 2 * np.pi * x * x
    if part.kind == FOLIAGE:
        # Thomsen's approximation of the surface of an ellipsoid, within 1.1 per cent.
        power = 1.6075
        means = ((x * y) ** power + (y * z) ** power + (z * x) ** power) / 3
        return float(4 * np.pi * means ** (1 / power))
    return 4 * x * y


def _on_surface(part: Part, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random points on a primitive and the outward normals there, (count, 3) each; on a cylinder's side only.

    Foliage reflects from its outermost leaves, and terrain from the tips of its grass.
    """
    half = np.array(part.half)
    point = rng.uniform(-1, 1, (count, 3)) * half
    normal = np.zeros((count, 3))
    every = np.arange(count)
    if part.kind == BOX:
        faces = half[[1, 2, 0]] * half[[2, 0, 1]]
        axis = rng.choice(3, count, p=faces / faces.sum())
        side = rng.choice([-1.0, 1.0], count)
        point[every, axis], normal[every, axis] = side * half[axis], side
    elif part.kind == CYLINDER:
        angle = rng.uniform(0, 2 * np.pi, count)
        normal[:, 0], normal[:, 1] = np.cos(angle), np.sin(angle)
        point[:, :2] = half[0] * normal[:, :2]
    elif part.kind == FOLIAGE:
        direction = rng.standard_normal((count, 3))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        point, normal = direction * half, direction / half
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    elif part.kind == TERRAIN:
        ground = np.array([height(float(x), float(y)) for x, y in point[:, :2]]) * half[2]
        point[:, 2] = ground[:, 0] + part.depth
        normal = np.column_stack([-ground[:, 1:], np.ones(count)])
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    else:
        normal[:, 2] = 1.0
    return np.array(part.centre) + matmul(point, part.axes), matmul(normal, part.axes)


class Paths(NamedTuple):
    """Propagation paths to S visible scatterers during one frame."""

    distance: np.ndarray  #: f8 (4, S), metres at the `NODES` of the frame, one way.
    #: f8 (2, S, 2), left and up in the radar frame of unit vectors to the scatterers, when the frame starts and ends.
    direction: np.ndarray
    #: f8 (S,), of the echo; 1 for a square metre of cross-section at one metre on the antenna's axis.
    amplitude: np.ndarray
    phase: np.ndarray  #: f8 (S,), radians, of the reflection.


def paths(
    world: World, scatterers: Scatterers, times: np.ndarray, pos: np.ndarray, rot: np.ndarray, max_range: float
) -> Paths:
    """Propagation paths of a frame. There is one reflection on each; `radar_errors` adds ghosts.

    A scatterer counts for the whole frame if at its second node it is in front of the radar, faces it, and no solid,
    a moving body included, hides it. There is no diffraction.

    Args:
        times: f8 (4,), seconds, the frame's `NODES`.
        pos, rot: f8 (4, 3) and (4, 3, 3), the radar's poses then, scene-from-radar.
        max_range: metres; scatterers that are farther away at any node are left out.
    """
    points = np.repeat(scatterers.point[None], len(times), 0)
    normal = scatterers.normal.copy()
    for number, body in enumerate(world.bodies):
        own = scatterers.body == number
        for node, time in enumerate(times):
            position, rotation, _ = body.at(float(time))
            points[node, own] = position + matmul(scatterers.point[own], rotation.T)
        normal[own] = matmul(scatterers.normal[own], rotation.T)  # Of the last node: bodies hardly rotate in a frame.
    to_point = np.einsum("nsi,nij->nsj", points - pos[:, None], rot)
    distance = np.linalg.norm(to_point, axis=-1)
    unit = to_point / distance[..., None]
    line_of_sight = points[_REFERENCE] - pos[_REFERENCE]
    cos_incidence = -np.einsum("si,si->s", normal, line_of_sight) / distance[_REFERENCE]
    in_front, in_range = unit[_REFERENCE, :, 0] > 0.05, (distance.max(0) < max_range) & (distance.min(0) > 0.1)
    keep = np.flatnonzero(in_front & (cos_incidence > 0.02) & in_range)
    lifted = points[_REFERENCE, keep] + _LIFT * normal[keep]
    keep = keep[visible(world.at(float(times[_REFERENCE])), pos[_REFERENCE], lifted)]
    distance, unit, cos_incidence = distance[:, keep], unit[:, keep], cos_incidence[keep]
    incidence = np.arccos(np.minimum(cos_incidence, 1.0))
    reflection = np.sqrt(cos_incidence * (1 + _SPECULAR * np.exp(-((incidence / _SPECULAR_WIDTH) ** 2))))
    # Transmitter and receiver are patch antennas: a broad beam in azimuth, a narrow one in elevation.
    pattern = unit[_REFERENCE, :, 0] ** 1.5 * np.exp(-((unit[_REFERENCE, :, 2] / 0.5) ** 2))
    amplitude = scatterers.amplitude[keep] * reflection * pattern / distance[_REFERENCE] ** 2
    return Paths(distance, unit[[0, -1]][:, :, 1:], amplitude, scatterers.phase[keep])


#: ADC counts of an echo of 1 m² at 1 m, and standard deviation of the thermal noise in each of I and Q. Layout.
GAIN, NOISE = 9000.0, 20.0
#: Payload of one packet on the capture card's network, in int16 words. Layout.
PACKET_WORDS = 728

# Non-uniform FFT: each echo is spread over the points around its beat frequency, on a grid twice as fine as the range
# bins. The kernel is the exponential of a semicircle (Barnett, Magland and af Klinteberg, SISC 41, 2019), with its
# width in grid points. The error is 1e-6 of the strongest echo, more than that of adding echoes as f4.
# Physics: Barnett et al.
_WIDTH = 8
_SHAPE = 2.30 * _WIDTH
#: Rows of the table of the kernel for a step of one grid point. Between them it is linear, 1e-7 off at most. Layout.
_ROWS = 2048


def _kernel(x: np.ndarray) -> np.ndarray:
    """The gridding kernel at -1 to 1, and 0 outside."""
    return np.where(np.abs(x) <= 1, np.exp(_SHAPE * (np.sqrt(np.maximum(0, 1 - x**2)) - 1)), 0)


#: The kernel at the grid points around an echo, f4 (_ROWS + 1, _WIDTH): the first one is `row / _ROWS` grid points
#: after the kernel's beginning. Layout.
_TABLE = _kernel((np.arange(_ROWS + 1)[:, None] / _ROWS + np.arange(_WIDTH)) * (2 / _WIDTH) - 1).astype("f4")


class _Waveform(NamedTuple):
    """What the kernel needs to know of a frame's chirps."""

    fractions: np.ndarray  #: (ramp,), instants of the ramps' middle samples as fractions of the frame's duration.
    tx: np.ndarray  #: (ramp, 2), position of the transmitter that fires.
    rx: np.ndarray  #: (rx, 2).
    wavelengths_per_metre: float  #: at the middle sample.
    beat_per_metre: float  #: cycles per sample for a metre of propagation path.
    frame_samples: float  #: duration of the frame in sample periods.
    max_range: float  #: metres, where the anti-aliasing filter has closed; it begins to close at 90 % of it.


def synthesize(chirps: Chirps, paths: Paths) -> np.ndarray:
    """The beat signal of a frame without noise, c8 (chirp, tx, rx, sample), ADC counts.

    The transmitters fire one after the other, a ramp apart, and the scatterers move in the meantime.
    """
    loops, transmitters, receivers, samples = chirps.shape
    tx, rx = chirps.antennas
    rate = chirps.sample_rate * 1e3
    waveform = _Waveform(
        fractions=(np.arange(loops * transmitters) * chirps.ramp_period + chirps.middle_sample) / chirps.duration,
        tx=np.tile(tx, (loops, 1)),
        rx=rx,
        wavelengths_per_metre=chirps.centre_frequency / speed_of_light,
        beat_per_metre=chirps.slope / speed_of_light / rate,
        frame_samples=chirps.duration * rate,
        max_range=chirps.max_range,
    )
    cubic = solve(np.vander(NODES, increasing=True), paths.distance)
    size = 2 * samples
    # Points beyond the end of the grid belong to its beginning.
    parts = np.zeros((2, loops * transmitters, receivers, size + _WIDTH), "f4")
    _spread(parts, np.ascontiguousarray(cubic.T), paths, waveform, _TABLE)
    parts[..., :_WIDTH] += parts[..., size:]
    grid = np.empty((*parts.shape[1:3], size), "c8")
    grid.real, grid.imag = parts[..., :size]
    # Phases are given at the middle sample, which the inverse FFT puts first.
    signal = scipy.fft.ifft(grid, axis=-1, overwrite_x=True, norm="forward")
    response = _response(samples)
    first, second = signal[..., -samples // 2 :] * response[: samples // 2], signal[..., : samples // 2]
    signal = np.concatenate([first, second * response[samples // 2 :]], -1)
    return signal.reshape(loops, transmitters, receivers, samples)


@compiled
def _spread(parts: np.ndarray, cubic: np.ndarray, paths: Paths, waveform: _Waveform, table: np.ndarray) -> None:
    """Add every echo to the grid of beat frequencies at its frequency in each ramp.

    Args:
        parts: f4 (2, ramp, rx, grid), real and imaginary parts; the last `_WIDTH` points continue the grid.
        cubic: (path, 4), distance as a polynomial of the fraction of the frame, coefficients from the constant up.
        table: of the kernel.
    """
    tx, rx, per_metre, end = waveform.tx, waveform.rx, waveform.wavelengths_per_metre, waveform.max_range
    full = 0.9 * end
    count, size = parts.shape[1], parts.shape[3] - _WIDTH
    cycles, left, up = np.empty(count), np.empty(count), np.empty(count)
    point, strength = np.empty(count), np.empty(count, np.float32)
    row, between, place = np.empty(count, np.int32), np.empty(count, np.float32), np.empty(count, np.int32)
    weights = np.empty(_WIDTH, np.float32)
    angle, wave = np.empty(count, np.float32), np.empty((2, len(rx), count), np.float32)
    for s in range(len(paths.amplitude)):
        k0, k1, k2, k3 = cubic[s, 0], cubic[s, 1], cubic[s, 2], cubic[s, 3]
        amplitude, phase = GAIN * paths.amplitude[s], paths.phase[s] / (2.0 * np.pi)
        left_0, up_0 = paths.direction[0, s, 0], paths.direction[0, s, 1]
        left_1, up_1 = paths.direction[1, s, 0] - left_0, paths.direction[1, s, 1] - up_0
        # Loops without branches on numbers of one size are compiled to vector instructions.
        for ramp in range(count):
            x = waveform.fractions[ramp]
            d = k0 + x * (k1 + x * (k2 + x * k3))
            strength[ramp] = amplitude * min(1.0, max(0.0, (end - d) / (end - full)))
            speed = (k1 + x * (2.0 * k2 + x * 3.0 * k3)) / waveform.frame_samples  # Metres per sample period.
            left[ramp], up[ramp] = left_0 + x * left_1, up_0 + x * up_1
            cycles[ramp] = 2.0 * d * per_metre - tx[ramp, 0] * left[ramp] - tx[ramp, 1] * up[ramp] + phase
            # Range-Doppler coupling: motion during the ramp shifts the beat frequency a little.
            point[ramp] = 2.0 * (d * waveform.beat_per_metre + speed * per_metre) * size - _WIDTH / 2
        for ramp in range(count):
            first = np.ceil(point[ramp])
            rows = (first - point[ramp]) * _ROWS
            whole = np.floor(rows)
            row[ramp], between[ramp] = np.int32(whole), rows - whole
            place[ramp] = np.int32(first - size * np.floor(first / size))
        for r in range(len(rx)):
            for ramp in range(count):
                turns = cycles[ramp] - rx[r, 0] * left[ramp] - rx[r, 1] * up[ramp]
                angle[ramp] = turns - np.floor(turns + 0.5)
            for ramp in range(count):
                cos, sin = _wave(angle[ramp])
                wave[0, r, ramp], wave[1, r, ramp] = strength[ramp] * cos, strength[ramp] * sin
        for ramp in range(count):
            # A row has one more after it, as `between` is below 1. Unsigned: as in `raycast.Points`.
            a, b, f = np.uint64(row[ramp]), np.uint64(row[ramp] + 1), between[ramp]
            for k in range(_WIDTH):
                weights[k] = table[a, k] + f * (table[b, k] - table[a, k])
            at = place[ramp]
            for part in range(2):
                for r in range(len(rx)):
                    e = wave[part, r, ramp]
                    for k in range(_WIDTH):
                        parts[part, ramp, r, np.uint64(at + k)] += e * weights[k]


@inlined
def _wave(turns: float) -> tuple[float, float]:
    """Cosine and sine of an angle of -0.5 to 0.5 turns, all f4, to 4e-7, by the series of half of the angle."""
    h = f4(np.pi) * turns
    q = h * h
    cos = f4(1 / 40320) + q * (f4(-1 / 3628800) + q * f4(1 / 479001600))
    cos = f4(1) + q * (f4(-1 / 2) + q * (f4(1 / 24) + q * (f4(-1 / 720) + q * cos)))
    sin = f4(-1 / 5040) + q * (f4(1 / 362880) + q * f4(-1 / 39916800))
    sin = h * (f4(1) + q * (f4(-1 / 6) + q * (f4(1 / 120) + q * sin)))
    return f4(1) - f4(2) * sin * sin, f4(2) * sin * cos


@lru_cache(maxsize=4)
def _response(samples: int) -> np.ndarray:
    """What undoes the gridding kernel in each sample, f4 (sample,): 1 over its Fourier transform there."""
    x = np.linspace(-1, 1, 4001)
    offset = np.arange(-samples // 2, samples - samples // 2) / (2 * samples)
    waves = np.cos(2 * np.pi * offset[:, None] * x * _WIDTH / 2)
    response: np.ndarray = np.trapezoid(_kernel(x) * waves, x, axis=1) * _WIDTH / 2
    return (1 / response).astype("f4")


def digitize(signal: np.ndarray, is_real: bool, rng: np.random.Generator) -> np.ndarray:
    """The ADC's words with thermal noise, i2 (chirp, tx, rx, word): `Q Q I I` for two samples, or real samples."""
    parts = np.stack([signal.real] if is_real else [signal.imag, signal.real], -2)
    parts += NOISE * rng.standard_normal(parts.shape, "f4")
    words = np.clip(np.rint(parts, out=parts), -32768, 32767, out=parts).astype("<i2")
    if is_real:
        return words[..., 0, :]
    *lead, _, samples = words.shape
    pairs = words.reshape(*lead, 2, samples // 2, 2)
    return np.ascontiguousarray(np.swapaxes(pairs, -3, -2)).reshape(*lead, 2 * samples)


def drop_packets(words: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The frame as it is recorded when one to three of its packets are lost: with zeros in their place."""
    flat = words.reshape(-1).copy()
    for packet in rng.choice(-(-len(flat) // PACKET_WORDS), rng.integers(1, 4), replace=False):
        flat[packet * PACKET_WORDS : (packet + 1) * PACKET_WORDS] = 0
    return flat.reshape(words.shape)


# What a real radar's samples have besides the echoes: coupling, errors of the array, phase noise, multipath.
#
# All errors but the phase noise are constant over a recording, as they are on a real board.

#: Shortest and longest one-way distance that the coupling seems to come from, m: leads, package, radome. Layout.
_COUPLING_RANGE = 0.02, 0.12
#: Tones that the coupling of a pair of antennas consists of, and how much weaker each is than the last. Layout.
_TONES, _DECAY = 3, 0.5
#: Amplitude of a burst, ADC counts: of another car's radar at some tens of metres, 100 times the thermal noise. Layout.
AMPLITUDE = 2000.0
#: Shortest and longest burst, as a share of a chirp. Layout.
_SHORTEST, _LONGEST = 0.05, 0.2


class RadarErrors(NamedTuple):
    """Errors of one board."""

    coupling: np.ndarray  #: c16 (tx, rx, sample), ADC counts, the same in every chirp.
    gains: np.ndarray  #: c16 (tx, rx), factor of the echoes that each virtual antenna receives.
    phase_noise: float  #: standard deviation of the phase of a chirp, radians.

    @classmethod
    def of_board(cls, chirps: Chirps, unkind: Unkind, rng: np.random.Generator) -> RadarErrors:
        """The errors of a board whose RMS values are those of `unkind`."""
        _, transmitters, receivers, samples = chirps.shape
        shape = (transmitters, receivers)
        phases, decibels = rng.standard_normal((2, *shape))
        gains = 10 ** (_scaled(decibels, unkind.array_gain) / 20)
        gains = gains * np.exp(1j * np.radians(_scaled(phases, unkind.array_phase)))
        distance = rng.uniform(*_COUPLING_RANGE, (*shape, _TONES))
        strength = unkind.radar_coupling * _DECAY ** np.arange(_TONES) * np.exp(rng.normal(0, 0.3, distance.shape))
        tones = strength * np.exp(1j * rng.uniform(0, 2 * np.pi, distance.shape))
        seconds = (np.arange(samples) - samples // 2) / (chirps.sample_rate * 1e3)
        beat = np.exp(2j * np.pi * chirps.slope * 2 / speed_of_light * distance[..., None] * seconds)
        return cls((tones[..., None] * beat).sum(axis=2), gains, unkind.phase_noise)

    def applied(self, signal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A frame of echoes with the errors, c16 (chirp, tx, rx, sample).

        The phase noise of the oscillator does not reach the coupling: what is sent and what is received have the same
        noise when the way between them is short (range correlation).
        """
        signal = signal * self.gains[:, :, None]
        if self.phase_noise:
            noise = self.phase_noise * rng.standard_normal((*signal.shape[:2], 1, 1))
            signal = signal * np.exp(1j * noise)
        return signal + self.coupling


def _scaled(values: np.ndarray, rms: float) -> np.ndarray:
    """Values of mean zero with the given root mean square."""
    centred = values - values.mean()
    return centred * rms / np.sqrt((centred**2).mean())


def with_ghosts(paths: Paths, height: np.ndarray, rot: np.ndarray, share: float) -> Paths:
    """Paths and the ghosts of their scatterers: echoes that come back by way of the floor, one way out of two.

    The wave goes straight to the scatterer, and comes back from its mirror image below the floor.

    Args:
        height: f8 (4,), m, of the radar over the floor at the paths' nodes.
        rot: f8 (4, 3, 3), scene-from-radar.
        share: amplitude of a ghost over that of its scatterer.
    """
    ends = paths.direction
    ahead = np.sqrt(np.maximum(1 - (ends**2).sum(axis=-1), 0))
    distance, reached = paths.distance, np.empty_like(paths.distance)
    sideways = np.empty_like(ends)
    for node in range(len(distance)):
        end = 0 if node < 2 else 1
        unit = np.concatenate([ahead[end, :, None], ends[end]], axis=-1)
        seen = distance[node][:, None] * matmul(unit, rot[node].T)
        # The scatterer is at this height over the floor; its image is as far below it.
        seen[:, 2] -= 2 * np.maximum(height[node] + seen[:, 2], 0)
        reached[node] = np.linalg.norm(seen, axis=-1)
        if node in (0, len(distance) - 1):
            sideways[end] = matmul(seen / reached[node][:, None], rot[node])[:, 1:]
    # The array sees the wave that comes back; one half of the way is the straight one.
    ghosts = Paths((distance + reached) / 2, sideways, share * paths.amplitude, paths.phase + np.pi)
    axes = (1, 1, 0, 0)
    return Paths(*(np.concatenate(pair, axis) for *pair, axis in zip(paths, ghosts, axes, strict=True)))


def bursts(chirps: Chirps, share: float, rng: np.random.Generator) -> np.ndarray:
    """Beat signals of another radar in a share of the chirps, c16 (chirp, tx, rx, sample), ADC counts.

    The frequency between both ramps crosses the band of the receiver at a constant rate, so that a burst is a linear
    chirp through all of the band, from one direction for the whole frame.
    """
    loops, transmitters, _, samples = chirps.shape
    time = np.arange(samples) / samples
    sine = rng.uniform(-0.8, 0.8)
    at_receivers = np.exp(-2j * np.pi * chirps.antennas[1][:, 0] * sine)
    signal = np.zeros(chirps.shape, "c16")
    for loop, tx in np.argwhere(rng.random((loops, transmitters)) < share):
        length = rng.uniform(_SHORTEST, _LONGEST)
        middle = rng.uniform(0, 1)
        # Cycles per chirp at the ends of the band: half of the number of samples.
        offset = time - middle
        inside = np.abs(offset) < length / 2
        phase = 2 * np.pi * 0.5 * (samples / length) * offset**2 + rng.uniform(0, 2 * np.pi)
        burst = AMPLITUDE * rng.uniform(0.5, 1.5) * np.exp(1j * phase) * inside
        signal[loop, tx] = at_receivers[:, None] * burst
    return signal
