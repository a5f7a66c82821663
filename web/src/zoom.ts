/** One window of time for all plots of a page. It is part of the page's address. */
import type uPlotType from "uplot";

export type Span = [from: number, to: number];

const KEY = /(?:^|[#&])zoom=(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)/;

/** How close to the visible part of the page a plot is drawn, in pixels. */
const NEAR = 300;

export class Zoom {
  readonly #plots = new Set<uPlotType>();
  /** Plots near the visible part of the page, and those still to be updated: a page has dozens. */
  readonly #near = new Set<uPlotType>();
  readonly #behind = new Set<uPlotType>();
  readonly #watch: IntersectionObserver;
  readonly #moved: (span: Span) => void;
  readonly end: number;
  #view: Span;

  constructor(end: number, moved: (span: Span) => void) {
    this.end = end;
    this.#moved = moved;
    const said = KEY.exec(location.hash);
    const [from, to] = [Number(said?.[1]), Number(said?.[2])];
    this.#view = said && from < to && from < end ? [from, Math.min(to, end)] : [0, end];
    this.#watch = new IntersectionObserver((seen) => this.#moveTo(seen), { rootMargin: `${NEAR}px` });
    addEventListener("beforeprint", () => this.#catchUp(this.#behind));
  }

  #moveTo(seen: IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of seen) {
      const plot = [...this.#plots].find(({ root }) => root === target);
      if (plot) this.#near[isIntersecting ? "add" : "delete"](plot);
    }
    this.#catchUp(this.#near);
  }

  /** Shows the window in those of these plots that have not followed it. */
  #catchUp(plots: Set<uPlotType>): void {
    const [min, max] = this.#view;
    for (const plot of [...plots]) if (this.#behind.delete(plot)) plot.setScale("x", { min, max });
  }

  get view(): Span {
    return this.#view;
  }

  /** Shows this span in all plots. */
  to(from: number, to: number): void {
    const length = Math.min(Math.max(to - from, 1e-4), this.end);
    const start = Math.min(Math.max(from, 0), this.end - length);
    if (start === this.#view[0] && start + length === this.#view[1]) return;
    this.#view = [start, start + length];
    for (const plot of this.#plots) this.#behind.add(plot);
    this.#catchUp(this.#near);
    const whole = start === 0 && length === this.end;
    const zoom = whole ? "" : `#zoom=${start.toFixed(4)}-${(start + length).toFixed(4)}`;
    if (zoom || KEY.test(location.hash)) history.replaceState(null, "", zoom || location.pathname + location.search);
    this.#moved(this.#view);
  }

  /** Zooms by a factor round the middle. */
  by(factor: number): void {
    const [from, to] = this.#view;
    const [middle, half] = [(from + to) / 2, ((to - from) / 2) * factor];
    this.to(middle - half, middle + half);
  }

  /** Moves by a fraction of the visible span. */
  shift(part: number): void {
    const [from, to] = this.#view;
    const by = Math.min(Math.max((to - from) * part, -from), this.end - to);
    this.to(from + by, to + by);
  }

  whole(): void {
    this.to(0, this.end);
  }

  /** Adds a plot that follows the window. */
  add(plot: uPlotType): void {
    this.#plots.add(plot);
    const [min, max] = this.#view;
    plot.setScale("x", { min, max });
    this.#watch.observe(plot.root);
    plot.over.addEventListener("dblclick", () => this.whole());
  }

  drop(plot: uPlotType): void {
    for (const plots of [this.#plots, this.#near, this.#behind]) plots.delete(plot);
    this.#watch.unobserve(plot.root);
    plot.destroy();
  }

  /** The hook for a plot's changes of scale. */
  readonly follow = (plot: uPlotType, key: string): void => {
    const { min, max } = plot.scales[key] ?? {};
    if (key === "x" && this.#plots.has(plot) && !this.#behind.has(plot) && min != null && max != null) this.to(min, max);
  };

  redraw(): void {
    for (const plot of this.#plots) plot.redraw(false);
  }

  resize(width: (plot: uPlotType) => number): void {
    for (const plot of this.#plots) plot.setSize({ width: width(plot), height: plot.height });
  }

  /** Keys for all of it, while the focus is in `box`. */
  keys(box: HTMLElement): void {
    const acts: Record<string, () => void> = {
      "+": () => this.by(0.5),
      "=": () => this.by(0.5),
      "-": () => this.by(2),
      "0": () => this.whole(),
      ArrowLeft: () => this.shift(-0.25),
      ArrowRight: () => this.shift(0.25),
    };
    box.addEventListener("keydown", (event) => {
      const act = acts[event.key];
      const typing = event.target instanceof HTMLSelectElement || event.target instanceof HTMLInputElement;
      if (!act || event.ctrlKey || event.metaKey || event.altKey || typing) return;
      event.preventDefault();
      act();
    });
  }
}
