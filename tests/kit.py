"""What every test uses: tiny recordings, and the checks that every channel format and virtual sensor must pass."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ByteSize
from scipy.spatial.transform import Rotation

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.instances import declared_for
from rover_pipeline.engine.step import Step
from rover_pipeline.errors import FormatError, SampleError
from rover_pipeline.format.attempt import attempts
from rover_pipeline.format.channels import Channel, create_channel, encode_sample, open_channel
from rover_pipeline.format.channels.base import EncodedWriter
from rover_pipeline.format.meta import META, ChannelSpec
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.format.trace import CONFIG, new_trace
from rover_pipeline.options import DaskOptions
from rover_pipeline.table import find_step

ROOT = Path(__file__).parents[1]
#: Whether the long campaigns run in full (`python -m tests.campaign suite`); the default suite runs a choice of them.
WHOLE = bool(os.environ.get("ROVER_PIPELINE_WHOLE"))
#: The empty file that rules publish with a result, last of all where there is no `meta.json`.
STAMP = ".options-0"
#: Seconds since the epoch at which small recordings begin.
START_S = 1_700_000_000.0
#: Begins a command that may write files of 1 KiB at most. Python would leave compiled modules of that size, cut off.
SMALL_FILES = ("bash", "-c", 'ulimit -f 1; PYTHONDONTWRITEBYTECODE=1 exec "$@"', "bash")
#: A radar frame of small recordings, (chirp, tx, rx, word).
IQ_SHAPE = (4, 2, 4, 32)


def small_trace(
    path: Path,
    frames: int = 6,
    *,
    sensors: Sequence[str] = ("lidar", "radar"),
    invalid: Mapping[str, Sequence[int]] | None = None,
    beams: int = 8,
    columns: int = 32,
    iq_shape: tuple[int, int, int, int] = IQ_SHAPE,
    seed: int = 0,
) -> Path:
    """Make a tiny recording at `path`; the same arguments give the same bytes.

    Args:
        frames: samples of every sensor.
        sensors: of `lidar`, `radar`, `camera`, `imu`.
        invalid: sensor -> samples with `valid` = 0; the radar always has the channel, others when they are named.
            One sample of lidar and radar unless given.
    """
    invalid = {"lidar": (1,), "radar": (2,)} if invalid is None else invalid
    rng = np.random.default_rng(seed)
    make = {
        "lidar": lambda: _lidar(rng, frames, beams, columns),
        "radar": lambda: _radar(rng, frames, iq_shape),
        "camera": lambda: _camera(frames),
        "imu": lambda: _imu(rng, frames),
    }
    with new_trace(path) as trace:
        radar = ", args: {radar: {device: AWR1642}}"
        lines = (f"{name}: {{type: {name}{radar if name == 'radar' else ''}}}\n" for name in sensors)
        (trace / CONFIG).write_text("".join(lines))
        for name in sensors:
            channels, sidecar = make[name]()
            specs = {TS: TS_SPEC, **{key: spec for key, (spec, _) in channels.items()}}
            samples = {TS: times(frames), **{key: values for key, (_, values) in channels.items()}}
            if name in invalid or name == "radar":
                specs[VALID] = VALID_SPEC
                samples[VALID] = np.ones(frames, "u1")
                samples[VALID][[at for at in invalid.get(name, ()) if at < frames]] = 0
            with SensorWriter(trace / name, specs) as writer:
                writer.append(**samples)
            if sidecar:
                (trace / name / f"{name}.json").write_text(json.dumps(sidecar))
    return path


def times(frames: int, rate_hz: float = 10.0) -> np.ndarray:
    """Times of a small recording, f8 seconds."""
    return START_S + np.arange(frames) / rate_hz


def write_lidar_image(trace: Path) -> None:
    """Give a recording the `_lidar_image` of its lidar, of the channels that this has."""
    from rover_pipeline.lidar.geometry import destagger, sensor_info

    lidar = Sensor(trace / "lidar")
    count = lidar.length()
    info = sensor_info((trace / "lidar" / "lidar.json").read_text())
    images: dict[str, Any] = {
        name: destagger(lidar.channel(name).read(), info) for name in ("rng", "rfl", "nir") if name in lidar.specs
    }
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, **{name: spec_of(image) for name, image in images.items()}}
    shutil.rmtree(trace / "_lidar_image", ignore_errors=True)
    with SensorWriter(trace / "_lidar_image", specs) as writer:
        writer.append(**{TS: lidar.times(count), VALID: lidar.valid(count)}, **images)


def write_odometry(trace: Path, *, invalid: Sequence[int] = ()) -> None:
    """Give a recording an `_odom`: a curve at the lidar's times, of the form that odometry has."""
    ts = Sensor(trace / "lidar").channel(TS).read()
    at = (ts - ts[0])[:, None]
    rot = Rotation.from_euler("zyx", np.concatenate([0.3 * at, 0.1 * at**2, 0.05 * at], axis=1))
    spin = np.gradient(rot.as_euler("zyx"), axis=0)[:, ::-1] if len(ts) > 1 else np.zeros((1, 3))
    arrays = {
        "pos": np.concatenate([at, 0.2 * at**2, 0 * at], axis=1),
        "rot": rot.as_matrix(),
        "vel": np.concatenate([1 + 0 * at, 0.4 * at, 0 * at], axis=1),
        "acc": np.concatenate([0 * at, 0.4 + 0 * at, 0 * at], axis=1),
        "avel": spin * 10,
    }
    valid = np.ones(len(ts), "u1")
    valid[list(invalid)] = 0
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, **{name: spec_of(values) for name, values in arrays.items()}}
    with SensorWriter(trace / "_odom", specs) as writer:
        writer.append(ts=ts, valid=valid, **arrays)


