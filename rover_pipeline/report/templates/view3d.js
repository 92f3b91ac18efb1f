"use strict";
// The map and the path in three dimensions, drawn point by point into a canvas: no library, no network.
(() => {
  const figure = document.querySelector(".view3d");
  const canvas = figure.querySelector("canvas");
  const context = canvas.getContext("2d", { willReadFrequently: true }); // pixels are computed here, not by a GPU
  if (!context) return; // the picture of the map stays
  const view = JSON.parse(document.getElementById("view3d-data").textContent);
  const decode = (text) => new Uint16Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const metres = (numbers) => Float32Array.from(numbers, (n, i) => view.low[i % 3] + view.step * n - view.centre[i % 3]);
  const points = metres(decode(view.points));
  const path = metres(decode(view.path));
  const home = { turn: -0.6, tilt: 0.75, near: 1 };
  let { turn, tilt, near } = home;
  let ceiling = view.ceiling === null;

  // Colours by height; most points are within the middle of the scale.
  const heights = Float32Array.from({ length: points.length / 3 }, (_, i) => points[3 * i + 2]).sort();
  const low = heights[Math.floor(0.02 * heights.length)];
  const high = Math.max(low + 0.1, heights[Math.floor(0.98 * (heights.length - 1))]);
  const last = view.colours.length - 1;
  const colour = (z) => {
    const at = Math.min(last - 0.001, Math.max(0, (last * (z - low)) / (high - low)));
    const [a, b] = view.colours.slice(Math.floor(at), Math.floor(at) + 2);
    return a.map((value, i) => value + (b[i] - value) * (at % 1));
  };
  const colours = Uint8Array.from({ length: points.length }, (_, i) => colour(points[i - (i % 3) + 2])[i % 3]);

  const draw = () => {
    const scale = Math.min(2, window.devicePixelRatio || 1);
    const width = (canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale)));
    const height = (canvas.height = Math.max(1, Math.round(canvas.clientHeight * scale)));
    const image = context.createImageData(width, height);
    const depths = new Float32Array(width * height).fill(Infinity);
    const [sinTurn, cosTurn, sinTilt, cosTilt] = [Math.sin(turn), Math.cos(turn), Math.sin(tilt), Math.cos(tilt)];
    const distance = (2.2 * view.radius) / near;
    const focal = 1.25 * Math.min(width, 1.3 * height);
    // Where a point is in the picture, and how far from the eye, which looks down by `tilt`.
    const seen = (x, y, z) => {
      const right = cosTurn * x - sinTurn * y;
      const ahead = sinTurn * x + cosTurn * y;
      const depth = distance + cosTilt * ahead - sinTilt * z;
      return [width / 2 + (focal * right) / depth, height / 2 - (focal * (sinTilt * ahead + cosTilt * z)) / depth, depth];
    };
    for (let i = 0; i < image.data.length; i += 4) {
      image.data.set([16, 21, 28, 255], i);
    }
    for (let i = 0; i < points.length; i += 3) {
      if (!ceiling && points[i + 2] + view.centre[2] > view.ceiling) continue;
      const [x, y, depth] = seen(points[i], points[i + 1], points[i + 2]);
      if (depth < 0.05 * view.radius) continue;
      const size = Math.min(4, Math.max(1, Math.round((1.6 * scale * distance) / depth)));
      const shade = Math.min(1, Math.max(0.35, 1.25 - (0.45 * depth) / distance));
      for (let row = Math.round(y); row < Math.round(y) + size; row++) {
        for (let column = Math.round(x); column < Math.round(x) + size; column++) {
          if (row < 0 || row >= height || column < 0 || column >= width) continue;
          const pixel = row * width + column;
          if (depth >= depths[pixel]) continue;
          depths[pixel] = depth;
          for (let c = 0; c < 3; c++) image.data[4 * pixel + c] = shade * colours[i + c];
        }
      }
    }
    context.putImageData(image, 0, 0);
    context.lineWidth = 2 * scale;
    context.lineJoin = "round";
    context.strokeStyle = "#ffffff";
    context.beginPath();
    for (let i = 0; i < path.length; i += 3) {
      const [x, y, depth] = seen(path[i], path[i + 1], path[i + 2]);
      if (depth > 0.05 * view.radius) context.lineTo(x, y);
    }
    context.stroke();
    for (const [i, fill] of [[0, "#53c781"], [path.length - 3, "#ff6b64"]]) {
      if (i < 0 || !path.length) continue;
      const [x, y] = seen(path[i], path[i + 1], path[i + 2]);
      context.fillStyle = fill;
      context.beginPath();
      context.arc(x, y, 5 * scale, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
    }
  };

  let waiting = false;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };
  const rotate = (right, down) => {
    turn += right;
    tilt = Math.min(Math.PI / 2, Math.max(0, tilt + down));
    redraw();
  };
  const zoom = (factor) => { near = Math.min(12, Math.max(0.4, near * factor)); redraw(); };

  const fingers = new Map();
  const spread = () => { const [a, b] = [...fingers.values()]; return Math.hypot(a.x - b.x, a.y - b.y); };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (!last) return;
    const before = fingers.size === 2 ? spread() : 0;
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (fingers.size === 2) zoom(spread() / Math.max(1, before));
    else rotate((event.clientX - last.x) / 150, (event.clientY - last.y) / 150);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => fingers.delete(event.pointerId));
  }
  // A wheel scrolls the page unless the view was chosen by a click, or Ctrl is held.
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-0.15, 0], ArrowRight: [0.15, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
    if (step) rotate(...step);
    else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else return;
    event.preventDefault();
  });
  const actions = {
    closer: () => zoom(1.35),
    farther: () => zoom(1 / 1.35),
    above: () => { tilt = Math.PI / 2; turn = 0; redraw(); },
    back: () => { ({ turn, tilt, near } = home); redraw(); },
  };
  for (const button of figure.querySelectorAll("button[data-do]")) {
    button.addEventListener("click", () => actions[button.dataset.do]());
  }
  const box = figure.querySelector("input");
  box?.addEventListener("change", () => { ceiling = box.checked; redraw(); });
  figure.hidden = false;
  new ResizeObserver(redraw).observe(canvas);
  draw();
})();
