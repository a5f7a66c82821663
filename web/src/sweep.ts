/** A sweep in the page: a metric over its grid, and the runs of each point. */
import type { GridPoint, Points } from "./api";
import { ask } from "./ask";
import { make } from "./dom";
import { picture } from "./picture";

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

/** A row for each point. */
const rows = (data: Points, chosen: (point: GridPoint) => void): HTMLTableElement => {
  const table = make("table");
  table.className = "grid";
  const head = make("tr", undefined, make("thead", undefined, table));
  for (const axis of [...data.axes, "Mean"]) make("th", axis, head).scope = "col";
  const body = make("tbody", undefined, table);
  for (const point of data.points) {
    const row = make("tr", undefined, body);
    for (const name of point.place) make("td", name, row);
    const button = make("button", point.text, make("td", undefined, row));
    button.type = "button";
    button.setAttribute("aria-label", `${point.place.join(", ")}: ${point.text}`);
    button.addEventListener("click", () => chosen(point));
  }
  return table;
};

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
  wide.append(rows(data, chosen));
};
