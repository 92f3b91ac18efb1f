"""Import of raw captures of TI radars by a DCA1000 (`adc_data.bin`) as a roverd trace with `radar/`."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.format.channels.base import MAX_SAMPLES
from rover_pipeline.format.files import opened_file, regular_size, replace_file
from rover_pipeline.format.merge import imported_trace
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES, ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.importers.dca1000_setup import ORDERS, read_setup
from rover_pipeline.importers.origin import write_config
from rover_pipeline.numerics.jumps import EPOCH_S

#: Frames are read and written in blocks of this size.
_BLOCK_BYTES = 64 << 20


def import_dca1000(
    adc: Path,
    config: Path,
    out: Path,
    *,
    order: str | None = None,
    device: str | None = None,
    start: float | None = None,
) -> int:
    """Write the trace `out` from raw samples and the configuration they were captured with.

    Args:
        adc: little-endian int16, frame, chirp, tx, rx, sample; two LVDS lanes, complex samples.
        config: mmWave Studio's `.mmwave.json`, Lua script or log, or a collection `config.yaml` with a radar section.
            docs/radar-captures.md lists the keys and their units.
        order: order of words in the file, "iiqq" or "qqii"; device: name of the board; None = as in the configuration.
        start: epoch seconds of the first frame; None = when the configuration was made, or else from when the file was
            last changed.

    Returns:
        The number of frames.

    Raises:
        FormatError: the file is no whole number of frames, or has none.
        ConfigError: the configuration cannot be used.
    """
    if start is not None and not 0 <= start < EPOCH_S[1]:
        raise ConfigError(f"--start {start}: must be seconds since 1970, before 2100")
    setup = read_setup(config, device)
    capture, words_order = setup.capture, ORDERS[order or setup.order]
    shape = (capture.frame_length, setup.tx, setup.rx, 2 * capture.adc_samples)
    frame_bytes = 2 * math.prod(shape)
    if frame_bytes > MAX_SAMPLE_BYTES:
        raise ConfigError(
            f"{config}: a frame of {list(shape)} int16 has {frame_bytes:,} bytes, more than any radar makes"
        )
    try:
        size = regular_size(adc)
    except OSError as error:
        raise FormatError(f"{adc}: {error.strerror}") from error
    count, extra = divmod(size, frame_bytes)
    if extra or not count:
        rest = f"the last {extra:,} bytes, from byte {size - extra}, are left over" if count else "there is no frame"
        raise FormatError(
            f"{adc}: {size:,} bytes is not a whole number of {frame_bytes:,}-byte frames {list(shape)} of int16; "
            f"{rest}. Check that --config belongs to it"
        )
    if count > MAX_SAMPLES:
        raise FormatError(f"{adc}: holds {count:,} frames, more than the {MAX_SAMPLES:,} of any recording")
    if start is None:
        source = "the file was last changed" if setup.start is None else "its configuration was made"
        start = adc.stat().st_mtime - count * capture.frame_period / 1e3 if setup.start is None else setup.start
        print(f"{adc}: holds no times; counted from when {source} (--start sets another)", file=sys.stderr)

    desc = "Raw ADC words, Q Q I I. [chirp, tx, rx, 2 * sample]"
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, "iq": ChannelSpec(format="raw", type="i2", shape=shape, desc=desc)}
    with imported_trace(out) as trace:
        with SensorWriter(trace / "radar", specs) as writer, opened_file(adc) as file:
            step = max(1, _BLOCK_BYTES // frame_bytes)
            for first in range(0, count, step):
                frames = min(step, count - first)
                words = np.fromfile(file, "<i2", frames * frame_bytes // 2).reshape(-1, 4)
                writer.append(
                    ts=start + np.arange(first, first + frames) * capture.frame_period / 1e3,
                    valid=np.ones(frames, "u1"),
                    iq=words[:, words_order].reshape(frames, *shape),
                )
            sidecar = {
                "shape": [*shape[:3], capture.adc_samples],
                "range_resolution": capture.range_resolution,
                "doppler_resolution": capture.doppler_resolution(setup.tx),
            }
            replace_file(trace / "radar" / "radar.json", json.dumps(sidecar, indent=4) + "\n")
        radar = {"type": "radar", "args": {"radar": capture.model_dump(mode="json", exclude_none=True)}}
        options = {"order": order or setup.order, "start": float(start)}
        write_config(trace, {"radar": radar}, command="import dca1000", sources=[adc, config], options=options)
    return count
