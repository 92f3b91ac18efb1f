"""Options of how work is spread. Light: the Snakefile reads them."""

from __future__ import annotations

from pydantic import ByteSize, Field

from rover_pipeline.options import Options

#: How a job learns how to spread its work. It is not part of the job's command, which would rerun it when changed.
DASK_VARIABLE = "ROVER_PIPELINE_DASK"


class DaskOptions(Options):
    """How work is spread. Nothing here changes a result."""

    chunk: ByteSize = Field(
        ByteSize(8 << 20), gt=0, description="Input and output of one chunk, in bytes (`8 MiB`, `500 kB`)."
    )
    scheduler: str | None = Field(
        None,
        description="Address of a Dask distributed scheduler (`tcp://host:8786`) whose workers see the same files; "
        "null = threads of the job itself.",
    )
    connect_timeout: float = Field(
        30.0, gt=0, description="Longest time that the scheduler may take for an answer, s. After it the job fails."
    )
    worker_timeout: float = Field(
        300.0, gt=0, description="Longest time that the scheduler may be without any worker, s. After it the job fails."
    )
