/** The page over a folder of runs: new ones, and those that are there. */
import type { Basis, Between, Listing, RunEntry, Scenario } from "./api";
import { ask } from "./ask";
import { byId, make } from "./dom";
import { Editor } from "./editor";
import { Refused, Stopped } from "./engine";
import { Http } from "./http";
import { Plots } from "./plots";
import { shown } from "./quantity";
import { sweep } from "./sweep";

const filter = byId("filter", HTMLInputElement);
const failed = byId("failed", HTMLElement);
const seed = byId("seed", HTMLInputElement);
const backend = byId("backend", HTMLSelectElement);
const basis = byId("basis", HTMLSelectElement);
const progress = byId("progress", HTMLProgressElement);
const startButton = byId("run", HTMLButtonElement);
const stopButton = byId("stop", HTMLButtonElement);
const state = byId("state", HTMLOutputElement);
const edit = byId("edit", HTMLDetailsElement);

type Entry = Listing["runs"][number];

const SHOWN = ["throughput_bps", "rtt_ns", "queue_delay_ns"];
/** A change that is smaller is not named. */
const SMALL = 0.005;

/** Explanations of verdicts that need one. */
const VERDICTS: Record<string, string> = { unclear: "unclear: may be chance", same: "same, within 1 %", untested: "not tested: too few runs" };

let entries: Entry[] = [];
let quantities: Record<string, string> = {};
let labels: Record<string, string> = {};
let chosen: string[] = [];
let drawn = new Set(SHOWN);

const tell = (error?: unknown): void => {
  failed.hidden = !error;
  failed.textContent = error instanceof Error ? error.message : String(error ?? "");
};

/** Metrics that are shown unless all are wanted. */
const FEW = 6;

const engine = new Http(() => ({ backend: backend.value, seed: seed.value === "" ? null : Number(seed.value) }));
let plots: Plots;
let editor: Editor;

const entry = (id: string): Entry | undefined => entries.find((found) => found.id === id);
const isJob = (id: string): boolean => id.startsWith("job:");
/** The chosen runs that are in the folder. */
const kept = (): RunEntry[] => chosen.map(entry).filter((found) => found?.kind === "run");
const wanted = (): string[] => [...drawn];

// The address holds the selection, so that a page can be bookmarked and shared.
const remember = (): void => {
  const parts = chosen.filter((id) => !isJob(id)).map((id) => `run=${encodeURIComponent(id)}`);
  parts.push(...wanted().map((name) => `show=${name}`));
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
    ? `${found.controllers.join(", ")} · ${found.flows} flow${found.flows > 1 ? "s" : ""} · seed ${found.seed}${found.backend === "emu" ? " · emulated" : found.backend === "vm" ? " · Linux in virtual time" : ""}`
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
  if (chosen.includes(found.id)) button.setAttribute("aria-current", "true");
  make("b", found.id, button);
  make("span", about(found), button);
  if (found.kind === "run") warning(found, button);
  button.addEventListener("click", () => choose([found.id]));
  return item;
};

/** The repeats of a scenario, below its name. */
const group = (name: string, found: Entry[]): HTMLElement => {
  const item = make("li");
  item.className = "group";
  const box = make("details", undefined, item);
  box.open = filter.value !== "" || found.some(({ id }) => chosen.includes(id));
  const summary = make("summary", undefined, box);
  make("b", name, summary);
  make("span", ` ${found.length} runs`, summary);
  const seed = (one: Entry): number => (one.kind === "run" ? one.seed : 0);
  make("ul", undefined, box).append(...found.sort((one, other) => seed(one) - seed(other)).map(row));
  return item;
};

