"""Names of Snakemake, Numba and Dask that no page of theirs documents: each is still there in the installed version."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest
import snakemake.cli  # its modules import one another in the order of this one

from rover_pipeline.numerics import compiled
from tests.conftest import CHECKOUT

#: `module:path` -> what asks for it.
NAMES = {
    "numba.core.config:_config_fname": "numerics/compiled.py: settings of the current folder are not taken",
    "numba.core.config:reload_config": "numerics/compiled.py: settings of the current folder are not taken",
    "numba.core.caching:IndexDataCacheFile": "numerics/compiled.py reads its index for the list of kernels",
    "numba.core.caching:FunctionCache._load_overload": "numerics/compiled.py loads code and not what compiles it",
    "numba.core.runtime:rtsys.initialize": "numerics/compiled.py loads code and not what compiles it",
    "distributed.protocol:pickle.dumps": "engine/dask_distributed.py: a worker compares versions before it loads",
    "distributed:Client.start": "engine/dask_distributed.py: a silent scheduler is not waited for",
    "snakemake.logging:logger": "rules/terminal.smk",
    "snakemake.workflow:DAG.jobs": "rules/common.smk",
    "snakemake.workflow:DAG.needrun_jobs": "Snakefile",
}
#: What the Snakefile and the rules ask `workflow`, of class `Workflow` or of its settings.
OF_WORKFLOW = {
    "config_settings.overwrite_config", "cores", "dag.jobs", "dag.needrun_jobs", "is_main_process", "non_local_exec",
    "output_settings.dryrun", "output_settings.verbose", "persistence.cleanup_metadata", "remote_exec",
    "resource_settings.nodes", "rules",
}  # fmt: skip
#: What Snakemake's manual documents.
DOCUMENTED = {"basedir"}
GONE = "is gone from the installed version: mend what asks for it, or lower the upper bound in pyproject.toml"


def imported(module: str) -> ModuleType:
    """A module. Snakemake's import one another, and begin with that of its interface."""
    if module.startswith("snakemake"):
        importlib.import_module("snakemake.api")
    return importlib.import_module(module)


@pytest.mark.parametrize("name", NAMES)
def test_an_undocumented_name_is_still_there(name: str) -> None:
    module, _, path = name.partition(":")
    found = pytest.importorskip(module) if module.startswith("distributed") else imported(module)
    for part in path.split("."):
        assert hasattr(found, part), f"{name} ({NAMES[name]}) {GONE}"
        found = getattr(found, part)


@pytest.mark.parametrize("name", sorted(OF_WORKFLOW))
def test_the_workflow_still_knows_what_the_rules_ask_it(name: str) -> None:
    known = snakemake.workflow.Workflow
    first, _, second = name.partition(".")
    assert hasattr(known, first) or first in known.__dataclass_fields__, f"workflow.{first} (Snakefile, rules/) {GONE}"
    if first.endswith("_settings"):
        kind = "".join(map(str.title, first.split("_")))
        settings = getattr(importlib.import_module("snakemake.settings.types"), kind)
        assert hasattr(settings(), second), f"workflow.{name} (Snakefile, rules/) {GONE}"
    elif first == "persistence":
        source = "".join(
            path.read_text()
            for path in Path(inspect.getfile(importlib.import_module("snakemake"))).parent.glob("persistence*/*.py")
        ) or inspect.getsource(importlib.import_module("snakemake.persistence"))
        assert f"def {second}(" in source, f"workflow.{name} (rules/common.smk) {GONE}"


def test_the_rules_ask_the_workflow_nothing_else() -> None:
    text = "".join(path.read_text() for path in [CHECKOUT / "Snakefile", *(CHECKOUT / "rules").glob("*.smk")])
    asked = set(re.findall(r"\bworkflow\.([a-z_]+(?:\.[a-z_]+)?)", re.sub(r"rover_pipeline\.workflow\S*", "", text)))
    assert asked == OF_WORKFLOW | DOCUMENTED


def test_numba_still_names_the_files_of_its_cache_as_we_say() -> None:
    if compiled._UserFolder is object:
        pytest.skip("this older version has no such class, and a cache for each place of the sources")
    assert hasattr(compiled._UserFolder, "get_suitable_cache_subpath"), f"UserProvidedCacheLocator's method {GONE}"


def test_dask_still_bounds_the_start_of_a_client() -> None:
    utils = pytest.importorskip("distributed.utils")
    assert "callback_timeout" in inspect.signature(utils.sync).parameters, f"callback_timeout {GONE}"
