"""Puts the returns of a Velodyne lidar together to sweeps, from azimuth zero, straight ahead, to azimuth zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.importers.points import Cloud
from rover_pipeline.importers.velodyne_models import MODELS, Model
from rover_pipeline.importers.velodyne_packets import PACKET_BYTES, Returns, decode, find_model, sensor_times

#: Packets that are decoded at once, and looked at to find the model.
_BATCH = 64
_TURN = 36000
#: Azimuth that a whole sweep may lack at its ends, hundredths of a degree.
_MISSING = 300
#: A packet that comes after so many times the usual time has lost ones before it.
_LOST = 1.9
#: Share of a sweep that may be lost.
_MAX_LOST = 0.01
_HOUR_US = 3_600_000_000


class Sweep(NamedTuple):
    """Attributes: ts: s, when its last packet came, the end of the sweep; valid: 1 = it is a whole revolution."""

    ts: float
    cloud: Cloud
    valid: bool


class SweepBuilder:
    """Takes packets in order and gives sweeps.

    A sweep ends where the azimuth passes zero. The first and the last one of a capture are not whole, and neither is
    one in which packets are lost; they are given with `valid` = 0. A lidar that was told to measure only a part of the
    circle has the same gap in every sweep, which is no loss.

    Args:
        model: the lidar; None = the one that the packets name.

    Attributes:
        lost: number of packets that are missing.
    """

    def __init__(self, model: Model | None = None) -> None:
        self.model = model
        self.lost = 0
        self._packets: list[np.ndarray] = []
        self._stamps: list[float] = []
        self._parts: list[tuple[np.ndarray, ...]] = []
        self._last_azimuth = -1.0
        self._last_us: int | None = None
        self._usual_us = 0.0
        self._wraps = 0
        self._gaps: set[int] = set()
        self._old_gaps: set[int] = set()
        self._missing_us = 0.0
        self._sweeps = 0

    def add(self, packet: np.ndarray, stamp: float) -> Iterator[Sweep]:
        """Sweeps that became complete.

        Args:
            packet: u1 (1206,); stamp: s, when it came.

        Raises:
            FormatError: the packets are of a lidar that is not known, or needs a calibration.
        """
        if len(packet) != PACKET_BYTES:
            raise ValueError(f"is a packet of {len(packet)} bytes, data packets have {PACKET_BYTES}")
        self._packets.append(packet)
        self._stamps.append(stamp)
        if len(self._packets) >= _BATCH:
            yield from self._decode()

    def finish(self) -> Iterator[Sweep]:
        """The sweeps that are left when there are no more packets."""
        if self._packets:
            yield from self._decode()
        if self._parts:
            yield self._sweep(whole=self._last_azimuth > _TURN - _MISSING)

    def _decode(self) -> Iterator[Sweep]:
        packets = np.stack(self._packets)
        stamps = np.array(self._stamps)
        self._packets, self._stamps = [], []
        model = self.model = self.model or _named(packets)
        clock = self._unwrapped(sensor_times(packets))
        found = decode(packets, model)
        steps = np.diff(clock, prepend=clock[0] if self._last_us is None else self._last_us)
        if not self._usual_us and len(steps) > 2:
            self._usual_us = float(np.median(steps[1:]))
        self._last_us = int(clock[-1])
        begins = np.searchsorted(found.packet, np.arange(len(packets) + 1))
        for i in range(len(packets)):
            part = slice(begins[i], begins[i + 1])
            if steps[i] > _LOST * self._usual_us > 0:
                self._note_gap(float(steps[i]), found.azimuth[part])
            yield from self._split(found, part, float(clock[i]), float(stamps[i]))

    def _split(self, found: Returns, part: slice, clock: float, stamp: float) -> Iterator[Sweep]:
        """Add the returns of a packet, and cut where the azimuth passes zero."""
        azimuth = found.azimuth[part]
        if not len(azimuth):
            return
        before = np.concatenate([[self._last_azimuth if self._last_azimuth >= 0 else azimuth[0]], azimuth[:-1]])
        # Returns of one block differ by the lasers' delays only, so a large step backwards is a new revolution.
        cuts = np.flatnonzero(before - azimuth > _TURN // 2)
        self._last_azimuth = float(azimuth[-1])
        times = clock + found.time[part]
        end = float(times.max())
        columns = (found.xyz[part], found.intensity[part], found.ring[part], times, azimuth)
        for piece in np.split(np.arange(len(azimuth)), cuts[:1]):
            if len(piece) and len(cuts) and piece[0] == cuts[0]:
                if self._parts:
                    yield self._sweep(whole=True)
                self._parts = []
            if len(piece):
                # When the packet came, less the time from the last return of the piece to the packet's end.
                came = stamp - (end - float(times[piece].max())) / 1e6
                self._parts.append((*(each[piece] for each in columns), np.array([came])))

    def _sweep(self, whole: bool) -> Sweep:
        xyz, intensity, ring, times, azimuth, came = (
            np.concatenate([part[i] for part in self._parts]) for i in range(len(self._parts[0]))
        )
        began = self._sweeps > 0 or azimuth.min() < _MISSING
        duration = max(float(times.max() - times.min()), 1.0)
        valid = whole and began and self._missing_us <= _MAX_LOST * duration
        self._parts, self._missing_us = [], 0.0
        self._old_gaps, self._gaps = self._gaps, set()
        self._sweeps += 1
        cloud = Cloud(xyz, intensity.astype("f4"), ring, (times - times.max()) / 1e6)
        return Sweep(float(came[-1]), cloud, valid)

    def _note_gap(self, step: float, azimuth: np.ndarray) -> None:
        """Count packets that are missing, unless the sweep before had the same gap, whose end is in steps of 10 deg."""
        place = int(azimuth[0] // 1000) if len(azimuth) else -1
        self._gaps.add(place)
        if not {place - 1, place, place + 1} & self._old_gaps:
            self._missing_us += step
            self.lost += round(step / self._usual_us) - 1

    def _unwrapped(self, times: np.ndarray) -> np.ndarray:
        """The sensor's time without its fall to zero at each full hour, us."""
        previous = times[0] if self._last_us is None else self._last_us - self._wraps * _HOUR_US
        falls = np.cumsum(np.diff(times, prepend=previous) < -_HOUR_US // 2)
        clock = times + (self._wraps + falls) * _HOUR_US
        self._wraps += int(falls[-1])
        return np.asarray(clock)


def _named(packets: np.ndarray) -> Model:
    product = find_model(packets)
    if product == 0:
        raise FormatError("packets of an HDL-64E, whose lasers differ from device to device: give --calibration FILE")
    if product is None:
        known = ", ".join(f"{number:#x} {model.name}" for number, model in MODELS.items())
        raise FormatError(f"packets of the unknown product {packets[0, 1205]:#x} (known: {known}); --model names it")
    return MODELS[product]
