/** The plots of a report: all data is in the page. */
import type uPlotType from "uplot";
import type { Band, Drawn, Happening, Panel, Shape } from "./api";
import { SIDE, axis, cursor, dashed, fromZero, isDark, legend, onTone, small, styled, timeAxis, tone } from "./chart";
import { byId, make, settled } from "./dom";
import { sequence } from "./packets";
import { seconds, shown } from "./quantity";
import { strips } from "./strips";
import { explain } from "./why";
import { type Span, Zoom } from "./zoom";

const HEIGHT = 230;
const SMALL = 110;
const FAIR = "fair share";
/** Marks of more changes have no words. */
const MARKED = 12;

type Hook = (u: uPlotType) => void;

const unpack = async (): Promise<Drawn> => {
  const packed = atob(byId("data", HTMLScriptElement).text.trim());
  const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text()) as Drawn;
};

const width = (): number => byId("plots", HTMLElement).clientWidth;

/** On the right of a plot without an axis there: on a phone there is no room for that. */
const margin = (): number => (width() < 560 ? 8 : SIDE);

/** The drawn values: a stack's line is the sum of the flows up to it. */
const columns = (panel: Panel): (number | null)[][] => {
  if (!panel.stacked) return panel.series.map((shape) => shape.values);
  let below = panel.times.map(() => 0);
  return panel.series.map((shape) => (below = below.map((value, i) => value + (shape.values[i] ?? 0))));
};

/** Draws inside a plot's area. */
const inside = (u: uPlotType, act: (ctx: CanvasRenderingContext2D, box: uPlotType.BBox, ratio: number) => void): void => {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  act(ctx, bbox, devicePixelRatio || 1);
  ctx.restore();
};

/** The states of the controller, pale behind the lines. */
const behind = (bands: Band[], tints: Record<string, string>): Hook => (u) =>
  inside(u, (ctx, box) => {
    ctx.globalAlpha = isDark() ? 0.16 : 0.3;
    for (const { start, end, state } of bands) {
      const left = Math.max(u.valToPos(start, "x", true), box.left);
      const right = Math.min(u.valToPos(end, "x", true), box.left + box.width);
      ctx.fillStyle = tints[state] ?? "#fff";
      if (right > left) ctx.fillRect(left, box.top, right - left, box.height);
    }
  });

/** The scenario's changes as vertical lines; `named` says whether with labels. */
const marked = (marks: Happening[], named: boolean): Hook => (u) =>
  inside(u, (ctx, box, ratio) => {
    ctx.strokeStyle = ctx.fillStyle = styled("--bad", "#b00020");
    ctx.font = small(ratio);
    ctx.textBaseline = "top";
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    const { min, max } = u.scales["x"] ?? {};
    const visible = marks.filter(({ t }) => t >= (min ?? 0) && t <= (max ?? Infinity));
    let free = [0, 0, 0];
    for (const { t, text } of visible) {
      const at = Math.round(u.valToPos(t, "x", true));
      ctx.beginPath();
      ctx.moveTo(at, box.top);
      ctx.lineTo(at, box.top + box.height);
      ctx.stroke();
      if (!named || visible.length > MARKED) continue;
      const long = ctx.measureText(text).width + 8 * ratio;
      const row = free.findIndex((end) => end <= at);
      if (row < 0) continue;
      // At the right edge the words are on the left of the line.
      const turned = at + long > box.left + box.width;
      ctx.textAlign = turned ? "right" : "left";
      ctx.fillText(text, at + (turned ? -4 : 4) * ratio, box.top + (2 + 13 * row) * ratio);
      free = free.map((end, nth) => (nth === row ? at + (turned ? 0 : long) : end));
    }
  });

const line = (panel: Panel, shape: Shape): uPlotType.Series => ({
  label: shape.label,
  scale: shape.right ? "right" : "y",
  stroke: panel.stacked ? () => styled("--page", "#fff") : tone(shape.colour),
  ...(panel.stacked ? { fill: tone(shape.colour) } : { dash: dashed(shape.dash) }),
  width: panel.stacked ? 0.5 : 1.25,
  points: { show: false },
  spanGaps: false,
  value: (_, __, ___, at) => (at == null ? "" : shown(shape.values[at])),
});

