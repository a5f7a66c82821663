/** The plots of a report: all data is in the page. */
import type uPlotType from "uplot";
import type { Band, Drawn, Panel, Shape } from "./api";
import { SIDE, axis, cursor, dashed, fromZero, timeAxis } from "./chart";
import { byId, make, settled } from "./dom";
import { seconds, shown } from "./quantity";

const HEIGHT = 230;
const plots: uPlotType[] = [];

const unpack = async (): Promise<Drawn> => {
  const packed = atob(byId("data", HTMLScriptElement).text.trim());
  const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text()) as Drawn;
};

const width = (): number => byId("plots", HTMLElement).clientWidth;

/** What is drawn: a stack's line is the sum of the flows up to it. */
const columns = (panel: Panel): (number | null)[][] => {
  if (!panel.stacked) return panel.series.map((shape) => shape.values);
  let below = panel.times.map(() => 0);
  return panel.series.map((shape) => (below = below.map((value, i) => value + (shape.values[i] ?? 0))));
};

/** The states of the controller behind the lines, named where there is room. */
const background = (bands: Band[], tints: Record<string, string>) => (u: uPlotType) => {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio || 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = `${10 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  for (const { start, end, state } of bands) {
    const left = Math.max(u.valToPos(start, "x", true), bbox.left);
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

let busy = false;
const follow = (from: uPlotType, key: string): void => {
  if (key !== "x" || busy) return;
  busy = true;
  const { min, max } = from.scales["x"] ?? {};
  if (min !== undefined && max !== undefined) {
    for (const plot of plots) if (plot !== from) plot.setScale("x", { min, max });
  }
  busy = false;
};

const line = (panel: Panel, shape: Shape): uPlotType.Series => ({
  label: shape.label,
  scale: shape.right ? "right" : "y",
  stroke: panel.stacked ? "#fff" : shape.colour,
  ...(panel.stacked ? { fill: shape.colour } : { dash: dashed(shape.dash) }),
  width: panel.stacked ? 0.5 : 1.25,
  points: { show: false },
  spanGaps: false,
  value: (_, __, ___, at) => (at == null ? "–" : shown(shape.values[at])),
});

const draw = (panel: Panel, into: HTMLElement, end: number, behind?: (u: uPlotType) => void): void => {
  const drawn = panel.series.map((shape, i) => ({ series: line(panel, shape), values: columns(panel)[i] ?? [] }));
  // The whole stack first, then what stands before it.
  if (panel.stacked) drawn.reverse();
  const axes = [timeAxis(), axis(panel.unit, SIDE - 18)];
  if (panel.unitRight) axes.push(axis(panel.unitRight, SIDE - 18, { scale: "right", side: 1, grid: { show: false } }));
  const box = make("div", undefined, into);
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
      hooks: { setScale: [follow], drawClear: behind ? [behind] : [] },
    },
    [panel.times, ...drawn.map(({ values }) => values)],
    box,
  );
  // A double click shows the whole run, not only where this plot has data.
  plot.over.addEventListener("dblclick", () => plot.setScale("x", { min: 0, max: end }));
  const now = plots[0]?.scales["x"];
  plots.push(plot);
  plot.setScale("x", { min: now?.min ?? 0, max: now?.max ?? end });
};

const start = async (): Promise<void> => {
  const data = await unpack();
  for (const panel of data.overview) draw(panel, byId("overview", HTMLElement), data.end);
  addEventListener("resize", settled(() => plots.forEach((plot) => plot.setSize({ width: width(), height: HEIGHT })), 100));
  if (data.details.length) details(data);
};

const details = (data: Drawn): void => {
  const detail = byId("detail", HTMLElement);
  const states = byId("states", HTMLElement);
  const choice = byId("flow", HTMLSelectElement);
  const show = (): void => {
    const chosen = data.details[choice.selectedIndex];
    if (!chosen) return;
    for (const plot of plots.splice(data.overview.length)) plot.destroy();
    detail.replaceChildren();
    states.replaceChildren();
    const seen = new Set(chosen.bands.map(({ state }) => state));
    for (const [state, tint] of Object.entries(data.tints)) {
      if (!seen.has(state)) continue;
      const entry = make("span", undefined, states);
      make("i", undefined, entry).style.background = tint;
      entry.append(state);
    }
    const behind = background(chosen.bands, data.tints);
    for (const panel of chosen.panels) draw(panel, detail, data.end, behind);
  };
  choice.addEventListener("change", show);
  show();
};

start().catch((error: unknown) => {
  const failed = byId("failed", HTMLElement);
  failed.hidden = false;
  failed.textContent = `The plots could not be drawn (${error}). The tables hold without them.`;
});
