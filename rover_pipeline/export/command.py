"""The command `rover-pipeline export` for datasets, as people and the rules of the workflow give it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rover_pipeline.errors import ConfigError
from rover_pipeline.export.dataset import dataset_settings, export_dataset
from rover_pipeline.format.texts import parse_json


def export_command(arguments: argparse.Namespace) -> Path:
    """Export a dataset. Returns its path.

    Raises:
        ConfigError: an option of another kind of export was given.
    """
    for name, given in (("--sensor", arguments.sensor), ("--width", arguments.width)):
        if given is not None:
            raise ConfigError(f"export {arguments.format}: {name} is not for datasets; options are given by --config")
    settings: dict[str, Any]
    if arguments.request:
        settings = parse_json(arguments.request, "--request")
    else:
        settings = dataset_settings(arguments.format, arguments.config)
        if arguments.every != 1:
            settings["options"]["every"] = arguments.every
    return export_dataset(
        arguments.format,
        arguments.traces,
        arguments.out,
        settings=settings,
        threads=arguments.threads,
        replace=arguments.replace,
        output_root=Path(arguments.output_root) if arguments.output_root else None,
        stamp=arguments.stamp,
        make=arguments.make,
    )
