"""Options of how work is spread. Light: the Snakefile reads them."""

from __future__ import annotations

from typing import Self

from pydantic import ByteSize, Field, model_validator

from rover_pipeline.options import Options

#: How a job learns how to spread its work. It is not part of the job's command, which would rerun it when changed.
DASK_VARIABLE = "ROVER_PIPELINE_DASK"


class SlurmWorkers(Options):
    """Jobs of Slurm that hold Dask workers."""

    jobs: int = Field(2, ge=1, description="Jobs of a step at a time. A lost one is submitted again.")
    cores: int = Field(8, ge=1, description="Cores of a job, each with a worker process of its own.")
    memory: ByteSize = Field(ByteSize(16 << 30), gt=0, description="Memory of a job (`16 GiB`), shared by its workers.")
    hours: float = Field(4.0, gt=0, description="Time limit of a job, h.")
    queue_hours: float = Field(
        24.0,
        gt=0,
        description="Longest time without any job, h: what the queue may take. After it the step fails.",
    )
    partition: str | None = Field(None, description="Partition; null = Slurm's default.")
    account: str | None = Field(None, description="Account that is charged; null = Slurm's default.")
    interface: str | None = Field(
        None, description="Network interface over which nodes reach each other (`ib0`); null = that of the host's name."
    )
    directives: tuple[str, ...] = Field((), description="More options of sbatch, as `--constraint=avx512`.")


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
    slurm: SlurmWorkers | None = Field(
        None,
        description="Workers of each step as jobs of Slurm, `{jobs: 4, cores: 16, memory: 32 GiB}` (extra `slurm`); "
        "null = none.",
    )
    connect_timeout: float = Field(
        30.0, gt=0, description="Longest time that the scheduler may take for an answer, s. After it the job fails."
    )
    worker_timeout: float = Field(
        300.0, gt=0, description="Longest time that the scheduler may be without any worker, s. After it the job fails."
    )

    @property
    def elsewhere(self) -> bool:
        """Whether work goes to other machines."""
        return self.scheduler is not None or self.slurm is not None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.scheduler is not None and self.slurm is not None:
            raise ValueError("scheduler and slurm exclude each other: workers of a scheduler are started by hand")
        return self