def ouster_metadata(beams: int, columns: int) -> dict[str, Any]:
    """The least that ouster-sdk takes for a sensor's metadata."""
    return {
        "lidar_data_format": {
            "pixels_per_column": beams,
            "columns_per_frame": columns,
            "columns_per_packet": 16,
            "pixel_shift_by_row": [(3 * beam) % 5 - 2 for beam in range(beams)],
            "column_window": [0, columns - 1],
            "udp_profile_lidar": "RNG19_RFL8_SIG16_NIR16",
        },
        "beam_intrinsics": {
            "beam_altitude_angles": np.linspace(15, -15, beams).tolist(),
            "beam_azimuth_angles": [float(beam % 4) for beam in range(beams)],
            "beam_to_lidar_transform": [1, 0, 0, 15.8, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1],
            "lidar_origin_to_beam_origin_mm": 15.8,
        },
        "lidar_intrinsics": {"lidar_to_sensor_transform": [-1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 1, 36.2, 0, 0, 0, 1]},
        "imu_intrinsics": {"imu_to_sensor_transform": [1, 0, 0, 6.25, 0, 1, 0, -11.8, 0, 0, 1, 7.6, 0, 0, 0, 1]},
        "calibration_status": {},
        "sensor_info": {"prod_line": "OS-1-8", "prod_sn": "1", "build_rev": "v2.5.2"},
        "config_params": {"lidar_mode": "512x10"},
    }


_Channels = dict[str, tuple[ChannelSpec, np.ndarray]]


def _lidar(rng: np.random.Generator, frames: int, beams: int, columns: int) -> tuple[_Channels, dict[str, Any]]:
    shape = (frames, beams, columns)
    ranges = rng.integers(500, 20_000, shape).astype("u2")
    ranges[rng.random(shape) < 0.1] = 0  # no return
    ranges[rng.random(shape) < 0.02] = 65535  # clipped
    arrays = {
        "rng": ranges,
        "rfl": rng.integers(0, 256, shape).astype("u1"),
        "nir": rng.integers(0, 3000, shape).astype("u2"),
    }
    return {name: (spec_of(values, "lzmaf"), values) for name, values in arrays.items()}, ouster_metadata(
        beams, columns
    )


