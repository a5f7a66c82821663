"use strict";
(async () => {
  const SIDE = 64;
  const HEIGHT = 230;
  const plots = [];

  const unpack = async () => {
    const packed = atob(document.getElementById("data").textContent.trim());
    const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };

  const width = () => document.getElementById("plots").clientWidth;
  const shown = (v) => (v == null ? "–" : Number(v.toPrecision(4)).toLocaleString("en"));

  // What is drawn: a stack's line is the sum of the flows up to it.
  const lines = (panel) => {
    if (!panel.stacked) return panel.series.map((s) => s.values);
    let below = panel.times.map(() => 0);
    return panel.series.map((s) => (below = below.map((v, i) => v + (s.values[i] || 0))));
  };

  // The states of the controller behind the lines, named where there is room.
  const bands = (spans, tints) => (u) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.font = `${10 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
    ctx.textBaseline = "top";
    for (const [start, end, state] of spans) {
      const left = Math.max(u.valToPos(start, "x", true), bbox.left);
      const right = Math.min(u.valToPos(end, "x", true), bbox.left + bbox.width);
      if (right <= left) continue;
      ctx.fillStyle = tints[state];
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      if (ctx.measureText(state).width + 8 * ratio < right - left) {
        ctx.fillStyle = "#444";
        ctx.fillText(state, left + 4 * ratio, bbox.top + 3 * ratio);
      }
    }
    ctx.restore();
  };

  let busy = false;
  const follow = (from, key) => {
    if (key !== "x" || busy) return;
    busy = true;
    const { min, max } = from.scales.x;
    for (const plot of plots) if (plot !== from) plot.setScale("x", { min, max });
    busy = false;
  };

  const draw = (panel, into, end, background) => {
    const data = lines(panel);
    // The whole stack first, then what stands before it.
    const order = panel.series.map((_, i) => i);
    if (panel.stacked) order.reverse();
    const series = order.map((i) => {
      const s = panel.series[i];
      return {
        label: s.label,
        scale: s.right ? "right" : "y",
        stroke: panel.stacked ? "#fff" : s.colour,
        fill: panel.stacked ? s.colour : undefined,
        width: panel.stacked ? 0.5 : 1.25,
        dash: panel.stacked ? undefined : s.dash.map((d) => d * 1.5),
        points: { show: false },
        spanGaps: false,
        value: (u, v, _, at) => (at == null ? "–" : shown(s.values[at])),
      };
    });
    const axis = { stroke: "#333", grid: { stroke: "#e8e8e8", width: 1 }, ticks: { stroke: "#bbb", width: 1, size: 5 }, font: '12px system-ui, "DejaVu Sans", sans-serif', labelFont: '12px system-ui, "DejaVu Sans", sans-serif', labelSize: 18 };
    const fromZero = (u, low, high) => [0, high > 0 ? high * 1.08 : 1];
    const axes = [
      { ...axis, label: "time (s)", size: 34 },
      { ...axis, label: panel.unit, size: SIDE - 18 },
      { ...axis, scale: "right", side: 1, label: panel.unitRight || " ", size: SIDE - 18, grid: { show: false }, show: Boolean(panel.unitRight) },
    ];
    const box = document.createElement("div");
    box.className = "plot";
    into.append(box);
    const plot = new uPlot(
      {
        title: panel.title,
        width: width(),
        height: HEIGHT,
        // Room for the right axis everywhere, so that times stand above one another.
        padding: [null, panel.unitRight ? 0 : SIDE, null, 0],
        scales: { x: { time: false }, y: { range: fromZero }, right: { range: fromZero } },
        axes: panel.unitRight ? axes : axes.slice(0, 2),
        series: [{ label: "time", value: (u, v) => (v == null ? "–" : `${v.toFixed(3)} s`) }, ...series],
        cursor: {
          drag: { x: true, y: false },
          sync: { key: "time", setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
        },
        hooks: {
          setScale: [follow],
          drawClear: background ? [background] : [],
        },
      },
      [panel.times, ...order.map((i) => data[i])],
      box,
    );
    // A double click shows the whole run, not only where this plot has data.
    plot.over.addEventListener("dblclick", () => plot.setScale("x", { min: 0, max: end }));
    const { min, max } = plots.length ? plots[0].scales.x : { min: 0, max: end };
    plots.push(plot);
    plot.setScale("x", { min: min ?? 0, max: max ?? end });
    return plot;
  };

  try {
    const data = await unpack();
    const overview = document.getElementById("overview");
    for (const panel of data.overview) draw(panel, overview, data.end);

    const detail = document.getElementById("detail");
    const states = document.getElementById("states");
    const choose = document.getElementById("flow");
    const show = () => {
      const chosen = data.details[choose.selectedIndex];
      if (!chosen) return;
      for (const plot of plots.splice(data.overview.length)) plot.destroy();
      detail.replaceChildren();
      states.replaceChildren();
      const seen = new Set(chosen.bands.map((band) => band[2]));
      for (const [state, tint] of Object.entries(data.tints)) {
        if (!seen.has(state)) continue;
        const entry = document.createElement("span");
        const key = document.createElement("i");
        key.style.background = tint;
        entry.append(key, state);
        states.append(entry);
      }
      const background = bands(chosen.bands, data.tints);
      for (const panel of chosen.panels) draw(panel, detail, data.end, background);
    };
    choose.addEventListener("change", show);
    show();

    let pending;
    addEventListener("resize", () => {
      clearTimeout(pending);
      pending = setTimeout(() => plots.forEach((p) => p.setSize({ width: width(), height: HEIGHT })), 100);
    });
  } catch (error) {
    const failed = document.getElementById("failed");
    failed.hidden = false;
    failed.textContent = `The plots could not be drawn (${error}). The tables hold without them.`;
  }
})();
