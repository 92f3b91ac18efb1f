"""`import velodyne`: captures (`.pcap`) of Velodyne lidars as traces with a `lidar` that is points.

Returns are put together to sweeps, from azimuth zero, straight ahead, to azimuth zero.
"""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from rover_pipeline.draw.formatting import count as counted
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.format.files import opened_file
from rover_pipeline.format.trace import imported_trace
from rover_pipeline.importers import velodyne_packets as wire
from rover_pipeline.importers.origin import MAX_SENSORS, sensor_name, write_config
from rover_pipeline.importers.points import Cloud, PointsWriter
from rover_pipeline.importers.table import say
from rover_pipeline.importers.tuning import TUNING

#: Packets that are decoded at once; the first ones give the model and the usual time between packets. Schedule.
_PACKETS = 64
#: The sensor's time falls to zero after this. Layout.
_HOUR_US = 3_600_000_000
#: First bytes of a capture -> byte order and time unit (the file format of libpcap, pcap-savefile(5)). Layout.
_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6), b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9), b"\xa1\xb2\x3c\x4d": (">", 1e-9),
}  # fmt: skip
_NEXT_GENERATION = b"\x0a\x0d\x0d\x0a"
#: Link type -> bytes before the IP header. Layout.
_LINKS = {1: 14, 113: 16, 101: 0, 12: 0, 0: 4}
_VLAN = (0x8100, 0x88A8)
#: Maximum length of a packet in a capture, and protocol of UDP. Layout.
_MAX_PACKET = 1 << 18
_UDP = 17


