/** Code that all plots share. uPlot is in a separate file. */
import type uPlotType from "uplot";

/** Width of a vertical axis with its label. */
export const SIDE = 64;

const FAMILY = 'system-ui, "DejaVu Sans", sans-serif';
const FONT = `12px ${FAMILY}`;

/** The font of text drawn in a plot, where `ratio` pixels of the canvas are one of the page. */
export const small = (ratio: number): string => `${11 * ratio}px ${FAMILY}`;

// Paper is light.
const dark = matchMedia("screen and (prefers-color-scheme: dark)");

export const isDark = (): boolean => dark.matches;

/** Calls `act` when the page turns dark or light. */
export const onTone = (act: () => void): void => dark.addEventListener("change", act);

/** A colour of the page's style, or a default for light pages. */
export const styled = (name: string, light: string): string => getComputedStyle(document.documentElement).getPropertyValue(name) || light;

/** A line's colour where it can be seen: black on dark is white. */
export const tone = (colour: string) => (): string => {
  if (!dark.matches) return colour;
  return colour.replace("#000000", "#ffffff").replace("#666666", "#a8a8a8");
};

export const axis = (label: string, size: number, more: uPlotType.Axis = {}): uPlotType.Axis => ({
  stroke: () => styled("--ink", "#333"),
  grid: { stroke: () => styled("--grid", "#e8e8e8"), width: 1 },
  ticks: { stroke: () => styled("--tick", "#bbb"), width: 1, size: 5 },
  font: FONT,
  labelFont: FONT,
  labelSize: 18,
  label,
  size,
  ...more,
});

export const timeAxis = (): uPlotType.Axis => axis("time (s)", 34);

export const fromZero = (_: uPlotType, __: number, high: number): [number, number] => [0, high > 0 ? high * 1.08 : 1];

/** Plots share where the pointer is, and nothing else: each page zooms in its own way. */
export const cursor = (): uPlotType.Cursor => ({
  drag: { x: true, y: false },
  sync: { key: "time", setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
});

/** The mark of a line in a legend has the line's dashes. */
export const legend: uPlotType.Legend = {
  markers: {
    dash: (u, nth) => {
      const [first] = u.series[nth]?.dash ?? [];
      return first === undefined ? "solid" : first > 4 ? "dashed" : "dotted";
    },
  },
};

/** How a screen shows a dash that paper has. */
export const dashed = (dash: number[]): number[] => dash.map((length) => length * 1.5);
