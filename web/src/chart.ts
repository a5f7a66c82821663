/** What all plots have in common. uPlot comes in a file of its own. */
import type uPlotType from "uplot";

/** Width of a vertical axis with its label. */
export const SIDE = 64;

const FONT = '12px system-ui, "DejaVu Sans", sans-serif';

export const axis = (label: string, size: number, more: uPlotType.Axis = {}): uPlotType.Axis => ({
  stroke: "#333",
  grid: { stroke: "#e8e8e8", width: 1 },
  ticks: { stroke: "#bbb", width: 1, size: 5 },
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

/** How a screen shows a dash that paper has. */
export const dashed = (dash: number[]): number[] => dash.map((length) => length * 1.5);
