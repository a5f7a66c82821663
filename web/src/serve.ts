/** The page over a folder of runs. */
import type { JobState, Listing, RunEntry } from "./api";
import { ask } from "./ask";
import { byId, make } from "./dom";
import { follow } from "./job";
import { Plots } from "./plots";

const filter = byId("filter", HTMLInputElement);
const base = byId("base", HTMLSelectElement);
const failed = byId("failed", HTMLElement);

type Entry = Listing["runs"][number];

let entries: Entry[] = [];
let quantities: Record<string, string> = {};
let chosen: string[] = [];
let drawn = new Set(["throughput_bps", "rtt_ns", "queue_delay_ns"]);
let plots: Plots;

const tell = (error?: unknown): void => {
  failed.hidden = !error;
  failed.textContent = error instanceof Error ? error.message : String(error ?? "");
};

const entry = (id: string): Entry | undefined => entries.find((found) => found.id === id);
const isJob = (id: string): boolean => id.startsWith("job:");
/** The chosen runs that are in the folder. */
const kept = (): RunEntry[] => chosen.map(entry).filter((found) => found?.kind === "run");
const shown = (): string[] => [...drawn];

// What is chosen stands in the address, so that a page can be gone back to and passed on.
const remember = (): void => {
  const parts = chosen.filter((id) => !isJob(id)).map((id) => `run=${encodeURIComponent(id)}`);
  parts.push(...shown().map((name) => `show=${name}`));
  history.replaceState(null, "", `#${parts.join("&")}`);
};
const recall = (): void => {
  const said = new URLSearchParams(location.hash.slice(1));
  chosen = said.getAll("run").filter(entry);
  const names = said.getAll("show").filter((name) => name in quantities);
  if (names.length) drawn = new Set(names);
};

const warning = (found: RunEntry, inside: Element): void => {
  if (!found.beyond.length) return;
  const mark = make("em", "not to be trusted", inside);
  mark.title = found.beyond.join("\n");
};

const about = (found: Entry): string =>
  found.kind === "run"
    ? `${found.controllers.join(", ")} · ${found.flows} flow${found.flows > 1 ? "s" : ""} · seed ${found.seed}${found.backend === "emu" ? " · emulated" : ""}`
    : `sweep of ${found.runs} runs over ${found.axes.join(" and ")}`;

const row = (found: Entry): HTMLElement => {
  const item = make("li");
  item.classList.toggle("chosen", chosen.includes(found.id));
  const tick = make("input", undefined, item);
  tick.type = "checkbox";
  tick.checked = chosen.includes(found.id);
  tick.setAttribute("aria-label", `lay over: ${found.id}`);
  tick.addEventListener("change", () => choose(tick.checked ? [...chosen, found.id] : chosen.filter((id) => id !== found.id)));
  const button = make("button", undefined, item);
  make("b", found.id, button);
  make("span", about(found), button);
  if (found.kind === "run") warning(found, button);
  button.addEventListener("click", () => choose([found.id]));
  return item;
};

const list = (): void => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const left = entries.filter((found) => {
    const own = found.kind === "run" ? [...found.controllers, `seed ${found.seed}`, found.backend] : [];
    const text = [found.id, found.scenario, found.kind, ...own].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  byId("count", HTMLElement).textContent = `${left.length} of ${entries.length}`;
  byId("runs", HTMLElement).replaceChildren(...left.map(row));
};

const table = (): void => {
  const told = kept();
  byId("metrics", HTMLElement).hidden = !told.length;
  const untrusted = told.filter(({ beyond }) => beyond.length);
  const banner = byId("untrusted", HTMLElement);
  banner.hidden = !untrusted.length;
  banner.querySelector("ul")?.replaceChildren(...untrusted.flatMap(({ id, beyond }) => beyond.map((reason) => make("li", `${id}: ${reason}`))));
  const head = make("tr");
  make("th", "metric", head);
  for (const found of told) {
    const cell = make("th", undefined, head);
    const link = make("a", found.id, cell);
    link.href = `/report?id=${encodeURIComponent(found.id)}`;
    link.title = "open the report";
    link.target = "_blank";
    warning(found, cell);
  }
  const names = new Set(told.flatMap(({ metrics }) => Object.keys(metrics)));
  const rows = [...names].map((name) => {
    const line = make("tr");
    make("td", name, line);
    for (const { metrics } of told) make("td", metrics[name] ?? "–", line);
    return line;
  });
  byId("table", HTMLElement).replaceChildren(head, ...rows);
};

const pictures = (): void => {
  const box = byId("pictures", HTMLElement);
  const sweeps = chosen.map(entry).filter((found) => found?.kind === "sweep");
  box.hidden = !sweeps.length;
  box.replaceChildren();
  for (const found of sweeps) {
    make("h2", found.id, box);
    for (const name of found.pictures) {
      const image = make("img", undefined, box);
      image.alt = name;
      image.src = `/picture?id=${encodeURIComponent(found.id)}&name=${encodeURIComponent(name)}`;
    }
  }
};

const draw = (again = false): Promise<void> => {
  const runs = chosen.filter((id) => isJob(id) || entry(id)?.kind === "run");
  byId("plots", HTMLElement).hidden = !runs.length;
  return plots.show(runs, shown(), again);
};

const form = (): void => {
  const told = kept();
  byId("change", HTMLElement).hidden = !told.length;
  const before = base.value;
  base.replaceChildren(...told.map(({ id }) => make("option", id)));
  if (told.some(({ id }) => id === before)) base.value = before;
};

const choose = (ids: string[]): Promise<void> => {
  chosen = [...new Set(ids)];
  byId("hint", HTMLElement).hidden = chosen.length > 0;
  tell();
  remember();
  list();
  form();
  pictures();
  table();
  return draw().catch(tell);
};

const refresh = async (): Promise<void> => {
  const found = await ask<Listing>("/api/runs");
  entries = found.runs;
  quantities = found.quantities;
};

const again = async (): Promise<void> => {
  const set = byId("set", HTMLTextAreaElement)
    .value.split("\n")
    .filter((line) => line.trim())
    .map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`KEY = VALUE, not: ${line}`);
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    });
  const said = byId("seed", HTMLInputElement).value;
  const job = await ask<JobState>("/api/run", { id: base.value, set, seed: said === "" ? null : Number(said) });
  const before = chosen.filter((id) => !isJob(id));
  follow(job, {
    tell,
    more: (run) => {
      chosen = [...before, run];
      return draw(true);
    },
    done: async (run) => {
      await refresh();
      await choose([...before, run]);
    },
  });
};

const start = async (): Promise<void> => {
  await refresh();
  recall();
  plots = new Plots(Object.keys(quantities), tell);
  for (const [name, title] of Object.entries(quantities)) {
    const label = make("label", undefined, byId("quantities", HTMLElement));
    const tick = make("input", undefined, label);
    tick.type = "checkbox";
    tick.checked = drawn.has(name);
    label.append(` ${title}`);
    tick.addEventListener("change", () => {
      drawn[tick.checked ? "add" : "delete"](name);
      remember();
      draw(true).catch(tell);
    });
  }
  if (!entries.length) byId("hint", HTMLElement).textContent = "There are no runs here yet: `paceline run FILE` makes one.";
  await choose(chosen);
  document.body.dataset["ready"] = "yes";
};

byId("again", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  tell();
  again().catch(tell);
});
filter.addEventListener("input", list);
start().catch(tell);
