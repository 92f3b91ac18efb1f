"""The base of every section of the configuration. Options are typed, immutable, and have no unknown names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self, get_args

from pydantic import BaseModel, ByteSize, ConfigDict, Field, ValidationError, model_validator

from rover_pipeline.errors import ConfigError, did_you_mean, explain


class Options(BaseModel):
    """A section of the configuration. Unknown keys are errors, and every field has a description."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def parse(cls, values: Mapping[str, Any], section: str = "") -> Self:
        """Validate plain values; `section` stands before a key in messages. Raises ConfigError, which names the key,
        where one is unknown, or a value is wrong."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            prefix = f"{section}." if section else ""
            if first["type"] != "extra_forbidden":
                raise ConfigError(f"config: {prefix}{explain(error)}") from error
            *parents, key = (str(part) for part in first["loc"])
            known = cls._fields_at(parents)
            name = ".".join([*parents, key])
            raise ConfigError(f"config: {prefix}{name}: unknown key; {did_you_mean(key, known)}") from error

    @classmethod
    def _fields_at(cls, parents: list[str]) -> list[str]:
        model: type[BaseModel] = cls
        for part in parents:
            field = model.model_fields.get(part)  # none of an item of a list
            model = next(_models_in(field.annotation), model) if field else model
        return list(model.model_fields)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in the type of a field, such as `tuple[Region, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models_in(each)


class InputOptions(Options):
    """Treatment of damaged recordings."""

    truncate: bool = Field(
        False,
        description="true = use a recording whose channels have unequal lengths up to the last sample that all "
        "channels hold. false = stop with an error.",
    )
    mark_corrupt: bool = Field(
        False,
        description="true = replace samples that cannot be decoded by zeros with `valid` = 0. false = stop with an "
        "error.",
    )


class ReportOptions(Options):
    """`_report`. Nothing here changes a virtual sensor: it says what the page shows, and what it calls wrong."""

    instants: int = Field(
        6,
        ge=0,
        le=48,
        description="Evenly spaced instants whose camera, lidar and radar frames are shown side by side.",
    )
    picture_width: int = Field(640, ge=64, le=1920, description="Largest width of a picture, pixels.")
    max_gap_s: float = Field(1.0, gt=0, description="Longest silence of a sensor in a recording that is complete, s.")
    max_lost_share: float = Field(0.001, ge=0, le=1, description="Share of lost samples above which a sensor is named.")
    max_invalid_share: float = Field(0.05, ge=0, le=1, description="Share of invalid samples above which one is named.")
    max_late_s: float = Field(
        1.0,
        gt=0,
        description="A raw sensor that starts this much after the first one, or ends before the last, is named.",
    )
    max_rate_error: float = Field(
        0.02, gt=0, description="Difference from the configured rate, as a share of it, above which a sensor is named."
    )


class PageOptions(ReportOptions):
    """What the page of a recording depends on besides the recording."""

    outputs: tuple[str, ...] | None = Field(None, description="Outputs that were asked for; null = not known.")


# Options of how work is spread. Light: the Snakefile reads them.

#: How a job learns how to spread its work. It is not part of the job's command, which would rerun it when changed.
DASK_VARIABLE = "ROVER_PIPELINE_DASK"


class SlurmWorkers(Options):
    """Jobs of Slurm that hold Dask workers."""

    jobs: int = Field(2, ge=1, description="Jobs of a step at a time. A lost one is submitted again.")
    cores: int = Field(8, ge=1, description="Cores of a job, each with a worker process of its own.")
    memory: ByteSize = Field(ByteSize(16 << 30), gt=0, description="Memory of a job (`16 GiB`), shared by its workers.")
    hours: float = Field(4.0, gt=0, description="Time limit of a job, h.")
    queue_hours: float = Field(
        24.0, gt=0, description="Longest time without any job, h: what the queue may take. After it the step fails."
    )
    partition: str | None = Field(None, description="Partition; null = Slurm's default.")
    account: str | None = Field(None, description="Account that is charged; null = Slurm's default.")
    interface: str | None = Field(
        None, description="Network interface over which nodes reach each other (`ib0`); null = that of the host's name."
    )
    directives: tuple[str, ...] = Field((), description="More options of sbatch, as `--constraint=avx512`.")


class DaskOptions(Options):
    """How work is spread. Nothing here changes a result."""

    chunk: ByteSize = Field(ByteSize(8 << 20), gt=0, description="Input and output of one chunk (`8 MiB`, `500 kB`).")
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
