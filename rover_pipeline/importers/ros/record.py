"""`import ros`: makes a trace from bags. The first reading finds out what there is, the second one writes it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError, counted, short_text
from rover_pipeline.format.files import replace_json
from rover_pipeline.format.provenance import fingerprint
from rover_pipeline.format.trace import imported_trace
from rover_pipeline.importers.ahead import ahead
from rover_pipeline.importers.origin import write_config
from rover_pipeline.importers.ros.bags import Recording
from rover_pipeline.importers.ros.choice import Choice, choose_topics, metadata_of, mounts, namespace, with_imu
from rover_pipeline.importers.ros.files import Message
from rover_pipeline.importers.ros.messages import LIVOX, PACKETS, decode
from rover_pipeline.importers.ros.sinks import CameraSink, GnssSink, ImuSink, RadarSink, ReferenceSink, Sink, lens_of
from rover_pipeline.importers.ros.survey import Stamps, Survey, Topic, choose_stamps, survey
from rover_pipeline.importers.ros.sweeps import CloudSink, LivoxSink, PacketSink, ScanSink
from rover_pipeline.importers.table import say
from rover_pipeline.importers.velodyne import model_of
from rover_pipeline.importers.velodyne_packets import Model
from rover_pipeline.lookup import load
from rover_pipeline.numerics.jumps import is_set

Times = Literal["auto", "header", "bag"]
#: Of the topics that are left out, as many are listed one by one. Layout.
_LISTED = 20


#: Roles of which a sink needs to know nothing but its folder.
_SINKS: dict[str, Callable[[Path], Sink]] = {"imu": ImuSink, "gnss": GnssSink, "camera": CameraSink}
#: Stream, number of the message in the order of times, and its data.
_Item = tuple["_Stream", int, memoryview]


@dataclass
class _Stream:
    """One topic on its way into a sensor: messages go to the sink in the order of their times. `failed` says why a
    sensor that is not the main one of its role cannot be made: it is left out."""

    sensor: str
    role: str
    topic: Topic
    stamps: Stamps
    sink: Sink
    number: int = 0
    next: int = 0
    waiting: dict[int, bytes | memoryview] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    failed: str = ""

    def take(self, message: Message) -> Iterator[_Item]:
        """The messages whose turn it is."""
        rank = int(self.stamps.rank[self.number])
        self.number += 1
        if rank < 0 or self.failed:
            return
        if rank != self.next:
            self.waiting[rank] = bytes(message.data)
            return
        self.waiting[rank] = message.data
        while self.next in self.waiting:
            yield self, self.next, memoryview(self.waiting.pop(self.next))
            self.next += 1

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

    def fail(self, error: FormatError) -> None:
        """Raises the error where the sensor is the main one of its role."""
        if self.sensor == self.role:
            raise error
        self.failed = self.failed or short_text(error, 300)


def _prepared(item: _Item) -> Any:
    stream, _, data = item
    return stream.sink.prepare(decode(stream.topic.type, stream.topic.encoding, data))


def _add(item: _Item, prepared: Callable[[], Any]) -> None:
    stream, number, _ = item
    ns = int(stream.stamps.ns[number])
    if stream.failed:
        return
    try:
        stream.sink.add(ns, prepared())
    except ValueError as error:
        stream.damaged.append(f"the message at {ns / 1e9:.6f} s {error}")
    except FormatError as error:
        stream.fail(error)


def import_ros(
    bags: Sequence[Path],
    out: Path,
    *,
    topic: Sequence[str] = (),
    times: Times = "auto",
    partial: bool = False,
    doppler: Literal["receding", "approaching"] = "receding",
    model: str | None = None,
    calibration: Path | None = None,
    meta: Path | None = None,
    say: Callable[[str], object] = say,
) -> dict[str, int]:
    """Write the trace `out` from bags of ROS 1 or ROS 2, and return the number of samples of each sensor.

    The arguments are those of the command, as `table.py` describes them; `say` is called with one line for each topic:
    what became of it. Raises FormatError where a bag cannot be read, is damaged, or holds nothing that a trace can
    hold, and ConfigError where an option cannot be followed.
    """
    velodyne = model_of(model, calibration)
    # The scratch file has no name, so that it is gone whatever happens.
    with imported_trace(out) as trace, tempfile.TemporaryFile(dir=trace, buffering=0) as scratch:
        recording = Recording(bags, partial, scratch)
        with progress("import ros", 2 * recording.size, "B") as count:
            found = survey(recording, count)
            choice = choose_topics(found.topics, topic, meta is not None)
            run = _Import(trace, bags, found, choice, times, partial, doppler == "approaching", velodyne, meta)
            if not choice.topics:
                raise run.nothing()
            streams = run.streams()
            _read_again(recording, streams, count)
        run.finish(streams, recording.problems(), say)
    return {stream.sink.folder.name: stream.sink.count for stream in streams if stream.sink.count and not stream.failed}


def _read_again(recording: Recording, streams: Sequence[_Stream], advance: Callable[[int], object]) -> None:
    wanted = {stream.topic.name: stream for stream in streams}

    def threaded() -> Iterator[_Item]:
        """The messages that threads prepare. Others are added at once."""
        for message in recording.messages(wanted=wanted, advance=advance):
            stream = wanted.get(message.topic)
            if stream is not None and stream.number < stream.topic.count:
                for item in stream.take(message):
                    if stream.sink.threaded:
                        yield item
                    else:
                        _add(item, partial(_prepared, item))

    # Of all topics together, so that memory does not depend on their number.
    for item, prepared in ahead(_prepared, threaded(), lambda item: 2 * len(item[2])):
        _add(item, prepared)


@dataclass
class _Import:
    """What is known of an import, and what becomes of the topics."""

    trace: Path
    bags: Sequence[Path]
    found: Survey
    choice: Choice
    times: Times
    partial: bool
    approaching: bool
    model: Model | None
    meta: Path | None

    @property
    def where(self) -> str:
        """The bags, for messages."""
        return str(self.bags[0]) if len(self.bags) == 1 else f"{self.bags[0]} and {len(self.bags) - 1} more"

    def nothing(self) -> FormatError:
        """The error where no topic can become a sensor."""
        for name, why in self.choice.left.items():
            if self.found.topics[name].type in PACKETS:
                return FormatError(f"{self.where}: {name}: {why}")
        topics = sorted(self.found.topics.items())[:_LISTED]
        held = ", ".join(f"{name} ({topic.type})" for name, topic in topics) or "none"
        kinds = "cloud, laser scan, packets of a lidar, picture, IMU, pose or position"
        return FormatError(f"{self.where}: holds no {kinds}; its topics: {held}")

    def streams(self) -> list[_Stream]:
        """A stream for each sensor. Raises FormatError for messages that cannot be decoded."""
        topics = self.choice.topics
        recorded: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        whole: dict[str, np.ndarray] = {}
        for topic in topics.values():
            if topic.damaged and not self.partial:
                number, problem = next(iter(topic.damaged.items()))
                raise FormatError(f"{self.where}: {topic.name}, message {number}: {problem}; --partial leaves it out")
            whole[topic.name] = kept = np.ones(topic.count, bool)
            kept[list(topic.damaged)] = False
            recorded[topic.name] = (np.array(topic.recorded, "i8")[kept], np.array(topic.stamped, "i8")[kept])
        first = next((topics[role].name for role in ("lidar", "radar", "camera", "imu") if role in topics), None)
        packets = [topic.name for topic in topics.values() if topic.type in PACKETS]
        stamps = choose_stamps(recorded, self.times, first, packets)
        streams = []
        for sensor, topic in topics.items():
            chosen = stamps[topic.name]
            rank = np.full(topic.count, -1, "i8")
            rank[whole[topic.name]] = chosen.rank
            chosen = chosen._replace(rank=rank)
            sink = self._sink(sensor, topic, chosen)
            streams.append(_Stream(sensor, self.choice.roles[sensor], topic, chosen, sink))
        return streams

    def finish(self, streams: list[_Stream], notes: list[str], say: Callable[[str], object]) -> None:
        """Make all sensors complete, write what is beside them, and say `notes` and what became of each topic."""
        choice, made = self.choice, []
        for stream in streams:
            stream.close()
            if stream.failed:
                choice.left[stream.topic.name] = stream.failed
                del choice.topics[stream.sensor]
            else:
                notes += self._remarks(stream)
                made.append(stream)
        if not any(stream.sink.count for stream in made):
            topics = ", ".join(choice.topics)
            raise FormatError(f"{self.where}: no message of {topics} could be used: {'; '.join(notes)}")
        notes += [line for stream in made for line in self._lens(stream)]
        rig, missing = mounts(self.found.frames, choice)
        notes += missing
        for stream in made:
            if stream.role == "imu" and stream.topic.type in PACKETS:
                with_imu(rig, choice, stream.sensor, stream.sink.mount)  # type: ignore[attr-defined]
        left = [f"left out: {name}: {why}" for name, why in sorted(choice.left.items())]
        for line in [*notes, *left[:_LISTED]]:
            say(line)
        if len(left) > _LISTED:
            say(f"left out: {counted(len(left) - _LISTED, 'more topic')}")
        described = {
            stream.sensor: {"topic": stream.topic.name, "type": stream.topic.type, "times": stream.stamps.source}
            for stream in made
        }
        options: dict[str, Any] = {"times": self.times, "partial": self.partial, "topics": described}
        options |= {"doppler": "approaching"} if self.approaching else {}
        options |= {} if all(is_set(stream.stamps.times) for stream in made) else {"clock": "own"}
        write_config(
            self.trace,
            {
                stream.sensor: {"type": stream.role, "args": {"topic": stream.topic.name}}
                for stream in made
                if stream.sink.count and stream.role != "reference"
            },
            command="import ros",
            sources=self.bags,
            options=options,
            notes=notes + left,
            rig=rig,
        )

    def _sink(self, sensor: str, topic: Topic, stamps: Stamps) -> Sink:
        source, folder, role = f"ROS topic {topic.name}", self.trace / sensor, self.choice.roles[sensor]
        if topic.type in PACKETS:
            return self._ouster(folder, role, topic, source)
        if role in _SINKS:
            return _SINKS[role](folder)
        if role == "radar":
            return RadarSink(folder, topic.points, topic.fields, -1.0 if self.approaching else 1.0, source)
        if role == "reference":
            return self._reference(topic)
        if topic.type == "velodyne_msgs/VelodyneScan":
            return PacketSink(folder, self.model, source, main=sensor == role)
        period = float(np.median(np.diff(stamps.times))) if len(stamps.times) > 1 else 0.1
        clouds = {"sensor_msgs/PointCloud2": CloudSink, "sensor_msgs/LaserScan": ScanSink}
        kinds = {**clouds, **dict.fromkeys(LIVOX, LivoxSink)}
        return kinds[topic.type](folder, period, stamps.source == "header", source)

    def _ouster(self, folder: Path, role: str, topic: Topic, source: str) -> Sink:
        """The sink of packets of an Ouster. Its metadata is there: the topic was chosen for that.

        A file is of the main lidar, and of packets in other namespaces that have none of their own.
        """
        other = namespace(topic) != namespace(self.choice.topics.get("lidar", topic))
        own = metadata_of(self.found.topics, topic, own=True) if other else ""
        text = own if own or self.meta else metadata_of(self.found.topics, topic)
        make = load("rover_pipeline.importers.ros.ouster:sink_of")
        sink: Sink = make(folder, role, None if own else self.meta, text, source)
        return sink

    def _reference(self, topic: Topic) -> ReferenceSink:
        """The reference is of the lidar, where `tf` says how the lidar is mounted on the body that the poses are of."""
        lidar, body = self.choice.topics.get("lidar"), str(topic.first.get("child_frame_id", "")).lstrip("/")
        mount = self.found.frames.between(body, lidar.frame) if lidar and body else None
        inputs = {path.name: fingerprint(path) for path in self.bags}
        described = {"topic": topic.name, "times": self.times}
        sink = ReferenceSink(self.trace, "lidar" if mount is not None else body, mount, described, inputs)
        if lidar and mount is None:
            sink.notes.append(f"poses are those of {body or 'a body'!r}, as tf does not say where the lidar is on it")
        return sink

    def _remarks(self, stream: _Stream) -> list[str]:
        """What the user should know of a sensor. Raises FormatError for messages that cannot be used."""
        if stream.damaged and not self.partial:
            more = f" (and {len(stream.damaged) - 1} more)" if len(stream.damaged) > 1 else ""
            problem = short_text(stream.damaged[0], 300)
            raise FormatError(f"{self.where}: {stream.topic.name}: {problem}{more}; --partial leaves them out")
        lines = [*stream.sink.notes, *([stream.stamps.note] if stream.stamps.note else [])]
        if skipped := len(stream.damaged) + len(stream.topic.damaged):
            lines.append(f"left out: {counted(skipped, 'message')} that cannot be decoded")
        source = {"header": "header stamps", "bag": "bag times"}.get(stream.stamps.source, stream.stamps.source)
        head = f"{stream.sink.folder.name} = {stream.topic.name}: {counted(stream.sink.count, 'sample')}, {source}"
        return [head, *(f"{stream.topic.name}: {line}" for line in lines)]

    def _lens(self, stream: _Stream) -> list[str]:
        """Write the lens of a camera where its CameraInfo is known, and return what the user should know of it."""
        sink, camera = stream.sink, stream.sensor
        if not isinstance(sink, CameraSink) or sink.size is None:
            return []
        info = self.choice.lenses.get(camera)
        if info is None:
            asked = " (--topic camera_info=TOPIC names one)" if camera == "camera" else ""
            return [f"{camera}: no CameraInfo is beside its topic: no camera.json{asked}"]
        lens, note = lens_of(info.first, sink.size, "rect" in stream.topic.name)
        if lens is not None:
            replace_json(self.trace / camera / "camera.json", lens)
            note = note or f"intrinsics of {info.name}"
        return [f"{camera}: {note}"]