class PacketWriter(PointsWriter):
    """Writes the sweeps of packets, which come in order, as the sensor `lidar`.

    A sweep ends where the azimuth passes zero. The first and the last one of a capture are not whole, and neither is
    one in which packets are lost; they have `valid` = 0. A lidar that is set to measure a part of the circle has the
    same gap in every sweep, which is no loss.

    Args:
        given: the lidar that the user names; None = the one that the packets name. main: it is that one whatever they
            name.
    """

    def __init__(self, path: Path, source: str, given: wire.Model | None, *, main: bool) -> None:
        super().__init__(path, source, unit="calibrated reflectivity, 0 to 255")
        self._model, self._otherwise = given if main else None, given
        self.whole = self.lost = 0  #: sweeps that are whole revolutions, and packets that are missing.
        self._packets: list[np.ndarray] = []
        self._stamps: list[float] = []
        self._parts: list[tuple[np.ndarray, ...]] = []
        self._last_azimuth, self._came = -1.0, 0.0
        self._last_us: int | None = None
        self._usual_us = 0.0
        self._gaps: set[int] = set()
        self._old_gaps: set[int] = set()
        self._missing_us = 0.0
        self._sweeps = 0

    @property
    def model(self) -> str:
        """Name of the lidar; empty where no packet was decoded."""
        return self._model.name if self._model else ""

    def add(self, packet: np.ndarray, stamp: float) -> None:
        """Take a packet, u1 (1206,), that came at `stamp`, s. Raises FormatError where the packets are of a lidar that
        is not known, or needs a calibration."""
        self._packets.append(packet)
        self._stamps.append(stamp)
        if len(self._packets) >= _PACKETS:
            self._decode()

    def close(self) -> None:
        """Make the sensor complete, if there was a sweep."""
        if self._packets:
            self._decode()
        if self._parts:
            self._end_sweep(whole=self._last_azimuth > wire.TURN * (1 - TUNING.max_odd))
        if self.count:
            super().close()

    @property
    def notes(self) -> list[str]:
        """What was left out, one line each."""
        late = f"left out: {counted(self.late, 'sweep')} stamped no later than the one before"
        lost = f"missing: {counted(self.lost, 'packet')}; sweeps that lack more than 1 % are not valid"
        return [late] * bool(self.late) + [lost] * bool(self.lost)

    def _decode(self) -> None:
        packets, stamps = np.stack(self._packets), self._stamps
        self._packets, self._stamps = [], []
        self._model = self._model or _model_named(packets, self._otherwise)
        times = wire.sensor_times(packets)
        before = times[:1] if self._last_us is None else [self._last_us]
        clock = np.unwrap(np.append(before, times), period=_HOUR_US)
        steps, clock = np.diff(clock), clock[1:]
        found = wire.decode(packets, self._model)
        if not self._usual_us and len(steps) > 2:
            self._usual_us = float(np.median(steps[1:]))
        self._last_us = int(clock[-1])
        begins = np.searchsorted(found.packet, np.arange(len(packets) + 1))
        for i in range(len(packets)):
            part = slice(begins[i], begins[i + 1])
            if self._usual_us and round(steps[i] / self._usual_us) > 1:
                self._note_gap(float(steps[i]), found.azimuth[part])
            self._split(found, part, float(clock[i]), stamps[i])

    def _split(self, found: wire.Returns, part: slice, clock: float, stamp: float) -> None:
        """Add the returns of a packet, and cut where the azimuth passes zero."""
        azimuth = found.azimuth[part]
        if not len(azimuth):
            return
        before = np.concatenate([[self._last_azimuth if self._last_azimuth >= 0 else azimuth[0]], azimuth[:-1]])
        # Returns of one block differ by the lasers' delays only, so a large step backwards is a new revolution.
        cuts = np.flatnonzero(before - azimuth > wire.TURN // 2)
        self._last_azimuth = float(azimuth[-1])
        times = clock + found.time[part]
        end = float(times.max())
        columns = (found.xyz[part], found.intensity[part], found.ring[part], times, azimuth)
        for number, piece in enumerate(np.split(np.arange(len(azimuth)), cuts[:1])):
            if number and self._parts:
                self._end_sweep(whole=True)
            if len(piece):
                # When the packet came, less the time from the last return of the piece to the packet's end.
                self._came = stamp - (end - float(times[piece].max())) / 1e6
                self._parts.append(tuple(each[piece] for each in columns))

    def _end_sweep(self, whole: bool) -> None:
        xyz, intensity, ring, times, azimuth = map(np.concatenate, zip(*self._parts, strict=True))
        began = self._sweeps > 0 or azimuth.min() < wire.TURN * TUNING.max_odd
        duration = max(float(times.max() - times.min()), 1.0)
        valid = whole and began and self._missing_us <= TUNING.max_odd * duration
        self._parts, self._missing_us = [], 0.0
        self._old_gaps, self._gaps = self._gaps, set()
        self._sweeps += 1
        before = self.count
        self.put(self._came, Cloud(xyz, intensity.astype("f4"), ring, (times - times.max()) / 1e6), valid=valid)
        self.whole += valid * (self.count - before)

    def _note_gap(self, step: float, azimuth: np.ndarray) -> None:
        """Count packets that are missing, unless the sweep before had the same gap, whose end is in steps of 10 deg."""
        place = int(azimuth[0] // 1000) if len(azimuth) else -1
        self._gaps.add(place)
        if not {place - 1, place, place + 1} & self._old_gaps:
            self._missing_us += step
            self.lost += round(step / self._usual_us) - 1


def _model_named(packets: np.ndarray, otherwise: wire.Model | None) -> wire.Model:
    product = wire.find_model(packets)
    if not product and otherwise is not None:
        return otherwise
    if product == 0:
        raise FormatError("packets of an HDL-64E, whose lasers differ from device to device: give --calibration FILE")
    if product is None:
        known = ", ".join(f"{number:#x} {model.name}" for number, model in wire.MODELS.items())
        raise FormatError(f"packets of the unknown product {packets[0, 1205]:#x} (known: {known}); --model names it")
    return wire.MODELS[product]


class Datagram(NamedTuple):
    """A UDP datagram of a capture."""

    stamp: float  #: when it came, s.
    source: str  #: address of the sender, and port.
    data: np.ndarray  #: u1 (N,).


def model_of(name: str | None, calibration: Path | None) -> wire.Model | None:
    """The lidar that the options name; None if they do not. Raises ConfigError where the name is not known, or the
    options contradict one another."""
    if calibration is not None:
        if name not in (None, "hdl64e"):
            raise ConfigError(f"--calibration is of an HDL-64E, --model is {name}; give only one of them")
        return wire.calibrated_64(calibration)
    if name == "hdl64e":
        raise ConfigError("--model hdl64e: its lasers differ from device to device: give --calibration FILE too")
    return wire.MODELS[wire.NAMES[name]] if name else None


def import_velodyne(
    capture: Path,
    out: Path,
    *,
    model: str | None = None,
    calibration: Path | None = None,
    partial: bool = False,
) -> int | dict[str, int]:
    """Write the trace `out` from a capture; return the number of sweeps, or that of each lidar if there are several.

    The arguments are those of the command, as `table.py` describes them. The lidar whose packet comes first is `lidar`;
    others are called after what differs in their addresses, and are of `model` where their packets name none. Raises
    FormatError where the file is no capture, is cut off, or holds no packets of a lidar that is known.
    """
    given = model_of(model, calibration)
    lidars: dict[str, PacketWriter] = {}  # by address and port
    failed: dict[str, str] = {}  # why one that is not the first cannot be imported
    others: Counter[int] = Counter()

    def use(source: str, call: Callable[..., None], *values: Any) -> None:
        """Call the writer of a lidar. Only what the first one cannot do is an error of the import."""
        try:
            call(*values)
        except FormatError as error:
            if lidars[source].path.name == "lidar":
                raise FormatError(f"{capture}: {error}") from error
            failed[source] = str(error)

    with imported_trace(out) as trace, opened_file(capture) as file:
        size = file.seek(0, 2)
        file.seek(0)
        with progress("import velodyne", size, "B") as advance:
            done = 0
            for stamp, source, packet in datagrams(file, capture, partial):
                if not wire.is_data(packet):
                    others[len(packet)] += 1
                    continue
                if source not in lidars:
                    if len(lidars) >= MAX_SENSORS:
                        others[-1] += 1
                        continue
                    taken = [each.path.name for each in lidars.values()]
                    name = sensor_name("lidar", source, next(iter(lidars)), taken) if lidars else "lidar"
                    lidars[source] = PacketWriter(trace / name, f"capture {capture.name}", given, main=not lidars)
                if source not in failed:
                    use(source, lidars[source].add, packet, stamp)
                advance(file.tell() - done)
                done = file.tell()
        if not lidars:
            sizes = ", ".join(f"{count} of {length} bytes" for length, count in others.most_common(5)) or "none"
            raise FormatError(
                f"{capture}: holds no data packets of a Velodyne lidar ({wire.PACKET_BYTES} bytes); its datagrams: "
                f"{sizes}. Captures of Hesai, Livox and others: let their ROS driver write a bag, and `import ros` that"
            )
        notes: list[str] = []
        for source, lidar in lidars.items():
            if source not in failed:
                use(source, lidar.close)
            name, count = lidar.path.name, lidar.count
            if not count and name != "lidar":
                failed.setdefault(source, "its packets hold no sweep")
            if source in failed:
                shutil.rmtree(lidar.path, ignore_errors=True)
                notes.append(f"the lidar {source} is left out: {failed[source]}")
                continue
            made = f"{lidar.model}: {counted(count, 'sweep')}, {count - lidar.whole} of them not whole"
            which = "" if name == "lidar" else f"{name} = {source}: "
            notes += [which + note for note in (made, *lidar.notes)]
        if others[-1]:
            notes.append(f"left out: {counted(others[-1], 'packet')} of further lidars; a trace holds {MAX_SENSORS}")
        whole = {source: lidar for source, lidar in lidars.items() if source not in failed}
        sensors: dict[str, Any] = {}
        for source, lidar in whole.items():
            several = {"address": source} if len(whole) > 1 else {}
            sensors[lidar.path.name] = {"type": "lidar", "args": {"model": lidar.model, **several}}
        write_config(trace, sensors, command="import velodyne", sources=[capture], notes=notes, said_of=capture)
    counts = {lidar.path.name: lidar.count for lidar in whole.values()}
    return counts if len(counts) > 1 else counts["lidar"]


def datagrams(file: IO[bytes], path: Path, partial: bool, say: Callable[[str], object] = say) -> Iterator[Datagram]:
    """The UDP datagrams of a capture, in order. Fragments of larger ones are left out. Raises FormatError where the
    file is no capture, or is cut off and `partial` is off."""
    header = file.read(24)
    if header[:4] == _NEXT_GENERATION:
        raise FormatError(f"{path}: is a pcapng; `editcap -F pcap IN OUT` makes a pcap of it")
    if header[:4] not in _MAGIC or len(header) < 24:
        raise FormatError(f"{path}: begins with {header[:4].hex(' ') or 'nothing'}: is no capture (.pcap)")
    order, unit = _MAGIC[header[:4]]
    (link,) = struct.unpack(order + "I", header[20:24])
    skipped = _LINKS.get(link & 0xFFFF)
    if skipped is None:
        raise FormatError(f"{path}: was captured on a link of type {link & 0xFFFF}; Ethernet and IP can be read")
    record = struct.Struct(order + "IIII")
    while at := file.tell():
        head = file.read(record.size)
        if not head:
            return
        stored = record.unpack(head)[2] if len(head) == record.size else 0
        data = file.read(stored) if stored <= _MAX_PACKET else b""
        if len(head) < record.size or len(data) < stored:
            problem = f"byte {at}: the packet there is not whole: the capture is truncated or damaged"
            if not partial:
                raise FormatError(f"{path}: {problem}; --partial uses the packets before it")
            say(f"{path}: {problem}")
            return
        seconds, fraction = record.unpack(head)[:2]
        if datagram := _datagram(data, link & 0xFFFF, skipped, seconds + fraction * unit):
            yield datagram


def _datagram(data: bytes, link: int, skipped: int, stamp: float) -> Datagram | None:
    if link == 1:
        while int.from_bytes(data[skipped - 2 : skipped], "big") in _VLAN:
            skipped += 4
    ip = data[skipped:]
    if len(ip) < 28 or ip[0] >> 4 != 4 or ip[9] != _UDP or int.from_bytes(ip[6:8], "big") & 0x3FFF:
        return None
    udp = ip[4 * (ip[0] & 15) :]
    length = int.from_bytes(udp[4:6], "big")
    if length < 8 or len(udp) < length:
        return None
    source = f"{'.'.join(map(str, ip[12:16]))}:{int.from_bytes(udp[2:4], 'big')}"
    return Datagram(stamp, source, np.frombuffer(udp[8:length], "u1"))
