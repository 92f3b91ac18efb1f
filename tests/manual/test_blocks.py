"""Every block of every page of the manual works as it is printed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from benchmarks import captures as captures_benchmark
from benchmarks import results
from rover_pipeline.config import Config
from rover_pipeline.format.meta import ChannelSpec
from tests.conftest import CHECKOUT
from tests.manual.blocks import Block, blocks, run, script
from tests.radar.scenes import Target, chirps
from tests.radar.test_calibration import errors, record, words

PAGES = [CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")]
PAGES += sorted((CHECKOUT / "docs").rglob("*.md"))
#: The page whose commands are run on a real recording, by a test of their own.
REAL = captures_benchmark.PAGE
#: Most blocks that may be marked as not run: what needs a cluster or a library of others.
MOST_SKIPPED = 13


def with_blocks(*languages: str) -> list[Path]:
    return [
        page
        for page in PAGES
        if page != REAL
        and any(each.language in languages and not each.mark.startswith("skip") for each in blocks(page))
    ]


def named(page: Path) -> str:
    return str(page.relative_to(CHECKOUT))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader has after the first block of the README: a checkout, and the demonstration."""
    folder = tmp_path_factory.mktemp("manual") / "checkout"
    folder.mkdir()
    for name in ("Snakefile", "rules", "profiles", "config", "pyproject.toml"):
        copy = shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy
        copy(CHECKOUT / name, folder / name)
    pip, *commands = next(iter(blocks(CHECKOUT / "README.md"))).code.splitlines()
    assert pip == "pip install ." and commands == ["snakemake --profile profiles/local"]
    # A reference from elsewhere, which a page compares with.
    for command in (commands[0], "rover-pipeline export tum demo --sensor _truth -o reference.txt"):
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True, env=environment)
    git = "git init -q . && git add . && git -c user.name=x -c user.email=x commit -q -m x"
    repository = folder / "repository"
    shutil.copytree(folder, repository, ignore=shutil.ignore_patterns("repository", ".snakemake", "logs"))
    subprocess.run(git, shell=True, cwd=repository, check=True)
    chirp = chirps()  # of a radar in front of a reflector
    frames = [words(chirp, [Target(3.1, counts=2000)], seed, errors(chirp)) for seed in range(4)]
    record(folder / "reflector", chirp, np.stack(frames))
    return folder


@pytest.mark.system
@pytest.mark.parametrize("page", with_blocks("sh", "python", "snakemake"), ids=named)
def test_the_blocks_of_a_page_work_word_for_word(page: Path, checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    shutil.copytree(checkout, folder)
    shutil.copytree(folder / "demo", folder / "data" / "2026-11-21")
    run(page, folder)


def test_the_commands_for_a_real_radar_carried_by_hand_give_what_its_page_says(captures: Path, tmp_path: Path) -> None:
    odom = captures_benchmark.process_hand_carried(captures, tmp_path)["radar_odom"]
    rows = results.load()
    pos = odom.pos[odom.valid]
    share = np.linalg.norm(pos[-1] - pos[0]) / np.linalg.norm(np.diff(pos, axis=0), axis=1).sum()
    assert 100 * odom.valid.mean() == pytest.approx(float(rows["radar_odom/hand valid"].value), abs=1)
    assert 100 * share == pytest.approx(float(rows["radar_odom/hand share"].value), abs=0.2)
    quoted = results.quoted(REAL.read_text())
    assert {"radar_odom/hand valid", "radar_odom/hand share"} <= set(quoted)


@pytest.mark.parametrize("page", with_blocks("yaml"), ids=named)
def test_configurations_in_pages_are_valid(page: Path) -> None:
    for block in blocks(page):
        if block.language == "yaml" and not block.mark.startswith("skip"):
            Config.model_validate(yaml.safe_load(block.code))


@pytest.mark.parametrize("page", with_blocks("json"), ids=named)
def test_metadata_in_pages_is_valid(page: Path) -> None:
    for block in blocks(page):
        if block.language == "json":
            for spec in json.loads(block.code).values():
                ChannelSpec.model_validate(spec)


def test_every_block_is_run_or_says_why_not() -> None:
    marks = {f"{named(page)}:{block.line}": block for page in PAGES for block in blocks(page)}
    for place, block in marks.items():
        assert block.language in ("", "sh", "python", "snakemake", "yaml", "json", "toml"), place
        assert block.mark.partition(" ")[0] in ("", "save", "append", "skip"), place
        assert not block.mark.startswith("skip") or len(block.mark.split()) > 4, f"{place} does not say why"
    skipped = [place for place, block in marks.items() if block.mark.startswith("skip")]
    assert len(skipped) <= MOST_SKIPPED, skipped


def test_a_block_that_fails_is_named_by_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    saved = "<!-- block: save a.py -->\n```python\nx = 1\n```\n"
    page.write_text(f"One:\n\n{saved}\n```sh\ntest -e a.py && cd /\n```\n\n```sh\nfalse\n```\n")
    assert blocks(page)[0] == Block(5, "save a.py", "python", "x = 1\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(AssertionError, match=r"page.md:13: exit status 1"):
        run(page, folder)
    assert "TRACE" not in script(page, folder)
