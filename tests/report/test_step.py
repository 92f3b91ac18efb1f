"""The page as a result of the workflow."""

from __future__ import annotations

from pathlib import Path

from rover_pipeline.format.trace import link_trace
from rover_pipeline.report.fleet import make_report
from rover_pipeline.report.templating import REPORT
from tests.kit import WHOLE, check_virtual_sensor, small_trace


def test_the_page_is_published_like_every_result(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 5, sensors=("radar",))
    check_virtual_sensor("_report", trace, REPORT, {"instants": 0}, kills=int(WHOLE))


def test_a_tree_of_links_to_recordings_does_not_contain_their_pages(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 5, sensors=("imu",))
    make_report(trace)
    link_trace(trace, tmp_path / "mirror")
    assert sorted(path.name for path in (tmp_path / "mirror").iterdir()) == ["config.yaml", "imu"]
