/** A sweep in the page: a metric over its grid, and the runs of each point. */
import type { GridPoint, Points } from "./api";
import { ask } from "./ask";
import { make } from "./dom";
import { picture } from "./picture";

/** Blue to yellow: lightness alone distinguishes the values. */
const SCALE: [number, number, number][] = [
  [0, 34, 78],
  [63, 74, 107],
  [124, 123, 120],
  [186, 175, 111],
  [254, 232, 56],
];

/** The colour of a value from 0 to 1, and that of a text on it. */
export const shade = (part: number): [string, string] => {
  const at = Math.min(Math.max(part, 0), 1) * (SCALE.length - 1);
  const [below, above] = [SCALE[Math.floor(at)] ?? [0, 0, 0], SCALE[Math.ceil(at)] ?? [0, 0, 0]];
  const mixed = below.map((value, nth) => Math.round(value + ((above[nth] ?? 0) - value) * (at % 1)));
  return [`rgb(${mixed.join(",")})`, at >= 2 ? "#000" : "#fff"];
};

/** Called when the user requests a run of a point. */
export type Lead = (sweep: string, point: number, seed: number) => void;

/** The runs of a point, each a button. */
const seeds = (box: HTMLElement, id: string, data: Points, point: GridPoint, lead: Lead): void => {
  box.replaceChildren();
  make("b", `${data.axes.map((axis, nth) => `${axis} = ${point.place[nth] ?? ""}`).join(", ")}: ${point.text}`, box);
  const bar = make("p", "Runs: ", box);
  bar.className = "bar";
  for (const seed of data.seeds) {
    const button = make("button", `seed ${seed}`, bar);
    button.type = "button";
    button.addEventListener("click", () => lead(id, point.point, seed));
  }
};

/** A table of values: the last axis runs across, the others down. */
const grid = (data: Points, chosen: (point: GridPoint) => void): HTMLTableElement => {
  const table = make("table");
  table.className = "grid";
  const means = data.points.flatMap(({ mean }) => (mean === null ? [] : [mean]));
  const [low, high] = [means.reduce((a, b) => Math.min(a, b), Infinity), means.reduce((a, b) => Math.max(a, b), -Infinity)];
  const across = [...new Set(data.points.map(({ place }) => place.at(-1) ?? ""))];
  const outer = data.axes.slice(0, -1);
  const top = make("thead", undefined, table);
  const title = make("tr", undefined, top);
  if (outer.length) make("td", undefined, title).colSpan = outer.length;
  const last = make("th", data.axes.at(-1) ?? "", title);
  last.colSpan = across.length;
  last.scope = "colgroup";
  const head = make("tr", undefined, top);
  for (const axis of outer) make("th", axis, head).scope = "col";
  for (const name of across) make("th", name, head).scope = "col";
  const body = make("tbody", undefined, table);
  const rows = new Map<string, HTMLTableRowElement>();
  for (const point of data.points) {
    const places = point.place.slice(0, -1);
    const key = JSON.stringify(places);
    let row = rows.get(key);
    if (!row) {
      row = make("tr", undefined, body);
      rows.set(key, row);
      for (const name of places) make("th", name, row).scope = "row";
    }
    const button = make("button", point.text, make("td", undefined, row));
    button.type = "button";
    button.setAttribute("aria-label", `${point.place.join(", ")}: ${point.text}`);
    if (point.mean !== null) [button.style.background, button.style.color] = shade(high > low ? (point.mean - low) / (high - low) : 0.5);
    button.addEventListener("click", () => chosen(point));
  }
  return table;
};

/** Points one below the other: draws of a population, or the ends of a large grid. */
const ranked = (data: Points, chosen: (point: GridPoint) => void): HTMLTableElement => {
  const table = make("table");
  table.className = "grid";
  const head = make("tr", undefined, make("thead", undefined, table));
  for (const axis of data.axes) make("th", axis, head).scope = "col";
  make("th", "Mean", head).scope = "col";
  const body = make("tbody", undefined, table);
  for (const point of [...data.points].sort((one, other) => (one.mean ?? 0) - (other.mean ?? 0))) {
    const row = make("tr", undefined, body);
    for (const name of point.place) make("td", name, row);
    const button = make("button", point.text, make("td", undefined, row));
    button.type = "button";
    button.addEventListener("click", () => chosen(point));
  }
  return table;
};

/** The most columns of a grid; of more, points are listed one below the other. */
const ACROSS = 12;

/** Shows a sweep as a picture and as a table, both of which lead to the runs. */
export const sweep = async (id: string, labels: Record<string, string>, into: HTMLElement, lead: Lead, metric = ""): Promise<void> => {
  const data = await ask<Points>(`/api/points?id=${encodeURIComponent(id)}&metric=${encodeURIComponent(metric)}`);
  into.replaceChildren();
  const label = make("label", "Metric ", make("p", undefined, into));
  const choice = make("select", undefined, label);
  for (const name of data.metrics) {
    const option = make("option", labels[name] ?? name, choice);
    option.value = name;
    option.selected = name === data.metric;
  }
  choice.addEventListener("change", () => {
    void sweep(id, labels, into, lead, choice.value).then(() => into.querySelector("select")?.focus());
  });
  const many = data.seeds.length > 1;
  const few = data.points.length < data.total;
  const note = `${many ? `Mean of ${data.seeds.length} seeds. ` : ""}${few ? `The ${data.points.length} points of ${data.total.toLocaleString("en")} with the lowest and the highest values. ` : ""}Choose a ${data.picture ? "mark or a " : ""}value to see its runs.`;
  make("p", note, into).className = "note";
  const drawn = make("figure", undefined, into);
  drawn.className = "wide";
  drawn.hidden = !data.picture;
  const runs = make("div", undefined, into);
  runs.className = "seeds";
  runs.setAttribute("aria-live", "polite");
  const wide = make("div", undefined, into);
  wide.className = "wide all";
  wide.tabIndex = 0;
  wide.setAttribute("role", "region");
  wide.setAttribute("aria-label", `${labels[data.metric] ?? data.metric} over the sweep`);
  const chosen = (point: GridPoint): void => {
    seeds(runs, id, data, point, lead);
    runs.scrollIntoView({ block: "nearest" });
  };
  const named = data.points.map(({ place, text }) => `${place.join(", ")}: ${text}`);
  if (data.picture) picture(drawn, data.picture, named, (nth) => data.points[nth] && chosen(data.points[nth]));
  const across = new Set(data.points.map(({ place }) => place.at(-1))).size;
  wide.append(few || across > ACROSS ? ranked(data, chosen) : grid(data, chosen));
};
