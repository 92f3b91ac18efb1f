"""Draws docs/report.png, the top of a page: `python -m docs.make_report_picture TRACE/_report/index.html`."""

from __future__ import annotations

import sys
from pathlib import Path

import cv2

from tests.browser import chromium

WIDTH, HEIGHT = 1160, 1180


def main(page: Path, out: Path) -> None:
    with chromium() as tab:
        tab.open(page, width=WIDTH, height=HEIGHT)
        tab.screenshot(out)
    image = cv2.imread(str(out))
    assert image is not None
    cv2.imwrite(str(out), image[:HEIGHT], [cv2.IMWRITE_PNG_COMPRESSION, 9])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).with_name("report.png"))
