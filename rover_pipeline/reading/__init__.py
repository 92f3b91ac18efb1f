"""Recordings in Python: `rp.open`, `rp.open_many`, `rp.run`, and the classes that they give. What users import."""

from rover_pipeline.datasets.options import SplitOptions as SplitOptions
from rover_pipeline.errors import FormatError as FormatError
from rover_pipeline.errors import RoverError as RoverError
from rover_pipeline.errors import SampleError as SampleError
from rover_pipeline.format.sensor import Axis as Axis
from rover_pipeline.reading.channel import Channel as Channel
from rover_pipeline.reading.channel import Record as Record
from rover_pipeline.reading.sensor import Sensor as Sensor
from rover_pipeline.reading.synced import Synced as Synced
from rover_pipeline.reading.trace import Samples as Samples
from rover_pipeline.reading.trace import Trace as Trace
from rover_pipeline.reading.trace import Traces as Traces
from rover_pipeline.reading.trace import open as open
from rover_pipeline.reading.trace import open_many as open_many
from rover_pipeline.reading.trace import run as run
