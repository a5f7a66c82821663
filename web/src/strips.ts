/** The states of each flow over time, a row for each. */
import type uPlotType from "uplot";
import type { Detail } from "./api";
import { SIDE, cursor, small, styled, timeAxis } from "./chart";

const ROW = 24;
const AXIS = 60;

/** How a strip is drawn: a colour and, where there is room, the name of each state. */
const paint = (details: Detail[], tints: Record<string, string>) => (u: uPlotType): void => {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio || 1;
  const height = bbox.height / details.length;
  ctx.save();
  ctx.font = small(ratio);
  ctx.textBaseline = "middle";
  details.forEach(({ label, bands }, nth) => {
    const top = bbox.top + nth * height;
    ctx.textAlign = "right";
    ctx.fillStyle = styled("--ink", "#333");
    ctx.fillText(label.length > 9 ? `${label.slice(0, 8)}…` : label, bbox.left - 6 * ratio, top + height / 2);
    ctx.textAlign = "left";
    for (const { start, end, state } of bands) {
      const left = Math.max(u.valToPos(start, "x", true), bbox.left);
      const right = Math.min(u.valToPos(end, "x", true), bbox.left + bbox.width);
      if (right <= left) continue;
      ctx.fillStyle = tints[state] ?? "#ddd";
      ctx.fillRect(left, top + 2 * ratio, Math.max(right - left, 0.5), height - 4 * ratio);
      if (ctx.measureText(state).width + 8 * ratio > right - left) continue;
      ctx.fillStyle = "#1b1b1b";
      ctx.fillText(state, left + 4 * ratio, top + height / 2);
    }
  });
  ctx.restore();
};

export const strips = (details: Detail[], tints: Record<string, string>, width: number, margin: number, box: HTMLElement, follow: (u: uPlotType, key: string) => void): uPlotType =>
  new uPlot(
    {
      title: "States of each flow",
      width,
      height: ROW * details.length + AXIS,
      padding: [null, margin, null, 0],
      scales: { x: { time: false }, y: { range: [0, 1] } },
      axes: [timeAxis(), { size: SIDE, values: () => [], grid: { show: false }, ticks: { show: false } }],
      series: [{}, { show: true, stroke: "transparent", points: { show: false } }],
      cursor: cursor(),
      legend: { show: false },
      hooks: { setScale: [follow], draw: [paint(details, tints)] },
    },
    [
      [0, 1],
      [0, 0],
    ],
    box,
  );
