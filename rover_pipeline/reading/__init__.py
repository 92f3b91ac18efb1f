"""Recordings in Python: `rp.open`, `rp.open_many`, `rp.run`, and the classes that they give. What users import."""

from rover_pipeline.datasets.options import SplitOptions
from rover_pipeline.errors import FormatError, RoverError, SampleError
from rover_pipeline.format.axes import Axis
from rover_pipeline.reading.channel import Channel
from rover_pipeline.reading.many import Samples, Traces, open_many
from rover_pipeline.reading.running import run
from rover_pipeline.reading.selection import Record
from rover_pipeline.reading.sensor import Sensor
from rover_pipeline.reading.synced import Synced
from rover_pipeline.reading.trace import Trace, open

__all__ = [
    "Axis",
    "Channel",
    "FormatError",
    "Record",
    "RoverError",
    "SampleError",
    "Samples",
    "Sensor",
    "SplitOptions",
    "Synced",
    "Trace",
    "Traces",
    "open",
    "open_many",
    "run",
]
