/** The plots of runs: one window of time for all, and data as fine as it needs. */
import type uPlotType from "uplot";
import type { Series } from "./api";
import { SIDE, axis, cursor, dashed, fromZero, legend, onTone, timeAxis, tone } from "./chart";
import { byId, grouped, make, settled } from "./dom";
import type { Engine } from "./engine";
import { seconds, shown } from "./quantity";

const HEIGHT = 250;
/** More lines have no dashes, which could not be distinguished and are slow to draw, and no legend. */
const MANY = 20;

export type Span = [from: number, to: number];

interface Plot {
  chart: uPlotType;
  box: HTMLElement;
  /** The lines that it has. */
  key: string;
}

export class Plots {
  readonly #drawn = new Map<string, Plot[]>();
  /** The highest value of each quantity: plots side by side have one scale. */
  readonly #high = new Map<string, number>();
  readonly #box = byId("drawn", HTMLElement);
  readonly #order: string[];
  readonly #engine: Engine;
  readonly #tell: (error: unknown) => void;
  readonly #called: (run: string) => string;
  /** Whether each run has plots of its own, beside those of the others. */
  apart = false;
  #runs: string[] = [];
  #names: string[] = [];
  /** The visible span; null for the entire run. */
  #view: Span | null = null;
  /** The span with data at the resolution of the view. */
  #loaded: Span | null = null;
  #end = 1;
  #turn = 0;
  #loading = false;

