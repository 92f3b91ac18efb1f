"""`import ros`: makes a trace from bags. The first reading finds out what there is, the second one writes it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError, short_text
from rover_pipeline.format.merge import imported_trace
from rover_pipeline.format.provenance import fingerprint
from rover_pipeline.importers.ahead import THREADS, InOrder
from rover_pipeline.importers.origin import write_config
from rover_pipeline.importers.pictures import describe_lens
from rover_pipeline.importers.ros.bags import Recording
from rover_pipeline.importers.ros.choice import Choice, choose_topics, metadata_of, namespace
from rover_pipeline.importers.ros.files import Message
from rover_pipeline.importers.ros.messages import LIVOX, PACKETS, Decoder
from rover_pipeline.importers.ros.poses import ReferenceSink, mounts, with_imu
from rover_pipeline.importers.ros.sinks import CameraSink, GnssSink, ImuSink, RadarSink, Sink, lens_of
from rover_pipeline.importers.ros.survey import Stamps, Survey, Topic, choose_stamps, survey
from rover_pipeline.importers.ros.sweeps import CloudSink, LivoxSink, PacketSink, ScanSink
from rover_pipeline.importers.table import say
from rover_pipeline.importers.velodyne import model_of
from rover_pipeline.importers.velodyne_packets import Model
from rover_pipeline.lookup import load
from rover_pipeline.numerics.jumps import is_set

Times = Literal["auto", "header", "bag"]
_MB = 1_000_000  # Layout.
#: Of the topics that are left out, as many are listed one by one. Layout.
_LISTED = 20


class Options(NamedTuple):
    """Options of the import.

    Attributes:
        topics: `ROLE=TOPIC`, as on the command line: a role that is named has these topics only.
        times: `auto`: header stamps where they are good; `header`, `bag`: these only.
        partial: use what is whole of damaged bags.
        approaching: Doppler velocities of the radar are positive where a target approaches.
        model: the Velodyne whose packets are in the bag; None = the one that they name.
        metadata: the `.json` of the Ouster whose packets are in the bag; None = that of a topic beside them.
    """

    topics: Sequence[str] = ()
    times: Times = "auto"
    partial: bool = False
    approaching: bool = False
    model: Model | None = None
    metadata: Path | None = None


#: Stream, number of the message in the order of times, and its data.
_Item = tuple["_Stream", int, memoryview]


@dataclass
class _Stream:
    """One topic on its way into a sensor: messages go to the sink in the order of their times.

    Attributes:
        failed: why a sensor that is not the main one of its role cannot be made: it is left out.
    """

    sensor: str
    role: str
    topic: Topic
    stamps: Stamps
    sink: Sink
    decoder: Decoder
    number: int = 0
    next: int = 0
    waiting: dict[int, bytes] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    failed: str = ""

    def take(self, message: Message, ahead: InOrder[_Item, Any]) -> None:
        rank = int(self.stamps.rank[self.number])
        self.number += 1
        if rank < 0 or self.failed:
            return
        if rank != self.next:
            self.waiting[rank] = bytes(message.data)
            return
        self._put(message.data, ahead)
        while self.next in self.waiting:
            self._put(memoryview(self.waiting.pop(self.next)), ahead)

    def close(self) -> None:
        """Make the sensor complete, or remove it where it cannot be made."""
        try:
            self.sink.close()
        except FormatError as error:
            self.fail(error)
        if not self.sink.count and self.sensor != self.role:
            self.failed = self.failed or next(iter(self.damaged), "it holds no sample")
        if self.failed:
            shutil.rmtree(self.sink.folder, ignore_errors=True)

    def _put(self, data: memoryview, ahead: InOrder[_Item, Any]) -> None:
        item = (self, self.next, data)
        self.next += 1
        if self.sink.heavy and self.sink.ready:
            ahead.put(item, _prepared, 2 * len(data))
        else:
            _add(item, lambda: _prepared(item))

    def fail(self, error: FormatError) -> None:
        """Raises the error where the sensor is the main one of its role."""
        if self.sensor == self.role:
            raise error
        self.failed = self.failed or short_text(error, 300)


def _prepared(item: _Item) -> Any:
    stream, number, data = item
    return stream.sink.prepare(stream.decoder.decode(stream.topic.type, data), number)


def _add(item: _Item, prepared: Callable[[], Any]) -> None:
    stream, number, _ = item
    ns = int(stream.stamps.ns[number])
    if stream.failed:
        return
    try:
        stream.sink.add_exact(ns, prepared())
    except ValueError as error:
        stream.damaged.append(f"the message at {ns / 1e9:.6f} s {error}")
    except FormatError as error:
        stream.fail(error)


def import_bags(
    bags: Sequence[Path],
    out: Path,
    topic: Sequence[str],
    times: Times,
    partial: bool,
    doppler: str,
    model: str | None,
    calibration: Path | None,
    meta: Path | None,
) -> dict[str, int]:
    """`import_ros` with the arguments of the command line."""
    options = Options(topic, times, partial, doppler == "approaching", model_of(model, calibration), meta)
    return import_ros(bags, out, options, say)


def import_ros(bags: Sequence[Path], out: Path, options: Options, say: Callable[[str], object]) -> dict[str, int]:
    """Write the trace `out` from bags of ROS 1 or ROS 2.

    Args:
        say: is called with one line for each topic: what became of it.

    Returns:
        Sensor -> number of samples.

    Raises:
        FormatError: a bag cannot be read, is damaged, or holds nothing that a trace can hold.
        ConfigError: an option cannot be followed.
    """
    # The scratch file has no name, so that it is gone whatever happens.
    with imported_trace(out) as trace, tempfile.TemporaryFile(dir=trace, buffering=0) as scratch:
        recording = Recording(bags, options.partial, scratch)
        where = str(bags[0]) if len(bags) == 1 else f"{bags[0]} and {len(bags) - 1} more"
        total = max(2 * recording.size // _MB, 1)
        with progress("import ros", total, "MB") as advance:
            count = _in_megabytes(advance)
            found = survey(recording, count)
            choice = choose_topics(found.topics, options.topics, options.metadata is not None)
            notes = recording.problems()
            if not choice.topics:
                for name, why in choice.left.items():
                    if found.topics[name].type in PACKETS:
                        raise FormatError(f"{where}: {name}: {why}")
                held = ", ".join(f"{name} ({topic.type})" for name, topic in sorted(found.topics.items())[:_LISTED])
                kinds = "cloud, laser scan, packets of a lidar, picture, IMU, pose or position"
                raise FormatError(f"{where}: holds no {kinds}; its topics: {held or 'none'}")
            streams = _streams(trace, found, choice, options, bags, where)
            _read_again(recording, streams, count)
        samples: dict[str, int] = {}
        sensors: dict[str, Any] = {}
        for stream in streams:
            stream.close()
            if stream.failed:
                choice.left[stream.topic.name] = stream.failed
                del choice.topics[stream.sensor]
                continue
            notes += _remarks(stream, where, options)
            if stream.sink.count:
                samples[stream.sink.folder.name] = stream.sink.count
                if stream.role != "reference":
                    sensors[stream.sensor] = {"type": stream.role, "args": {"topic": stream.topic.name}}
        if not samples:
            raise FormatError(f"{where}: no message of {', '.join(choice.topics)} could be used: {'; '.join(notes)}")
        streams = [stream for stream in streams if not stream.failed]
        notes += [line for stream in streams for line in _lens(trace, choice, stream)]
        rig, missing = mounts(found.frames, choice)
        notes += missing
        for stream in streams:
            if stream.role == "imu" and stream.topic.type in PACKETS:
                with_imu(rig, choice, stream.sensor, stream.sink.mount)  # type: ignore[attr-defined]
        left = [f"left out: {name}: {why}" for name, why in sorted(choice.left.items())]
        for line in [*notes, *left[:_LISTED]]:
            say(line)
        if len(left) > _LISTED:
            say(f"left out: {len(left) - _LISTED} topics more")
        recorded: dict[str, Any] = {"times": options.times, "partial": options.partial, "topics": _described(streams)}
        if options.approaching:
            recorded["doppler"] = "approaching"
        if not all(is_set(stream.stamps.times) for stream in streams):
            recorded["clock"] = "own"
        write_config(trace, sensors, command="import ros", sources=bags, options=recorded, notes=notes + left, rig=rig)
    return samples


def _in_megabytes(advance: Callable[[int], object]) -> Callable[[int], object]:
    read = shown = 0

    def count(size: int) -> None:
        nonlocal read, shown
        read += size
        if read // _MB > shown:
            advance(read // _MB - shown)
            shown = read // _MB

    return count


def _streams(
    trace: Path, found: Survey, choice: Choice, options: Options, bags: Sequence[Path], where: str
) -> list[_Stream]:
    topics = choice.topics
    times: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    whole: dict[str, np.ndarray] = {}
    for topic in topics.values():
        if topic.damaged and not options.partial:
            number, problem = next(iter(topic.damaged.items()))
            raise FormatError(f"{where}: {topic.name}, message {number}: {problem}; --partial leaves it out")
        whole[topic.name] = kept = np.ones(topic.count, bool)
        kept[list(topic.damaged)] = False
        times[topic.name] = (np.array(topic.recorded, "i8")[kept], np.array(topic.stamped, "i8")[kept])
    first = next((topics[role].name for role in ("lidar", "radar", "camera", "imu") if role in topics), None)
    packets = [topic.name for topic in topics.values() if topic.type in PACKETS]
    stamps = choose_stamps(times, options.times, first, packets)
    streams = []
    for sensor, topic in topics.items():
        chosen = stamps[topic.name]
        rank = np.full(topic.count, -1, "i8")
        rank[whole[topic.name]] = chosen.rank
        chosen = chosen._replace(rank=rank)
        sink = _sink(trace, sensor, topic, chosen, found, choice, options, bags)
        streams.append(_Stream(sensor, choice.roles[sensor], topic, chosen, sink, Decoder(topic.encoding)))
    return streams


def _sink(
    trace: Path,
    sensor: str,
    topic: Topic,
    stamps: Stamps,
    found: Survey,
    choice: Choice,
    options: Options,
    bags: Sequence[Path],
) -> Sink:
    source, folder, role = f"ROS topic {topic.name}", trace / sensor, choice.roles[sensor]
    if topic.type in PACKETS:
        return _ouster(folder, role, topic, found, choice, options, source)
    if role == "imu":
        return ImuSink(folder)
    if role == "gnss":
        return GnssSink(folder)
    if role == "camera":
        return CameraSink(folder)
    if role == "radar":
        return RadarSink(folder, topic.points, topic.fields, -1.0 if options.approaching else 1.0, source)
    if role == "reference":
        return _reference(trace, topic, found, choice, options, bags)
    if topic.type == "velodyne_msgs/VelodyneScan":
        return PacketSink(folder, options.model, source, main=sensor == role)
    period = float(np.median(np.diff(stamps.times))) if len(stamps.times) > 1 else 0.1
    kinds = {"sensor_msgs/PointCloud2": CloudSink, "sensor_msgs/LaserScan": ScanSink, **dict.fromkeys(LIVOX, LivoxSink)}
    return kinds[topic.type](folder, period, stamps.source == "header", source)


def _ouster(
    folder: Path, role: str, topic: Topic, found: Survey, choice: Choice, options: Options, source: str
) -> Sink:
    """The sink of packets of an Ouster. Its metadata is there: the topic was chosen for that.

    A file is of the main lidar, and of packets in other namespaces that have none of their own.
    """
    make = load("rover_pipeline.importers.ros.ouster:sink_of")
    other = namespace(topic) != namespace(choice.topics.get("lidar", topic))
    own = metadata_of(found.topics, topic, own=True) if other else ""
    text = own if own or options.metadata else metadata_of(found.topics, topic)
    sink: Sink = make(folder, role, None if own else options.metadata, text, source)
    return sink


def _reference(
    trace: Path, topic: Topic, found: Survey, choice: Choice, options: Options, bags: Sequence[Path]
) -> ReferenceSink:
    """The reference is of the lidar, where `tf` says how the lidar is mounted on the body that the poses are of."""
    lidar, body = choice.topics.get("lidar"), str(topic.first.get("child_frame_id", "")).lstrip("/")
    mount = found.frames.between(body, lidar.frame) if lidar and body else None
    inputs = {path.name: fingerprint(path) for path in bags}
    described = {"topic": topic.name, "times": options.times}
    sink = ReferenceSink(trace, "lidar" if mount is not None else body, mount, described, inputs)
    if lidar and mount is None:
        sink.notes.append(f"poses are those of {body or 'a body'!r}, as tf does not say where the lidar is on it")
    return sink


def _read_again(recording: Recording, streams: Sequence[_Stream], advance: Callable[[int], object]) -> None:
    wanted = {stream.topic.name: stream for stream in streams}
    with ThreadPoolExecutor(THREADS) as pool:
        ahead = InOrder[_Item, Any](pool, _add)  # of all topics, so that memory does not depend on their number
        for message in recording.messages(wanted=wanted, advance=advance):
            stream = wanted.get(message.topic)
            if stream is not None and stream.number < stream.topic.count:
                stream.take(message, ahead)
        ahead.finish()


def _remarks(stream: _Stream, where: str, options: Options) -> list[str]:
    """What the user should know of a sensor. Raises FormatError for messages that cannot be used."""
    if stream.damaged and not options.partial:
        more = f" (and {len(stream.damaged) - 1} more)" if len(stream.damaged) > 1 else ""
        problem = short_text(stream.damaged[0], 300)
        raise FormatError(f"{where}: {stream.topic.name}: {problem}{more}; --partial leaves them out")
    skipped = len(stream.damaged) + len(stream.topic.damaged)
    lines = [*stream.sink.notes, *([stream.stamps.note] if stream.stamps.note else [])]
    if skipped:
        lines.append(f"{skipped} messages cannot be decoded and are left out")
    source = {"header": "header stamps", "bag": "bag times"}.get(stream.stamps.source, stream.stamps.source)
    head = f"{stream.sink.folder.name} = {stream.topic.name}: {stream.sink.count} samples, {source}"
    return [head, *(f"{stream.topic.name}: {line}" for line in lines)]


def _lens(trace: Path, choice: Choice, stream: _Stream) -> list[str]:
    """Write the lens of a camera, where its CameraInfo is known, and return what the user should know of it."""
    sink, camera = stream.sink, stream.sensor
    if not isinstance(sink, CameraSink) or sink.size is None:
        return []
    info = choice.lenses.get(camera)
    if info is None:
        asked = " (--topic camera_info=TOPIC names one)" if camera == "camera" else ""
        return [f"{camera}: no CameraInfo is beside its topic: no camera.json{asked}"]
    lens, note = lens_of(info.first, sink.size, "rect" in stream.topic.name)
    if lens is not None:
        describe_lens(trace / camera, lens)
        note = note or f"intrinsics of {info.name}"
    return [f"{camera}: {note}"]


def _described(streams: Sequence[_Stream]) -> dict[str, dict[str, str]]:
    return {
        stream.sensor: {"topic": stream.topic.name, "type": stream.topic.type, "times": stream.stamps.source}
        for stream in streams
    }
