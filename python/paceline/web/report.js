// Built from web/ by `make web`. Sources: sha256 a5c2e5a5ccc76480ab18d52d32d5ff3709c1fb74af9d65f3b0a87c701f4f69ea
"use strict";
(() => {
  // src/chart.ts
  var SIDE = 64;
  var FONT = '12px system-ui, "DejaVu Sans", sans-serif';
  var axis = (label, size, more = {}) => ({
    stroke: "#333",
    grid: { stroke: "#e8e8e8", width: 1 },
    ticks: { stroke: "#bbb", width: 1, size: 5 },
    font: FONT,
    labelFont: FONT,
    labelSize: 18,
    label,
    size,
    ...more
  });
  var timeAxis = () => axis("time (s)", 34);
  var fromZero = (_, __, high) => [0, high > 0 ? high * 1.08 : 1];
  var cursor = () => ({
    drag: { x: true, y: false },
    sync: { key: "time", setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } }
  });
  var dashed = (dash) => dash.map((length) => length * 1.5);

  // src/dom.ts
  var byId = (id, kind) => {
    const found = document.getElementById(id);
    if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} ${id}`);
    return found;
  };
  var make = (tag, text, inside) => {
    const element = document.createElement(tag);
    if (text !== void 0) element.textContent = text;
    inside?.append(element);
    return element;
  };
  var settled = (act, milliseconds) => {
    let pending;
    return () => {
      clearTimeout(pending);
      pending = setTimeout(act, milliseconds);
    };
  };

  // src/quantity.ts
  var shown = (value) => value == null ? "–" : Number(value.toPrecision(4)).toLocaleString("en");
  var seconds = (value) => value == null ? "–" : `${value.toFixed(3)} s`;

  // src/report.ts
  var HEIGHT = 230;
  var plots = [];
  var unpack = async () => {
    const packed = atob(byId("data", HTMLScriptElement).text.trim());
    const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  var width = () => byId("plots", HTMLElement).clientWidth;
  var columns = (panel) => {
    if (!panel.stacked) return panel.series.map((shape) => shape.values);
    let below = panel.times.map(() => 0);
    return panel.series.map((shape) => below = below.map((value, i) => value + (shape.values[i] ?? 0)));
  };
  var background = (bands, tints) => (u) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.font = `${10 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    for (const { start: start2, end, state } of bands) {
      const left = Math.max(u.valToPos(start2, "x", true), bbox.left);
      const right = Math.min(u.valToPos(end, "x", true), bbox.left + bbox.width);
      if (right <= left) continue;
      ctx.fillStyle = tints[state] ?? "#fff";
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      if (ctx.measureText(state).width + 8 * ratio < right - left) {
        ctx.fillStyle = "#444";
        ctx.fillText(state, left + 4 * ratio, bbox.top + 3 * ratio);
      }
    }
    ctx.restore();
  };
  var busy = false;
  var follow = (from, key) => {
    if (key !== "x" || busy) return;
    busy = true;
    const { min, max } = from.scales["x"] ?? {};
    if (min !== void 0 && max !== void 0) {
      for (const plot of plots) if (plot !== from) plot.setScale("x", { min, max });
    }
    busy = false;
  };
  var line = (panel, shape) => ({
    label: shape.label,
    scale: shape.right ? "right" : "y",
    stroke: panel.stacked ? "#fff" : shape.colour,
    ...panel.stacked ? { fill: shape.colour } : { dash: dashed(shape.dash) },
    width: panel.stacked ? 0.5 : 1.25,
    points: { show: false },
    spanGaps: false,
    value: (_, __, ___, at) => at == null ? "–" : shown(shape.values[at])
  });
  var draw = (panel, into, end, behind) => {
    const drawn = panel.series.map((shape, i) => ({ series: line(panel, shape), values: columns(panel)[i] ?? [] }));
    if (panel.stacked) drawn.reverse();
    const axes = [timeAxis(), axis(panel.unit, SIDE - 18)];
    if (panel.unitRight) axes.push(axis(panel.unitRight, SIDE - 18, { scale: "right", side: 1, grid: { show: false } }));
    const box = make("div", void 0, into);
    box.className = "plot";
    const plot = new uPlot(
      {
        title: panel.title,
        width: width(),
        height: HEIGHT,
        // Room for the right axis everywhere, so that times stand above one another.
        padding: [null, panel.unitRight ? 0 : SIDE, null, 0],
        scales: { x: { time: false }, y: { range: fromZero }, right: { range: fromZero } },
        axes,
        series: [{ label: "time", value: (_, value) => seconds(value) }, ...drawn.map(({ series }) => series)],
        cursor: cursor(),
        hooks: { setScale: [follow], drawClear: behind ? [behind] : [] }
      },
      [panel.times, ...drawn.map(({ values }) => values)],
      box
    );
    plot.over.addEventListener("dblclick", () => plot.setScale("x", { min: 0, max: end }));
    const now = plots[0]?.scales["x"];
    plots.push(plot);
    plot.setScale("x", { min: now?.min ?? 0, max: now?.max ?? end });
  };
  var start = async () => {
    const data = await unpack();
    for (const panel of data.overview) draw(panel, byId("overview", HTMLElement), data.end);
    addEventListener("resize", settled(() => plots.forEach((plot) => plot.setSize({ width: width(), height: HEIGHT })), 100));
    if (data.details.length) details(data);
  };
  var details = (data) => {
    const detail = byId("detail", HTMLElement);
    const states = byId("states", HTMLElement);
    const choice = byId("flow", HTMLSelectElement);
    const show = () => {
      const chosen = data.details[choice.selectedIndex];
      if (!chosen) return;
      for (const plot of plots.splice(data.overview.length)) plot.destroy();
      detail.replaceChildren();
      states.replaceChildren();
      const seen = new Set(chosen.bands.map(({ state }) => state));
      for (const [state, tint] of Object.entries(data.tints)) {
        if (!seen.has(state)) continue;
        const entry = make("span", void 0, states);
        make("i", void 0, entry).style.background = tint;
        entry.append(state);
      }
      const behind = background(chosen.bands, data.tints);
      for (const panel of chosen.panels) draw(panel, detail, data.end, behind);
    };
    choice.addEventListener("change", show);
    show();
  };
  start().catch((error) => {
    const failed = byId("failed", HTMLElement);
    failed.hidden = false;
    failed.textContent = `The plots could not be drawn (${error}). The tables hold without them.`;
  });
})();