const reference = (shape: Shape): uPlotType.Series => ({
  label: shape.label,
  stroke: tone(shape.colour),
  dash: dashed(shape.dash),
  width: 1,
  points: { show: false },
  spanGaps: true,
  value: (_, __, ___, at) => (at == null ? "" : shown(shape.values[at])),
});

class Page {
  readonly #data: Drawn;
  readonly #zoom: Zoom;
  /** Those of the flow in detail. */
  #own: uPlotType[] = [];
  readonly #wide = new Set<uPlotType>();

  constructor(data: Drawn) {
    this.#data = data;
    const shows = byId("window", HTMLOutputElement);
    const tell = ([from, to]: Span): void => {
      shows.textContent = `${seconds(from)} to ${seconds(to)}`;
    };
    this.#zoom = new Zoom(data.end, tell);
    tell(this.#zoom.view);
  }

  start(): void {
    const { overview, details, tints, marks } = this.#data;
    overview.forEach((panel, nth) => this.#draw(panel, byId("overview", HTMLElement), [], marked(marks, nth === 0)));
    const zoom = this.#zoom;
    const acts = { "zoom-in": () => zoom.by(0.5), "zoom-out": () => zoom.by(2), earlier: () => zoom.shift(-0.25), later: () => zoom.shift(0.25), whole: () => zoom.whole() };
    for (const [id, act] of Object.entries(acts)) byId(id, HTMLButtonElement).addEventListener("click", act);
    zoom.keys(byId("plots", HTMLElement));
    onTone(() => zoom.redraw());
    addEventListener(
      "resize",
      settled(() => zoom.resize((plot) => (this.#wide.has(plot) ? width() : (plot.root.parentElement?.clientWidth ?? 280))), 100),
    );
    if (!details.length) return;
    this.#states();
    if (details.some(({ bands }) => bands.length)) {
      const box = make("div", undefined, byId("strips", HTMLElement));
      box.className = "plot";
      this.#take(strips(details, tints, width(), margin(), box, zoom.follow), true);
    }
    this.#each();
    this.#moment().addEventListener("change", ({ target }) => {
      const t = (target as HTMLInputElement).valueAsNumber;
      if (Number.isFinite(t)) this.#explain(t);
    });
    const choice = byId("flow", HTMLSelectElement);
    choice.addEventListener("change", () => this.#detail(choice.selectedIndex));
    this.#detail(0);
  }

  #take(plot: uPlotType, wide: boolean): uPlotType {
    if (wide) this.#wide.add(plot);
    this.#zoom.add(plot);
    let down = 0;
    plot.over.addEventListener("mousedown", ({ clientX }) => (down = clientX));
    plot.over.addEventListener("click", ({ clientX, offsetX }) => {
      // The end of a drag is no click.
      if (Math.abs(clientX - down) < 4 && this.#data.details.length) this.#explain(plot.posToVal(offsetX, "x"));
    });
    return plot;
  }

  #moment(): HTMLInputElement {
    return byId("moment", HTMLInputElement);
  }

  #explain(moment: number): void {
    const t = Math.min(Math.max(moment, 0), this.#data.end);
    this.#moment().value = t.toFixed(3);
    explain(byId("why", HTMLElement), this.#data, t);
  }

  /** The key to the colours of states. */
  #states(): void {
    for (const [state, tint] of Object.entries(this.#data.tints)) {
      const entry = make("span", undefined, byId("states", HTMLElement));
      make("i", undefined, entry).style.background = tint;
      entry.append(state);
    }
  }

  #draw(panel: Panel, into: HTMLElement, below: Hook[], above: Hook): uPlotType {
    const drawn = panel.series.map((shape, i) => ({ series: line(panel, shape), values: columns(panel)[i] ?? [] }));
    // The stack first, then the lines in front of it.
    if (panel.stacked) drawn.reverse();
    // A share is of one flow, and the stack is of all.
    const references = panel.references.filter(({ label }) => !panel.stacked || label !== FAIR);
    drawn.push(...references.map((shape) => ({ series: reference(shape), values: shape.values })));
    const axes = [timeAxis(), axis(panel.unit, SIDE - 18)];
    if (panel.unitRight) axes.push(axis(panel.unitRight, SIDE - 18, { scale: "right", side: 1, grid: { show: false } }));
    const box = make("div", undefined, into);
    box.className = "plot";
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `${panel.title}, in ${panel.unit}, over time`);
    const plot = new uPlot(
      {
        title: panel.title,
        width: width(),
        height: HEIGHT,
        // Room for the right axis everywhere, so that the time axes align.
        padding: [null, panel.unitRight ? 0 : margin(), null, 0],
        scales: { x: { time: false }, y: { range: fromZero }, right: { range: fromZero } },
        axes,
        series: [{ label: "time", value: (_, at) => (at == null ? "" : seconds(at)) }, ...drawn.map(({ series }) => series)],
        cursor: cursor(),
        legend,
        hooks: { setScale: [this.#zoom.follow], drawClear: below, draw: [above] },
      },
      [panel.times, ...drawn.map(({ values }) => values)],
      box,
    );
    return this.#take(plot, true);
  }

  /** Throughput of each flow with its fair share, because flows hide each other in one plot. */
  #each(): void {
    const [throughput] = this.#data.overview;
    const { details } = this.#data;
    if (details.length < 2 || !throughput?.stacked) return;
    const into = byId("each", HTMLElement);
    const fair = throughput.references.find(({ label }) => label === FAIR);
    const most = throughput.series.reduce((top, { values }) => values.reduce<number>((high, value) => Math.max(high, value ?? 0), top), 0);
    for (const shape of throughput.series) {
      const box = make("div", undefined, into);
      box.setAttribute("role", "img");
      box.setAttribute("aria-label", `Throughput of ${shape.label} and its fair share over time`);
      const series: uPlotType.Series[] = [{ label: "time" }, { stroke: tone(shape.colour), width: 1.25, points: { show: false } }];
      if (fair) series.push(reference(fair));
      const plot = new uPlot(
        {
          title: `${shape.label}, ${throughput.unit}`,
          width: box.clientWidth,
          height: SMALL,
          padding: [null, 8, null, 0],
          scales: { x: { time: false }, y: { range: [0, most * 1.05 || 1] } },
          axes: [{ ...timeAxis(), label: "", labelSize: 0, size: 22, space: 60 }, { ...axis("", 44), labelSize: 0, space: 26 }],
          series,
          cursor: cursor(),
          legend: { show: false },
          hooks: { setScale: [this.#zoom.follow] },
        },
        [throughput.times, shape.values, ...(fair ? [fair.values] : [])],
        box,
      );
      this.#take(plot, false);
    }
  }

  #detail(nth: number): void {
    const chosen = this.#data.details[nth];
    if (!chosen) return;
    for (const plot of this.#own) this.#zoom.drop(plot);
    const box = byId("detail", HTMLElement);
    box.replaceChildren();
    const [below, above] = [behind(chosen.bands, this.#data.tints), marked(this.#data.marks, false)];
    this.#own = chosen.panels.map((panel) => this.#draw(panel, box, [below], above));
    if (!chosen.packets) return;
    const place = make("div", undefined, box);
    place.className = "plot";
    place.id = "packets";
    place.setAttribute("role", "group");
    place.setAttribute("aria-label", `Packets of ${chosen.label} by sequence number, over time`);
    this.#own.push(this.#take(sequence(chosen.label, chosen.packets, width(), HEIGHT + 100, margin(), place, this.#zoom.follow), true));
  }
}

const start = async (): Promise<void> => {
  new Page(await unpack()).start();
  document.body.dataset["drawn"] = "yes";
};

start().catch((error: unknown) => {
  const failed = byId("failed", HTMLElement);
  failed.hidden = false;
  failed.textContent = `The plots could not be drawn (${error}). The tables do not need them.`;
});
