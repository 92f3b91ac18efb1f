"""The manual as a site: it is built, served, and read in a browser."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Tab, chromium
from tests.conftest import CHECKOUT

pytestmark = pytest.mark.system


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(out)]
    subprocess.run(command, cwd=CHECKOUT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return out


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    """The address of the site, which only this machine sees."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def tab(site: str) -> Iterator[Tab]:
    with chromium(offline=False) as found:
        yield found


def test_every_page_has_one_title(folder: Path) -> None:
    for page in folder.rglob("index.html"):
        assert page.read_text().count("<h1") == 1, page.relative_to(folder)


def test_pages_ask_nobody_else_for_anything(site: str, tab: Tab) -> None:
    for page in ("", "api/", "sensors/"):
        tab.visit(f"{site}{page}", width=1400)
        assert [each for each in tab.requests if not each.startswith((site, "data:"))] == []
        assert tab.complaints == []


@pytest.mark.parametrize("width", [1400, 1000])
def test_names_in_tables_do_not_break(site: str, tab: Tab, width: int) -> None:
    tab.visit(f"{site}sensors/", width=width)
    cells = "[...document.querySelectorAll('td:first-child code')]"
    names = tab.run(f"{cells}.map(each => [each.innerText, each.getClientRects().length])")
    assert len(names) > 20
    assert [name for name, lines in names if lines != 1] == []


def test_the_page_of_the_api_has_signatures_and_a_list_of_contents(site: str, tab: Tab) -> None:
    tab.visit(f"{site}api/", width=1400)
    signatures = tab.run("[...document.querySelectorAll('.doc-signature')].map(each => each.innerText).join('\\n')")
    for wanted in ("open(", "output_root: ", "open_many(", "-> Trace"):
        assert wanted in signatures
    contents = tab.run("[...document.querySelectorAll('.md-sidebar--secondary a')].map(each => each.innerText.trim())")
    assert {"Recordings", "rp.open", "rp.Trace", "Steps", "steps.step"} <= set(contents)
    shown = tab.run("document.querySelector('.md-sidebar--secondary').getBoundingClientRect().width")
    assert shown > 100


@pytest.mark.parametrize(
    "words, page", [("radar_points", "sensors/radar_points/"), ("velocity of the radar", "sensors/radar_velocity/")]
)
def test_search_finds_pages_by_their_words_and_sensors_by_their_names(
    site: str, tab: Tab, words: str, page: str
) -> None:
    tab.visit(f"{site}?q={words.replace(' ', '+')}", width=1400)
    found: list[str] = []
    deadline = time.monotonic() + 60
    while not found and time.monotonic() < deadline:
        found = tab.run("[...document.querySelectorAll('.md-search-result__item a')].map(each => each.href)")
        time.sleep(0.1)
    assert any(each.startswith(f"{site}{page}") for each in found[:8]), found[:8]