def _radar(rng: np.random.Generator, frames: int, shape: tuple[int, ...]) -> tuple[_Channels, dict[str, Any]]:
    iq = rng.integers(-2000, 2000, (frames, *shape)).astype("i2")
    sidecar = {"shape": [*shape[:3], shape[3] // 2], "range_resolution": 0.05, "doppler_resolution": 0.1}
    return {"iq": (spec_of(iq), iq)}, sidecar


def _camera(frames: int) -> tuple[_Channels, dict[str, Any]]:
    video = pictures(frames, 16, 24)
    return {"video.avi": (spec_of(video, "mjpg"), video)}, {}


def _imu(rng: np.random.Generator, frames: int) -> tuple[_Channels, dict[str, Any]]:
    vectors = {name: rng.normal(size=(frames, 3)).astype("f4") for name in ("rot", "acc", "avel")}
    return {name: (spec_of(values), values) for name, values in vectors.items()}, {}


def spec_of(samples: np.ndarray, format: Any = "raw") -> ChannelSpec:
    """Description of a channel that holds `samples`, (frame, ...)."""
    return ChannelSpec(format=format, type=samples.dtype.str[1:], shape=samples.shape[1:])


def pictures(frames: int, height: int, width: int) -> np.ndarray:
    """Smooth RGB pictures, u1 (frame, height, width, 3), no two alike: JPEG keeps them within a few counts."""
    frame, y, x = np.ogrid[:frames, :height, :width]
    channels = (30 * frame + 4 * x + 0 * y, 200 - 25 * frame + 0 * x + y, 60 + 3 * x + 4 * y + 0 * frame)
    return np.stack([np.clip(channel, 0, 255) for channel in channels], axis=-1).astype("u1")


# --- What every channel format must keep ------------------------------------------------------------------------


def check_channel(spec: ChannelSpec, samples: np.ndarray, folder: Path, *, tolerance: float = 0) -> None:
    """The contract of a channel format.

    Args:
        samples: (frame, *shape), at least three, no two alike.
        folder: an empty directory to write in.
        tolerance: how far a value may be from what was written, for lossy formats.
    """
    path = write_channel(folder / "whole", spec, samples)
    channel = open_channel(path, spec)
    before = stored(path)
    _check_ranges(channel, samples, tolerance)
    _check_refusals(channel, samples, folder)
    _check_same_bytes(spec, samples, folder, before)

    twin = pickle.loads(pickle.dumps(channel))
    assert twin.path == channel.path and twin.spec == spec
    assert_close(twin.read(), samples, tolerance)
    with ThreadPoolExecutor(4) as pool:
        order = [start for start in range(len(samples)) for _ in range(4)]
        for start, found in zip(order, pool.map(lambda at: channel.read(at, at + 1), order), strict=True):
            assert_close(found, samples[start : start + 1], tolerance)

    assert stored(path) == before, "reading changed a file"
    _check_truncation(spec, samples, path, folder, tolerance)


def write_channel(path: Path, spec: ChannelSpec, samples: np.ndarray, *, block: int = 0) -> Path:
    """Write samples, `block` at a time, all at once unless given."""
    with closing(create_channel(path, spec)) as writer:
        for start in range(0, len(samples), block or max(1, len(samples))):
            writer.append(samples[start : start + (block or len(samples))])
        assert writer.count == len(samples)
    return path


def stored(path: Path) -> dict[str, bytes]:
    """Every byte of a channel: of its file or the files in its folder, and of its index."""
    files = sorted(path.iterdir()) if path.is_dir() else [path, *path.parent.glob(f"{path.name}_i")]
    return {file.name if path.is_dir() else file.name.removeprefix(path.name): file.read_bytes() for file in files}


def assert_close(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    """Same type, shape and, within the tolerance, values; NaN equals NaN."""
    assert found.dtype == wanted.dtype.newbyteorder("<") and found.shape == wanted.shape
    if tolerance:
        assert np.abs(found.astype("f8") - wanted.astype("f8")).max(initial=0) <= tolerance
    else:
        assert found.tobytes() == wanted.tobytes()


def _check_ranges(channel: Channel, samples: np.ndarray, tolerance: float) -> None:
    count = len(samples)
    assert len(channel) == count and channel.leftover == "" and channel.notes == []
    assert_close(channel.read(), samples, tolerance)
    for start in range(count + 1):
        for stop in range(start, count + 1):
            assert_close(channel.read(start, stop), samples[start:stop], tolerance)
    for start, stop in ((0, count + 1), (count, count + 1), (-1, 1), (2, 1)):
        with pytest.raises(FormatError, match=channel.path.name):
            channel.read(start, stop)


def _check_refusals(channel: Channel, samples: np.ndarray, folder: Path) -> None:
    """Samples that are not what the description says are not written, and a channel that is not there is named."""
    other = np.zeros(samples.shape, "i4" if samples.dtype != np.dtype("i4") else "u8")
    with closing(create_channel(folder / "refusing", channel.spec)) as writer:
        for wrong in (other, samples[:, None], np.zeros((2, *samples.shape[1:], 2), samples.dtype)):
            with pytest.raises(FormatError, match="refusing"):
                writer.append(wrong)
        assert writer.count == 0
        writer.append(samples)
    assert stored(folder / "refusing") == stored(channel.path)
    with pytest.raises(FileExistsError):
        create_channel(channel.path, channel.spec)
    with pytest.raises(FormatError, match=r"absent.*missing"):
        open_channel(folder / "absent", channel.spec)


def _check_same_bytes(spec: ChannelSpec, samples: np.ndarray, folder: Path, bytes_at_once: dict[str, bytes]) -> None:
    """However samples are handed over, one by one or encoded elsewhere, the bytes are the same."""
    assert stored(write_channel(folder / "single", spec, samples, block=1)) == bytes_at_once
    writer = create_channel(folder / "encoded", spec)
    if isinstance(writer, EncodedWriter):
        for sample in samples:
            writer.append_encoded(encode_sample(spec.format, sample))
        writer.close()
        assert stored(folder / "encoded") == bytes_at_once
    writer.close()


def _check_truncation(spec: ChannelSpec, samples: np.ndarray, path: Path, folder: Path, tolerance: float) -> None:
    """Whatever byte a power cut ends at: samples before it are read as they were, and the rest is noticed."""
    target = max(path.iterdir()) if path.is_dir() else path
    size = target.stat().st_size
    rng = np.random.default_rng(size)
    for number, keep in enumerate(sorted({0, 1, size // 2, size - 1, *rng.integers(0, size, 12).tolist()})):
        for index in ("with index", "without index") if path.with_name(f"{path.name}_i").exists() else ("",):
            cut = folder / f"cut{number}{index}" / path.name
            cut.parent.mkdir()
            if path.is_dir():
                shutil.copytree(path, cut)
            else:
                shutil.copy(path, cut)
            if index == "with index":
                shutil.copy(f"{path}_i", f"{cut}_i")
            os.truncate(cut / target.name if path.is_dir() else cut, keep)
            _check_cut(spec, samples, cut, tolerance)


def _check_cut(spec: ChannelSpec, samples: np.ndarray, cut: Path, tolerance: float) -> None:
    try:
        channel = open_channel(cut, spec)
    except FormatError as error:
        assert str(cut) in str(error)
        return
    whole = len(samples) - 1 if cut.is_dir() else min(len(channel), len(samples))
    assert_close(channel.read(0, whole), samples[:whole], tolerance)
    if len(channel) > whole:
        with pytest.raises(SampleError, match=f"sample {whole}") as caught:
            channel.read(whole, whole + 1)
        assert caught.value.sample == whole
    else:
        assert channel.leftover or len(channel) < len(samples), "bytes are missing and nobody noticed"


# --- What every virtual sensor must keep ------------------------------------------------------------------------


def check_virtual_sensor(
    step: str,
    trace: Path,
    sensor: str,
    options: Mapping[str, Any] | None = None,
    *,
    kills: int = 12,
) -> None:
    """The checks that every virtual sensor, and every folder of files, must pass.

    `trace`, tiny and with some `valid` = 0, is not changed.

    Args:
        step: dotted name, `package.module:function`.
        sensor: name of the virtual sensor, `_name`.
        options: of the step.
        kills: moments, spread over all calls that change the disk, at which a run is killed; 0 = none, for a sensor
            that is written like another one that is tested.
    """
    request = Request(dict(options or {}))
    described = declared(step, request.options)
    with tempfile.TemporaryDirectory(prefix="kit-") as name:
        first = _copy(trace, Path(name) / "first" / trace.name) / sensor
        run_step(described, first.parent, sensor, request, stamps=(STAMP,))
        described = declared_for(described, sensor, Rig(first.parent))
        check_whole(described, first)
        wanted = snapshot(first)
        for number, (chunk, threads) in enumerate(((1, 1), (3 * _frame_bytes(described, first), 2), (1 << 40, 3))):
            other = _copy(trace, Path(name) / f"spread{number}" / trace.name) / sensor
            spread = DaskOptions(chunk=ByteSize(chunk))
            run_step(find_step(step), other.parent, sensor, request, threads=threads, dask=spread, stamps=(STAMP,))
            assert_same(snapshot(other), wanted, f"chunks of {chunk} bytes on {threads} threads")
        if not kills:
            return
        wanted = snapshot(first, ignore=PER_PROCESS)
        place = _copy(trace, Path(name) / "killed" / trace.name) / sensor
        check_kills(place, first, kills, step=step, options=dict(request.options))
        _check_killed_command(step, _copy(trace, Path(name) / "command" / trace.name) / sensor, request, wanted)


def declared(step: str, options: Mapping[str, Any]) -> Step:
    """A step, with what depends on its options filled in."""
    described = find_step(step)
    return described.for_options(described.options.model_validate(options) if described.options else None)


def check_whole(described: Step, place: Path) -> None:
    """A finished virtual sensor is what the contract says, beside the sensors it was made from."""
    provenance = json.loads((place / PROVENANCE).read_text())
    missing = _PROVENANCE_KEYS - set(provenance)
    assert not missing, f"provenance lacks {missing}"
    assert (provenance["step"], provenance["version"]) == (described.name, described.version)
    assert provenance["packages"].keys() >= {"python", "numpy", "rover-pipeline"}
    if described.options:
        assert provenance["options"] == described.options(**provenance["options"]).model_dump(mode="json")
    for reference in described.inputs.values():
        assert {"bytes", "blake2b"} <= set(provenance["inputs"][reference]), f"provenance does not know {reference}"
    on_disk = {entry.name for entry in place.iterdir()}
    published = {PROVENANCE, *provenance["files"]} | (set() if described.products else {META})
    assert on_disk == published, "there are files nobody declared, or some are missing"
    if described.products:
        assert set(described.products) <= on_disk
        return

    made, parents = Sensor(place), _parents(described, place.parent)
    declared = {TS, VALID, *described.outputs} - {"*"}
    assert declared <= set(made.specs) and (declared == set(made.specs) or "*" in described.outputs)
    assert (made.specs[TS].format, made.specs[TS].type, made.specs[TS].shape) == ("raw", "f8", ())
    assert (made.specs[VALID].format, made.specs[VALID].type, made.specs[VALID].shape) == ("raw", "u1", ())
    for name, spec in made.specs.items():
        assert spec.desc, f"{name} has no desc"
        assert not spec.shape or "[" in spec.desc, f"the desc of {name} does not list its axes"
    count = made.length()
    assert made.times(count).tobytes() == parents[0].times(count).tobytes()
    valid = made.valid(count)
    for parent in parents:
        assert not (valid & ~parent.valid(count).astype(bool)).any(), f"valid = 0 of {parent.name} was lost"
    assert (provenance["samples"], provenance["invalid"]) == (count, int((valid == 0).sum()))
    assert {"bytes", "blake2b"} <= set(provenance["inputs"][f"{parents[0].name}/{TS}"])


def snapshot(place: Path, ignore: Iterable[str] = ("time",)) -> dict[str, bytes]:
    """Every byte below a directory, of `provenance.json` without the keys to ignore; folders count too."""
    found = sorted(place.rglob("*"))
    files = {str(path.relative_to(place)): path.read_bytes() if path.is_file() else b"folder" for path in found}
    if PROVENANCE in files:
        content = json.loads(files[PROVENANCE])
        files[PROVENANCE] = json.dumps({k: v for k, v in content.items() if k not in ignore}).encode()
    return files


def assert_same(found: dict[str, bytes], wanted: dict[str, bytes], what: str) -> None:
    """Two snapshots are equal; says which files are not, instead of printing their bytes."""
    differ = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    assert not differ, f"{what}: {', '.join(differ)} differ"


def step_command(step: str, place: Path, request: Request, trace: Path | None = None) -> list[str]:
    """The command that a rule runs to make the virtual sensor at `place` of a recording, the same trace if None."""
    content = {"options": dict(request.options), "input": request.input.model_dump(), "recording": str(trace or "")}
    command = [sys.executable, "-m", "rover_pipeline", "step", step, "--request", json.dumps(content)]
    made = [*find_step(step).products] or [META]
    return [*command, "--trace", str(place.parent), "--output", *(str(place / name) for name in (*made, STAMP))]


def environment() -> dict[str, str]:
    """Of processes that import this checkout and its tests, from whatever directory."""
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]  # an empty one is the cwd
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *given])}


_PROVENANCE_KEYS = {
    *("made_by", "sensor", "step", "version", "options", "input", "inputs", "samples", "invalid"),
    *("corrupt", "dropped", "notes", "packages", "time", "files"),
}
# When a result was made, and how long it took.
PER_PROCESS = ("time",)


def _copy(trace: Path, target: Path) -> Path:
    """A copy, of the same name: a page tells what a trace is called."""
    shutil.copytree(trace, target, symlinks=True)
    return target


def _parents(described: Step, trace: Path) -> list[Sensor]:
    places = dict.fromkeys(reference.split("/")[0] for reference in described.inputs.values())
    return [Sensor(trace / place) for place in places]


def _frame_bytes(described: Step, place: Path) -> int:
    """Bytes in and out for a frame, by which chunks are sized."""
    inputs = [
        Sensor(place.parent / sensor).specs[channel].sample_bytes
        for sensor, channel in (reference.split("/") for reference in described.inputs.values())
    ]
    made = {} if described.products else Sensor(place).specs
    return sum(inputs) + sum(spec.sample_bytes for spec in made.values()) or 1


def check_kills(place: Path, wanted: Path, kills: int, **run: Any) -> None:
    """Kill runs that make `place` at chosen moments, then look; `run` says what they are: see `tests/kill.py`."""
    arguments = json.dumps({"place": str(place), "wanted": str(wanted), "kills": kills, **run})
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill", arguments],
        env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def _check_killed_command(step: str, place: Path, request: Request, wanted: dict[str, bytes]) -> None:
    """The same through the command line: killed soon after it began to write, then run again."""
    command = step_command(step, place, request)
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not attempts(place) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(np.random.default_rng(len(step)).uniform(0, 0.03))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert_whole_or_absent(place, wanted)
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert_same(snapshot(place, ignore=PER_PROCESS), wanted, "a run after a killed one")


def assert_whole_or_absent(place: Path, wanted: dict[str, bytes], what: str = "after a kill") -> None:
    """What reads as a sensor is the whole one; the lock and scratch of a killed run do not count."""
    if (place / (META if META in wanted else STAMP)).exists():
        assert_same(snapshot(place, ignore=PER_PROCESS), wanted, what)