/** Rewrites the list and keeps the focus. */
const list = (): void => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const left = entries.filter((found) => {
    const own = found.kind === "run" ? [...found.controllers, `seed ${found.seed}`, found.backend] : [];
    const text = [found.id, found.scenario, found.kind, ...own].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  byId("count", HTMLElement).textContent = entries.length ? `${left.length} of ${entries.length}` : "";
  const box = byId("runs", HTMLElement);
  const all = (): HTMLElement[] => [...box.querySelectorAll<HTMLElement>("input, button")];
  const focus = all().indexOf(document.activeElement as HTMLElement);
  const groups = new Map<string, Entry[]>();
  for (const found of left) {
    const name = /^(.*)\/seed-\d+$/.exec(found.id)?.[1] ?? found.id;
    groups.set(name, [...(groups.get(name) ?? []), found]);
  }
  box.replaceChildren(...[...groups].map(([name, found]) => (found[1] ? group(name, found) : row(found[0] as Entry))));
  if (focus >= 0) all()[focus]?.focus();
};

/** Fills the table of metrics; of two runs with repeats, with the means that are compared, not with one run beside them. */
const table = (between?: Between): void => {
  const told = kept();
  const means = between?.runs.some((count) => count > 1) ? new Map(between.metrics.map(({ name, old, new: now }) => [name, [old, now]])) : undefined;
  byId("metrics", HTMLElement).hidden = !told.length;
  const untrusted = told.filter(({ beyond }) => beyond.length);
  const banner = byId("untrusted", HTMLElement);
  banner.hidden = !untrusted.length;
  banner.querySelector("ul")?.replaceChildren(...untrusted.flatMap(({ id, beyond }) => beyond.map((reason) => make("li", `${id}: ${reason}`))));
  const head = make("tr");
  make("th", "Metric", head).scope = "col";
  for (const [nth, found] of told.entries()) {
    const cell = make("th", undefined, head);
    cell.scope = "col";
    const link = make("a", found.id, cell);
    link.href = `/report?id=${encodeURIComponent(found.id)}`;
    link.title = "open the report";
    link.target = "_blank";
    if (means) make("span", `, mean of ${between?.runs[nth] ?? 1} runs`, cell);
    warning(found, cell);
  }
  const names = new Set(told.flatMap(({ metrics }) => Object.keys(metrics)));
  const rows = [...names].map((name) => {
    const line = make("tr");
    const title = make("th", labels[name] ?? name, line);
    title.scope = "row";
    title.title = name;
    for (const [nth, { metrics }] of told.entries()) make("td", (means ? means.get(name)?.[nth] : metrics[name]) ?? "–", line);
    return line;
  });
  byId("table", HTMLElement).replaceChildren(head, ...rows);
  byId("more", HTMLElement).hidden = rows.length <= FEW;
  byId("more", HTMLElement).textContent = `All ${rows.length} metrics`;
  const box = byId("manage", HTMLElement);
  box.hidden = told.length !== 1;
};

byId("more", HTMLElement).addEventListener("click", ({ currentTarget }) => {
  const all = byId("table", HTMLElement).classList.toggle("all");
  (currentTarget as HTMLElement).setAttribute("aria-expanded", String(all));
});

/** How often runs have been chosen: an answer about earlier ones is dropped. */
let comparisons = 0;

/** Names what differs between two runs. */
const differences = async (): Promise<void> => {
  const turn = ++comparisons;
  const box = byId("differences", HTMLElement);
  const [old, now, ...more] = kept();
  box.hidden = true;
  if (!old || !now || more.length) return;
  const between = await ask<Between>(`/api/compare?old=${encodeURIComponent(old.id)}&new=${encodeURIComponent(now.id)}`);
  if (turn !== comparisons) return;
  table(between);
  box.hidden = false;
  box.replaceChildren();
  make("h2", `From ${old.id} to ${now.id}`, box);
  const settings = between.settings.map(({ key, old, new: now }) => `${key}: ${old || "not set"} to ${now || "not set"}`);
  if (old.seed !== now.seed && between.runs.every((count) => count === 1)) settings.push(`seed: ${old.seed} to ${now.seed}`);
  make("p", settings.length ? "Settings that differ:" : "The settings are the same.", box);
  const list = make("ul", undefined, box);
  for (const setting of settings) make("li", setting, list);
  const changed = between.metrics.filter(({ change_ratio }) => Math.abs(change_ratio ?? 0) >= SMALL);
  changed.sort((one, other) => Math.abs(other.change_ratio ?? 0) - Math.abs(one.change_ratio ?? 0));
  const tested = between.metrics.some(({ p }) => p !== null);
  const [before = 1, after = 1] = between.runs;
  const said = tested
    ? `Metrics that differ, means over all repeats (${before} and ${after} runs). Seeds on both sides are compared in pairs; p is corrected for the number of metrics (Holm).`
    : "Metrics that differ, one run of each: one run cannot tell an effect from chance; use repeats on both sides.";
  make("p", changed.length ? said : "No metric differs by 0.5 % or more.", box);
  if (!changed.length) return;
  const wide = make("div", undefined, box);
  wide.className = "wide all";
  wide.tabIndex = 0;
  wide.setAttribute("role", "region");
  wide.setAttribute("aria-label", "Metrics that differ");
  const rows = make("table", undefined, wide);
  const titles = ["Metric", "Old", "New", "Change", ...(tested ? ["Difference, 95 % interval", "p", "Verdict"] : [])];
  const head = make("tr", undefined, make("thead", undefined, rows));
  for (const title of titles) make("th", title, head).scope = "col";
  const body = make("tbody", undefined, rows);
  for (const { name, old, new: now, change_ratio, interval, p, verdict } of changed) {
    const line = make("tr", undefined, body);
    make("th", labels[name] ?? name, line).scope = "row";
    const cells = [old, now, `${(change_ratio ?? 0) > 0 ? "+" : ""}${shown((change_ratio ?? 0) * 100)} %`];
    if (tested) cells.push(interval ?? "–", p === null ? "–" : p < 0.0001 ? "< 0.0001" : p.toPrecision(2), VERDICTS[verdict] ?? verdict);
    for (const text of cells) make("td", text, line);
  }
};

const pictures = (): void => {
  const box = byId("pictures", HTMLElement);
  const sweeps = chosen.map(entry).filter((found) => found?.kind === "sweep");
  box.hidden = !sweeps.length;
  box.replaceChildren();
  for (const found of sweeps) {
    make("h2", found.id, box);
    sweep(found.id, labels, make("div", undefined, box), (id, point, nth) => void lead(id, point, nth).catch(tell)).catch(tell);
    if (!found.pictures.length) continue;
    const files = make("p", "Pictures in its folder:", box);
    files.className = "note";
    for (const name of found.pictures) {
      const link = make("a", name, files);
      files.insertBefore(document.createTextNode(" "), link);
      link.href = `/picture?id=${encodeURIComponent(found.id)}&name=${encodeURIComponent(name)}`;
      link.target = "_blank";
    }
  }
};

/** Runs of points that have been made since the page was opened. */
const made = new Map<string, string>();

/** Shows a run of a sweep. A sweep stores only results: the run is repeated, with the same bytes. */
const lead = async (id: string, point: number, nth: number): Promise<void> => {
  if (startButton.disabled) return;
  const key = JSON.stringify([id, point, nth]);
  const before = made.get(key);
  if (before !== undefined && entry(before)) return choose([before]);
  await load(`sweep=${encodeURIComponent(id)}&point=${point}&seed=${nth}`);
  edit.open = true;
  edit.scrollIntoView();
  chosen = [];
  await run();
  const [now] = kept();
  if (now) made.set(key, now.id);
};

const draw = (again = false): Promise<void> => {
  const runs = chosen.filter((id) => isJob(id) || entry(id)?.kind === "run");
  byId("plots", HTMLElement).hidden = !runs.length;
  return plots.show(runs, wanted(), again);
};

const choose = (ids: string[]): Promise<void> => {
  chosen = [...new Set(ids)];
  tell();
  remember();
  list();
  pictures();
  table();
  return Promise.all([draw(), differences()]).then(
    () => undefined,
    (error: unknown) => tell(error),
  );
};

const refresh = async (): Promise<void> => {
  const found = await ask<Listing>("/api/runs");
  entries = found.runs;
  quantities = found.quantities;
  labels = found.labels;
};

// New runs

/** Puts a scenario into the editor. */
const load = async (from: string): Promise<void> => {
  const found = await ask<Scenario>(`/api/scenario?${from}`);
  seed.value = found.seed === null ? "" : String(found.seed);
  backend.value = found.backend;
  editor.edit(found.text);
};

const busy = (now: boolean): void => {
  startButton.disabled = now;
  progress.hidden = stopButton.hidden = !now;
};

const run = async (): Promise<void> => {
  const before = chosen.filter((id) => !isJob(id));
  tell();
  busy(true);
  document.body.dataset["job"] = "running";
  // One after the other: data of a part must not be drawn over data of the whole run.
  let drawing = Promise.resolve();
  const ended = (said: string): void => {
    busy(false);
    state.textContent = said;
    document.body.dataset["job"] = said.split(":")[0] ?? "";
  };
  try {
    const { run: id } = await engine.run(editor.text, {
      progress: ({ simulated_ns, total_ns }) => {
        progress.value = simulated_ns / total_ns;
        const far = `${(simulated_ns / 1e9).toFixed(1)} of ${total_ns / 1e9} s`;
        state.textContent = backend.value === "sim" ? far : `${far}; plots come at its end`;
      },
      more: (job) => {
        chosen = [...before, job];
        drawing = drawing.then(() => draw(true)).catch(tell);
      },
    });
    await drawing;
    await refresh();
    await choose([...before, id]);
    ended(`done: ${id}`);
  } catch (error) {
    chosen = before;
    if (error instanceof Refused) editor.show(error.problems);
    else if (!(error instanceof Stopped)) tell(error);
    ended(error instanceof Stopped ? "stopped" : "failed");
  }
};

/** Fills the form for new runs. */
const form = async (): Promise<void> => {
  const given = await ask<Basis>("/api/basis");
  editor = new Editor({
    schema: given.schema,
    controllers: given.controllers,
    check: (text) => engine.check(text),
    run: () => {
      if (!startButton.disabled) void run();
    },
  });
  for (const { name, about } of given.scenarios) make("option", name, basis).title = about;
  await load("shipped=");
  startButton.disabled = false;
};

/** Lists the runs and draws the latest, or those in the address. */
const results = async (): Promise<void> => {
  await refresh();
  recall();
  plots = new Plots(Object.keys(quantities), engine, tell);
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
  const latest = entries.find(({ kind }) => kind === "run") ?? entries[0];
  // Show a result first; if there is none, the editor.
  edit.open = !latest;
  await choose(chosen.length || !latest ? chosen : [latest.id]);
};

startButton.addEventListener("click", () => void run());
stopButton.addEventListener("click", () => engine.stop());
basis.addEventListener("change", () => void load(`shipped=${encodeURIComponent(basis.value)}`).catch(tell));
byId("change", HTMLButtonElement).addEventListener("click", () => {
  const [only] = kept();
  if (!only) return;
  edit.open = true;
  edit.scrollIntoView();
  formed.then(() => load(`id=${encodeURIComponent(only.id)}`)).catch(tell);
});
byId("delete", HTMLButtonElement).addEventListener("click", () => {
  const [only] = kept();
  if (!only || !confirm(`Delete the run ${only.id} and its folder?`)) return;
  ask("/api/delete", { id: only.id })
    .then(refresh)
    .then(() => choose([]))
    .catch(tell);
});
byId("new", HTMLButtonElement).addEventListener("click", () => {
  edit.open = true;
  byId("toml", HTMLTextAreaElement).focus();
});
filter.addEventListener("input", list);
// Neither waits for the other: the plots of a large run take a second or two.
const formed = form();
Promise.all([results(), formed]).then(() => (document.body.dataset["ready"] = "yes"), tell);
