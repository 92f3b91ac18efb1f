"""`import velodyne`: captures (`.pcap`) of Velodyne lidars as traces with a `lidar` that is points."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.format.files import opened_file
from rover_pipeline.format.merge import imported_trace
from rover_pipeline.importers.origin import write_config
from rover_pipeline.importers.points import PointsWriter
from rover_pipeline.importers.table import say
from rover_pipeline.importers.velodyne_models import MODELS, NAMES, Model, calibrated_64
from rover_pipeline.importers.velodyne_packets import PACKET_BYTES, is_data
from rover_pipeline.importers.velodyne_sweeps import Sweep, SweepBuilder

#: First bytes of a capture -> byte order and time unit (the file format of libpcap, pcap-savefile(5)).
_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6), b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9), b"\xa1\xb2\x3c\x4d": (">", 1e-9),
}  # fmt: skip
_NEXT_GENERATION = b"\x0a\x0d\x0d\x0a"
#: Link type -> bytes before the IP header.
_LINKS = {1: 14, 113: 16, 101: 0, 12: 0, 0: 4}
_VLAN = (0x8100, 0x88A8)
_MAX_PACKET = 1 << 18
_UDP = 17
#: Ports of other makers, for the message.
_OTHERS = {6699: "RoboSense", 2368: "Hesai", 56301: "Livox", 7502: "Ouster"}


class Datagram(NamedTuple):
    """Attributes: stamp: s, when it came; source: address of the sender and port; data: u1 (N,)."""

    stamp: float
    source: tuple[bytes, int]
    data: np.ndarray


def model_of(name: str | None, calibration: Path | None) -> Model | None:
    """The lidar that the options name; None if they do not.

    Raises:
        ConfigError: the name is not known, or the options contradict one another.
    """
    if calibration is not None:
        if name not in (None, "hdl64e"):
            raise ConfigError(f"--calibration is of an HDL-64E, --model is {name}; give only one of them")
        return calibrated_64(calibration)
    if name == "hdl64e":
        raise ConfigError("--model hdl64e: its lasers differ from device to device: give --calibration FILE too")
    return MODELS[NAMES[name]] if name else None


def import_capture(capture: Path, out: Path, model: str | None, calibration: Path | None, partial: bool) -> int:
    """`import_velodyne` with the arguments of the command line."""
    return import_velodyne(capture, out, model_of(model, calibration), say, partial=partial)


def import_velodyne(
    capture: Path, out: Path, model: Model | None, say: Callable[[str], object], *, partial: bool = False
) -> int:
    """Write the trace `out` from a capture. The lidar whose packet comes first is imported.

    Args:
        model: the lidar; None = the one that its packets name.
        partial: use the packets before the place where the capture is cut off.

    Returns:
        The number of sweeps.

    Raises:
        FormatError: the file is no capture, is cut off, or holds no packets of a lidar that is known.
    """
    builder = SweepBuilder(model)
    others: Counter[int] = Counter()
    with (
        imported_trace(out) as trace,
        opened_file(capture) as file,
    ):
        size = file.seek(0, 2)
        file.seek(0)
        chosen = None
        sink = Sweeps(trace / "lidar", f"capture {capture.name}")
        with progress("import velodyne", max(size // 1_000_000, 1), "MB") as advance:
            told = 0
            for datagram in datagrams(file, capture, size, partial, say):
                if not is_data(datagram.data):
                    others[len(datagram.data)] += 1
                    continue
                chosen = chosen or datagram.source
                if datagram.source != chosen:
                    others[-1] += 1
                    continue
                for sweep in _named(capture, builder.add(datagram.data, datagram.stamp)):
                    sink.put(sweep)
                if file.tell() // 1_000_000 > told:
                    advance(file.tell() // 1_000_000 - told)
                    told = file.tell() // 1_000_000
        if chosen is None:
            sizes = ", ".join(f"{count} of {length} bytes" for length, count in others.most_common(5)) or "none"
            raise FormatError(
                f"{capture}: holds no data packets of a Velodyne lidar ({PACKET_BYTES} bytes); its datagrams: {sizes}. "
                "Captures of Hesai, Livox and others: let their ROS driver write a bag, and `import ros` that"
            )
        for sweep in _named(capture, builder.finish()):
            sink.put(sweep)
        sink.close()
        assert builder.model is not None
        notes = [f"{builder.model.name}: {sink.count} sweeps, {sink.count - sink.valid} of them not whole", *sink.notes]
        if builder.lost:
            notes.append(f"{builder.lost} packets are missing: sweeps that lack more than 1 % are not valid")
        if others[-1]:
            notes.append(f"{others[-1]} packets of another lidar are left out: a trace holds one")
        for note in notes:
            say(f"{capture}: {note}")
        sensors: dict[str, Any] = {"lidar": {"type": "lidar", "args": {"model": builder.model.name}}}
        write_config(trace, sensors, command="import velodyne", sources=[capture], notes=notes)
    return sink.count


def _named(capture: Path, sweeps: Iterator[Sweep]) -> Iterator[Sweep]:
    try:
        yield from sweeps
    except FormatError as error:
        raise FormatError(f"{capture}: {error}") from error


class Sweeps:
    """Writes sweeps of packets as the sensor `lidar`.

    Attributes:
        count, valid: sweeps that were written, and those of them that are whole; notes: what was left out.
    """

    def __init__(self, folder: Path, source: str) -> None:
        self.folder, self._source = folder, source
        self.count = self.valid = self._late = 0
        self.notes: list[str] = []
        self._writer: PointsWriter | None = None
        self._last = -np.inf

    def put(self, sweep: Sweep) -> None:
        if self._writer is None:
            self._writer = PointsWriter(
                self.folder, intensity="calibrated reflectivity, 0 to 255", ring=True, time=True, source=self._source
            )
        if sweep.ts <= self._last:
            self._late += 1
            return
        self._writer.append(sweep.ts, sweep.cloud, valid=sweep.valid)
        self._last = sweep.ts
        self.count += 1
        self.valid += sweep.valid

    def close(self) -> None:
        if self._late:
            self.notes.append(f"{self._late} sweeps are left out: they are stamped no later than those before")
        if self._writer:
            self._writer.close()


def datagrams(
    file: IO[bytes], path: Path, size: int, partial: bool, say: Callable[[str], object]
) -> Iterator[Datagram]:
    """The UDP datagrams of a capture, in order. Fragments of larger ones are left out.

    Raises:
        FormatError: the file is no capture, or is cut off and `partial` is off.
    """
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
    port = int.from_bytes(udp[2:4], "big")
    return Datagram(stamp, (ip[12:16], port), np.frombuffer(udp[8:length], "u1"))
