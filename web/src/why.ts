/** Explains one moment: the state of each flow and what limited it. */
import type { Band, Detail, Drawn, Panel } from "./api";
import { make } from "./dom";
import { seconds, shown } from "./quantity";

/** Losses are counted over this time before the moment. */
const BEFORE_S = 1;
const EVENTS = 5;
/** A value this many times before the moment still holds. */
const NEAR = 10;

/** Where the first time after `t` is, in times that rise. */
const after = (times: number[], t: number): number => {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? Infinity) <= t) low = middle + 1;
    else high = middle;
  }
  return low;
};

const within = (bands: Band[], t: number): string => bands.find(({ start, end }) => start <= t && t < end)?.state ?? "–";

/** The value of a line at a moment, or the last one before it that is near. */
const value = (panel: Panel | undefined, nth: number, t: number): string => {
  const values = panel?.series[nth]?.values;
  if (!panel || !values) return "–";
  const last = after(panel.times, t) - 1;
  for (let at = last; at >= Math.max(last - NEAR, 0); at -= 1) {
    if (values[at] != null) return `${shown(values[at])} ${panel.unit}`;
  }
  return "–";
};

const lost = ({ lost: counts, panels }: Detail, t: number): number => {
  const times = panels[0]?.times ?? [];
  const at = (moment: number): number => counts[Math.max(after(times, moment) - 1, 0)] ?? 0;
  return at(t) - at(t - BEFORE_S);
};

/** Fills the box for the moment `t`. */
export const explain = (box: HTMLElement, data: Drawn, t: number): void => {
  box.hidden = false;
  box.replaceChildren();
  make("h3", `At ${seconds(t)}`, box);
  const rtt = data.overview.find(({ title }) => title.startsWith("Round-trip"));
  const queue = data.overview.find(({ title }) => title.startsWith("Queue"));
  const of = queue?.series.findIndex(({ right }) => right) ?? -1;
  const waiting = queue?.series[of]?.values[Math.max(after(queue.times, t) - 1, 0)];
  if (waiting != null) make("p", `A packet arriving at the bottleneck waits ${shown(waiting)} ${queue?.unitRight ?? ""}.`, box);
  const table = make("table", undefined, box);
  const head = make("tr", undefined, make("thead", undefined, table));
  for (const title of ["Flow", "State", "Limited by", "In flight", "Window", "RTT", "Rate", `Lost in ${BEFORE_S} s`, "Last events"]) make("th", title, head).scope = "col";
  const body = make("tbody", undefined, table);
  data.details.forEach((detail, nth) => {
    const row = make("tr", undefined, body);
    make("th", detail.label, row).scope = "row";
    const [windows, rates] = detail.panels;
    const cells = [within(detail.bands, t), within(detail.limits, t), value(windows, 0, t), value(windows, 1, t), value(rtt, nth, t), value(rates, 0, t), detail.lost.length ? String(lost(detail, t)) : "–"];
    for (const cell of cells) make("td", cell, row);
    const events = make("ul", undefined, make("td", undefined, row));
    const known = data.happenings.filter(({ flow, t: at }) => at <= t && (flow === null || flow === detail.flow));
    for (const { t: at, text } of known.slice(-EVENTS)) make("li", `${seconds(at)} ${text}`, events);
  });
};
