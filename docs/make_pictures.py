"""Makes all pictures of the manual and the README: `python -m docs.make_pictures [--trace TRACE] [NAME...]`.

Without a trace it first simulates six seconds of the preset `indoor` and makes every virtual sensor of it. NAME is a
virtual sensor without its underscore, `preview` (a frame of the MP4 video) or `rerun` (the Rerun viewer, with the
recording that `export rrd` writes). It needs the extras `dev` and Chromium.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import av
import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image

from rover_pipeline.export.picture import save_picture
from rover_pipeline.table import TABLE
from tests.browser import SOFTWARE_GRAPHICS, chromium

FOLDER = Path(__file__).with_name("pictures")
PRESET, SECONDS, SEED = "indoor", 6, 0
#: The frame that is drawn, by the sensor that it is a frame of: each is about 2.8 s after the first.
FRAMES = {"lidar": 27, "radar": 56, "camera": 78}
#: Numbers of colours, which are tried in turn until a picture is small enough; the maximum of its size, bytes.
COLOURS, MAX_BYTES = (128, 64, 32, 16), 120_000
#: Width and height of the page, of the viewer's window, and of its part without the panel of the selection, pixels.
PAGE, WINDOW, VIEWS = (1160, 1180), (1900, 1150), (1600, 985)
#: How long the viewer may take to load and to draw on a processor without graphics, s.
VIEWER_S = 240.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, help="a recording with all virtual sensors")
    parser.add_argument("--work", type=Path, default=Path("pictures-work"), help="folder of what is made on the way")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    asked = parser.parse_args()
    asked.work.mkdir(exist_ok=True)
    trace: Path = asked.trace or recording(asked.work)
    FOLDER.mkdir(exist_ok=True)
    for name in asked.names or [*(sensor[1:] for sensor in TABLE), "preview", "rerun"]:
        if name == "preview":
            preview(trace, asked.work)
        elif name == "rerun":
            rerun(trace, asked.work)
        elif name == "report":
            page(trace, asked.work)
        else:
            sensor_picture(trace, name, asked.work)


def recording(work: Path) -> Path:
    """A simulated recording with every virtual sensor."""
    trace = work / "flat"
    if not trace.exists():
        command("simulate", str(trace), "--preset", PRESET, "--duration", str(SECONDS), "--seed", str(SEED))
    command("run", str(trace), "--outputs", "all,camera_model", "--config", *model(work))
    return trace


def model(work: Path) -> tuple[str, ...]:
    """Options of `_camera_model`."""
    return f"camera.model.path={edges(work)}", "camera.model.output=image"


def command(*words: str) -> None:
    """One of our own commands."""
    subprocess.run([sys.executable, "-m", "rover_pipeline", *words], check=True)


def edges(work: Path) -> Path:
    """A model for `_camera_model` that needs no training: how much darker or brighter a pixel is than those around."""
    weights = np.full((3, 3, 3, 3), -1 / 24, "f4")
    weights[:, :, 1, 1] = 1 / 3
    pictures: list[str | int | None] = [1, 3, "height", "width"]
    nodes = [
        helper.make_node("Conv", ["x", "weights"], ["difference"], pads=[1, 1, 1, 1]),
        helper.make_node("Mul", ["difference", "six"], ["stronger"]),
        helper.make_node("Abs", ["stronger"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "edges",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, pictures)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, pictures)],
        [onnx.numpy_helper.from_array(weights, "weights"), onnx.numpy_helper.from_array(np.array(6, "f4"), "six")],
    )
    path = (work / "edges.onnx").resolve()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def sensor_picture(trace: Path, name: str, work: Path) -> None:
    """`pictures/NAME.png`: what `rover-pipeline picture` draws, with fewer colours."""
    drawn = work / f"{name}.png"
    drawn.unlink(missing_ok=True)
    frame = FRAMES.get(name.partition("_")[0], FRAMES["lidar"])
    save_picture(trace, f"_{name}", drawn, frame)
    save(Image.open(drawn), name)


def save(picture: Image.Image, name: str) -> None:
    """A PNG with a palette, which takes a third of the space."""
    out = FOLDER / f"{name}.png"
    for colours in COLOURS:
        picture.convert("RGB").quantize(colours, dither=Image.Dither.NONE).save(out, optimize=True)
        if out.stat().st_size < MAX_BYTES:
            break
        picture = picture.resize((picture.width * 9 // 10, picture.height * 9 // 10), Image.Resampling.LANCZOS)
    print(out, f"{out.stat().st_size / 1e3:.0f} kB")


def save_jpeg(picture: Image.Image, name: str) -> None:
    """A JPEG, for pictures that have photographs in them."""
    out = FOLDER / f"{name}.jpg"
    picture.convert("RGB").save(out, quality=82, optimize=True, progressive=True)
    print(out, f"{out.stat().st_size / 1e3:.0f} kB")


def page(trace: Path, work: Path) -> None:
    """`pictures/report.png`: the top of the page of the recording."""
    shown = work / "page.png"
    with chromium() as tab:
        tab.open(trace / "_report" / "index.html", width=PAGE[0], height=PAGE[1])
        tab.screenshot(shown)
    save(Image.open(shown).crop((0, 0, *PAGE)), "report")


def preview(trace: Path, work: Path) -> None:
    """`pictures/preview.jpg`: a frame of the video of all sensors."""
    video = work / "preview.mp4"
    if not video.exists():
        command("export", "mp4", str(trace), "-o", str(video))
    with av.open(str(video)) as container:
        pictures = [frame.to_image() for frame in container.decode(video=0)]
    save_jpeg(pictures[FRAMES["lidar"]], "preview")


def rerun(trace: Path, work: Path) -> None:
    """`pictures/rerun.jpg`: the viewer in a browser, some time after it has loaded the recording.

    The viewer on the desktop needs a graphics card and a screen; the one for browsers runs where there is neither.
    """
    exported, shown = work / "flat.rrd", work / "viewer.png"
    if not exported.exists():
        command("export", "rrd", str(trace), "-o", str(exported), "--width", "640")
    program = [str(Path(sys.executable).with_name("rerun")), "--serve-web", "--bind", "127.0.0.1"]
    server = subprocess.Popen(
        [*program, "--port", "19876", "--web-viewer-port", "19090", str(exported)], start_new_session=True
    )
    try:
        time.sleep(10)
        with chromium(SOFTWARE_GRAPHICS, offline=False) as tab:
            source = "rerun%2Bhttp%3A%2F%2F127.0.0.1%3A19876%2Fproxy"
            address = f"http://127.0.0.1:19090/?url={source}&renderer=webgl"
            tab.visit(address, width=WINDOW[0], height=WINDOW[1], dark=True)
            time.sleep(VIEWER_S)
            tab.screenshot(shown)
    finally:
        os.killpg(server.pid, signal.SIGTERM)  # the program starts another one
        server.wait()
    save_jpeg(Image.open(shown).crop((0, 0, *VIEWS)).resize((1300, 800), Image.Resampling.LANCZOS), "rerun")


if __name__ == "__main__":
    main()