  constructor(order: string[], engine: Engine, tell: (error: unknown) => void, called = (run: string): string => run) {
    this.#order = order;
    this.#engine = engine;
    this.#tell = tell;
    this.#called = called;
    onTone(() => this.#drawn.forEach((plots) => plots.forEach(({ chart }) => chart.redraw(false))));
    addEventListener("resize", settled(() => this.#drawn.forEach((plots) => this.#fit(plots)), 100));
  }

  /** Draws quantities of runs; of other runs than before, all of the time. */
  show(runs: string[], names: string[], again = false): Promise<void> {
    if (!again) this.#view = null;
    this.#runs = runs;
    this.#names = runs.length ? names : [];
    for (const [name, plots] of this.#drawn) {
      if (this.#names.includes(name)) continue;
      plots[0]?.box.parentElement?.remove();
      this.#drop(plots);
      this.#drawn.delete(name);
    }
    return this.#load();
  }

  /** The visible span in seconds; null for the entire run. */
  get view(): Span | null {
    return this.#view;
  }

  set view(view: Span | null) {
    this.#view = view;
  }

  /** Fetches the view with half of it more on both sides, so that moving shows no gap at once. */
  async #load(): Promise<void> {
    const turn = ++this.#turn;
    this.#loaded = null;
    if (this.#view) {
      const [min, max] = this.#view;
      const more = (max - min) / 2;
      this.#loaded = [Math.max(min - more, 0), Math.min(max + more, this.#end)];
    }
    await Promise.all(
      this.#names.map(async (name) => {
        const data = await this.#engine.series(name, this.#runs, this.#loaded);
        // An answer to an earlier request is ignored.
        if (turn === this.#turn) this.#put(name, data);
      }),
    );
    document.body.dataset["drawn"] = String(turn);
  }

  /** Fetches until there is data for the current view. */
  async #refine(): Promise<void> {
    if (this.#loading) return;
    this.#loading = true;
    try {
      while (this.#wanting()) await this.#load();
    } catch (error) {
      this.#tell(error);
    }
    this.#loading = false;
  }

  #wanting(): boolean {
    if (!this.#view) return this.#loaded !== null;
    const [min, max] = this.#view;
    const [from, to] = this.#loaded ?? [0, this.#end];
    const near = (max - min) / 4;
    const short = (from > 0 && min - from < near) || (to < this.#end && to - max < near);
    return short || to - from > 3 * (max - min) || (this.#loaded === null && (min > 0 || max < this.#end));
  }

  #span(): Span {
    return this.#view ?? [0, this.#end];
  }

  #move(min: number, max: number): void {
    this.#view = min <= 0 && max >= this.#end ? null : [min, max];
    for (const { chart } of [...this.#drawn.values()].flat()) chart.setScale("x", { min, max });
    void this.#refine();
  }

  #put(name: string, data: Series): void {
    this.#end = data.end;
    const runs = grouped(data.lines, ({ run }) => run);
    const parts = this.apart ? [...runs].map(([run, lines]) => ({ ...data, title: `${data.title}, ${this.#called(run)}`, lines })) : [data];
    this.#high.set(name, data.lines.reduce((most, { values }) => values.reduce<number>((high, value) => Math.max(high, value ?? 0), most), 0));
    const plots = this.#drawn.get(name) ?? [];
    const row = plots[0]?.box.parentElement ?? this.#place(name);
    this.#drawn.set(name, plots);
    this.#drop(plots.splice(parts.length));
    for (const [nth, part] of parts.entries()) {
      const box = plots[nth]?.box ?? make("figure", undefined, row);
      box.className = "plot";
      plots[nth] = this.#plot(name, part, box, plots[nth]);
    }
    this.#fit(plots);
  }

  #plot(name: string, data: Series, box: HTMLElement, known?: Plot): Plot {
    const columns: uPlotType.AlignedData = [data.times, ...data.lines.map(({ values }) => values)];
    const key = JSON.stringify([data.title, data.unit, data.lines.map(({ run, label }) => [run, label])]);
    const [min, max] = this.#span();
    if (known?.key === key) {
      known.chart.setData(columns, false);
      known.chart.setScale("x", { min, max });
      return known;
    }
    known?.chart.destroy();
    box.setAttribute("aria-label", `${data.title} over time, in ${data.unit}`);
    const chart = new uPlot(this.#options(name, data, box), undefined, box);
    chart.setData(columns, false);
    chart.setScale("x", { min, max });
    this.#listen(chart);
    return { chart, box, key };
  }

  #drop(plots: Plot[]): void {
    for (const { chart, box } of plots) {
      chart.destroy();
      box.remove();
    }
  }

  #fit(plots: Plot[]): void {
    for (const { chart, box } of plots) if (chart.width !== box.clientWidth) chart.setSize({ width: box.clientWidth, height: HEIGHT });
  }

  /** Plots keep the order of their quantities. */
  #place(name: string): HTMLElement {
    const row = make("div");
    row.className = "row";
    const after = this.#order.slice(this.#order.indexOf(name) + 1).find((other) => this.#drawn.has(other));
    this.#box.insertBefore(row, (after && this.#drawn.get(after)?.[0]?.box.parentElement) || null);
    return row;
  }

  #options(name: string, data: Series, box: HTMLElement): uPlotType.Options {
    const several = new Set(data.lines.map(({ run }) => run)).size > 1;
    const many = data.lines.length > MANY;
    const lines = data.lines.map(
      ({ run, label, colour, dash }): uPlotType.Series => ({
        label: several ? `${this.#called(run)}: ${label}` : label,
        stroke: tone(colour),
        ...(many ? {} : { dash: dashed(dash) }),
        width: many ? 1 / devicePixelRatio : 1.25,
        points: { show: false },
        spanGaps: true,
        value: (_, value) => (value == null ? "" : shown(value)),
      }),
    );
    return {
      title: data.title,
      width: box.clientWidth,
      height: HEIGHT,
      scales: { x: { time: false }, y: { range: (plot, low, high) => fromZero(plot, low, (this.apart && this.#high.get(name)) || high) } },
      axes: [timeAxis(), axis(data.unit, SIDE - 18)],
      series: [{ label: "time", value: (_, value) => (value == null ? "" : seconds(value)) }, ...lines],
      legend: { ...legend, show: !many },
      cursor: cursor(),
      hooks: {
        setScale: [
          (chart, scale) => {
            // uPlot reports every change of scale, including requested ones, and only later.
            const { min, max } = chart.scales["x"] ?? {};
            const [from, to] = this.#span();
            if (scale === "x" && min != null && max != null && (min !== from || max !== to)) this.#move(min, max);
          },
        ],
      },
    };
  }

  #listen(chart: uPlotType): void {
    chart.over.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const at = chart.posToVal(event.offsetX, "x");
        const [min, max] = this.#span();
        const factor = event.deltaY < 0 ? 0.8 : 1.25;
        this.#move(Math.max(at - (at - min) * factor, 0), Math.min(at + (max - at) * factor, this.#end));
      },
      { passive: false },
    );
    chart.over.addEventListener(
      "mousedown",
      (event) => {
        if (!event.shiftKey) return;
        event.stopImmediatePropagation();
        const [min, max] = this.#span();
        const each = (max - min) / chart.over.clientWidth;
        const drag = (moved: MouseEvent): void => {
          const by = Math.min(Math.max((event.clientX - moved.clientX) * each, -min), Math.max(this.#end - max, 0));
          this.#move(min + by, max + by);
        };
        const done = (): void => {
          removeEventListener("mousemove", drag);
          removeEventListener("mouseup", done);
        };
        addEventListener("mousemove", drag);
        addEventListener("mouseup", done);
      },
      { capture: true },
    );
    chart.over.addEventListener("dblclick", () => this.#move(0, this.#end));
  }
}
