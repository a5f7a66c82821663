/** The page over a folder of runs: new ones, and those that are there. */
import type { Basis, Between, Change, Listing, RunEntry, Scenario, Side as Told } from "./api";
import { ask } from "./ask";
import { byId, grouped, make } from "./dom";
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

const engine = new Http(() => ({ backend: backend.value, seed: seed.value === "" ? null : Number(seed.value), name: byId("name", HTMLInputElement).value }));
let plots: Plots;
let editor: Editor;

const entry = (id: string): Entry | undefined => entries.find((found) => found.id === id);
const isJob = (id: string): boolean => id.startsWith("job:");
/** The chosen runs that are in the folder. */
const kept = (): RunEntry[] => chosen.map(entry).filter((found) => found?.kind === "run");
const wanted = (): string[] => [...drawn];

/** What the repeats of a run have in common. */
const series = (id: string): string => id.replace(/\/seed-\d+$/, "");
/** How often each name would be given without the hash of settings. */
const given = new Map<string, Set<string>>();
const short = (name: string): string => name.replace(/-(\d+(to\d+)?|sweep)-[0-9a-f]{6}(?=\/|$)/, "");
/** The name of a run: its folder, without a hash that it does not need. */
const called = (id: string): string => (given.get(short(series(id)))?.size === 1 ? short(id) : id);

/** What is compared: a run, or repeats that are all chosen. */
interface Side {
  name: string;
  runs: RunEntry[];
  told?: Told;
}
const sides = (): Side[] => {
  const found = new Map<string, RunEntry[]>();
  for (const one of kept()) {
    const all = entries.filter((other): other is RunEntry => other.kind === "run" && series(other.id) === series(one.id));
    if (all.length > 1 && all.every(({ id }) => chosen.includes(id))) found.set(series(one.id), all);
    else found.set(one.id, [one]);
  }
  return [...found].map(([name, runs]) => ({ name, runs }));
};

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
    ? `${found.controllers.join(", ")} · ${found.flows} flow${found.flows > 1 ? "s" : ""}${found.backend === "emu" ? " · emulated" : found.backend === "vm" ? " · Linux in virtual time" : ""}`
    : `sweep of ${found.runs} runs over ${found.axes.join(" and ")}`;

/** What is in the list under one name: a run, a sweep, or all repeats of a run. */
const row = (name: string, said: string, found: Entry[]): HTMLElement => {
  const ids = found.map(({ id }) => id);
  const item = make("li");
  const all = ids.every((id) => chosen.includes(id));
  item.classList.toggle("chosen", all);
  const tick = make("input", undefined, item);
  tick.type = "checkbox";
  tick.checked = all;
  tick.setAttribute("aria-label", `lay over: ${name}`);
  tick.addEventListener("change", () => choose(tick.checked ? [...chosen, ...ids] : chosen.filter((id) => !ids.includes(id))));
  const button = make("button", undefined, item);
  if (all) button.setAttribute("aria-current", "true");
  make("b", name, button).title = name === ids[0] ? "" : series(ids[0] ?? "");
  make("span", said, button);
  for (const one of found) if (one.kind === "run") warning(one, button);
  button.addEventListener("click", () => choose(ids));
  return item;
};

/** The repeats of a scenario, below its name. */
const group = (name: string, found: RunEntry[]): HTMLElement => {
  const [first] = found as [RunEntry];
  const item = row(called(name), `${found.length} repeats · ${about(first)}`, found);
  const box = make("details", undefined, item);
  box.open = filter.value !== "" || (!item.classList.contains("chosen") && found.some(({ id }) => chosen.includes(id)));
  make("summary", "Seeds", box);
  const one = [...found].sort((one, other) => one.seed - other.seed).map((run) => row(called(run.id), `seed ${run.seed}`, [run]));
  make("ul", undefined, box).append(...one);
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
  const groups = grouped(left, ({ id }) => series(id));
  const single = (found: Entry): HTMLElement => row(called(found.id), `${about(found)}${found.kind === "run" ? ` · seed ${found.seed}` : ""}`, [found]);
  box.replaceChildren(...[...groups].map(([name, found]) => (found[1] ? group(name, found as RunEntry[]) : single(found[0] as Entry))));
  if (focus >= 0) all()[focus]?.focus();
};

const report = (link: HTMLAnchorElement, [run]: RunEntry[]): void => {
  link.href = `/report?id=${encodeURIComponent(run?.id ?? "")}`;
  link.title = "open the report";
  link.target = "_blank";
};

/** The page's head and its table of metrics; of two sides, with how they differ. */
const table = (shown: Side[], between?: Between): void => {
  const box = byId("table", HTMLElement);
  byId("metrics", HTMLElement).hidden = byId("head", HTMLElement).hidden = !shown.length;
  byId("manage", HTMLElement).hidden = shown.length !== 1;
  byId("title", HTMLElement).textContent = shown.length > 3 ? `${shown.length} runs` : shown.map(({ name, runs }) => called(name) + (runs[1] ? ` (${runs.length} repeats)` : "")).join(" and ");
  byId("delete", HTMLElement).hidden = byId("report", HTMLElement).hidden = shown[0]?.runs.length !== 1;
  report(byId("report", HTMLAnchorElement), shown[0]?.runs ?? []);
  const untrusted = kept().filter(({ beyond }) => beyond.length);
  const banner = byId("untrusted", HTMLElement);
  banner.hidden = !untrusted.length;
  banner.querySelector("ul")?.replaceChildren(...untrusted.flatMap(({ id, beyond }) => beyond.map((reason) => make("li", `${id}: ${reason}`))));
  box.classList.toggle("one", shown.length === 1);
  const changes = new Map(between?.metrics.map((change) => [change.name, change]));
  const means = between?.runs.some((count) => count > 1);
  const tested = between?.metrics.some(({ p }) => p !== null);
  const head = make("tr");
  make("th", "Metric", head).scope = "col";
  for (const [nth, { name, runs, told }] of shown.entries()) {
    const cell = make("th", undefined, head);
    cell.scope = "col";
    if (runs.length === 1) report(make("a", called(name), cell), runs);
    else cell.append(called(name));
    const count = means ? (between?.runs[nth] ?? 1) : (told?.runs ?? 1);
    if (means || count > 1) make("span", `, mean of ${count} runs`, cell);
    for (const run of runs) warning(run, cell);
  }
  for (const title of between ? ["Change", ...(tested ? ["Difference, 95 % interval", "p", "Verdict"] : [])] : []) make("th", title, head).scope = "col";
  const titles = [...head.cells].map(({ textContent }) => textContent);
  const names = new Set(shown.flatMap(({ runs }) => Object.keys(runs[0]?.metrics ?? {})));
  const rows = [...names].map((name) => {
    const line = make("tr");
    const title = make("th", labels[name] ?? name, line);
    title.scope = "row";
    title.title = name;
    const change = changes.get(name);
    const cells = shown.map(({ runs, told }, nth) => (means ? change?.[nth ? "new" : "old"] : (told?.metrics ?? runs[0]?.metrics)?.[name]) ?? "–");
    if (between) cells.push(change?.change_ratio == null ? "–" : percent(change));
    if (tested) cells.push(change?.interval ?? "–", change?.p == null ? "–" : change.p < 0.0001 ? "< 0.0001" : change.p.toPrecision(2), VERDICTS[change?.verdict ?? ""] ?? change?.verdict ?? "–");
    for (const [nth, text] of cells.entries()) {
      const [mean, spread] = text.split(/ (?=\()/);
      const cell = make("td", mean, line);
      cell.dataset["title"] = titles[nth + 1];
      if (spread) make("span", ` ${spread}`, cell);
    }
    return line;
  });
  box.replaceChildren(head, ...rows);
  byId("more", HTMLElement).hidden = rows.length <= FEW;
  byId("more", HTMLElement).textContent = `All ${rows.length} metrics`;
};

const percent = ({ change_ratio }: Change): string => `${(change_ratio ?? 0) > 0 ? "+" : ""}${shown((change_ratio ?? 0) * 100)} %`;

byId("more", HTMLElement).addEventListener("click", ({ currentTarget }) => {
  const all = byId("table", HTMLElement).classList.toggle("all");
  (currentTarget as HTMLElement).setAttribute("aria-expanded", String(all));
});

/** How often runs have been chosen: an answer about earlier ones is dropped. */
let comparisons = 0;

/** Says what came of a run or of its repeats, or in what two of these differ. */
const results = async (): Promise<void> => {
  const turn = ++comparisons;
  const found = sides();
  table(found);
  const said = byId("verdict", HTMLElement);
  said.textContent = "";
  const [one, other] = found;
  const wish = (path: string, side: Side): string => `${path}=${encodeURIComponent(side.runs[0]?.id ?? "")}`;
  await Promise.all(
    found
      .filter(({ runs }) => found.length === 1 || runs.length > 1)
      .map(async (side) => (side.told = await ask<Told>(`/api/side?${wish("id", side)}${side.runs.length > 1 ? "&repeats=yes" : ""}`))),
  );
  const between = one && other && found.length === 2 ? await ask<Between>(`/api/compare?${wish("old", one)}&${wish("new", other)}`) : undefined;
  if (turn !== comparisons) return;
  table(found, between);
  said.classList.toggle("failed", !between && (one?.told?.failed ?? false));
  said.textContent = between && one && other ? compared(between, one, other) : found.length === 1 ? (one?.told?.verdict ?? "") : "";
};

/** In what two sides differ, in sentences. */
const compared = ({ settings, metrics, runs }: Between, old: Side, now: Side): string => {
  const lone = runs.every((count) => count === 1);
  const [one, other] = [old.runs[0], now.runs[0]];
  const set = settings.map(({ key, old, new: now }) => `${key}: ${old || "not set"} to ${now || "not set"}`);
  if (one && other && one.seed !== other.seed && lone) set.push(`seed: ${one.seed} to ${other.seed}`);
  const changed = metrics.filter(({ change_ratio }) => Math.abs(change_ratio ?? 0) >= SMALL);
  const first = Object.keys(one?.metrics ?? {}).slice(0, FEW);
  const main = changed.filter(({ name }) => first.includes(name)).map((change) => `${labels[change.name] ?? change.name} ${percent(change)}${change.p === null ? "" : ` (${change.verdict})`}`);
  const how = metrics.every(({ p }) => p === null) ? "One run cannot tell an effect from chance: use repeats on both sides." : `Means of ${runs.join(" and ")} runs; seeds on both sides are compared in pairs, and p is corrected for the number of metrics (Holm).`;
  return `${set.length ? `Settings that differ: ${set.join("; ")}` : "The settings are the same"}. ${changed.length ? `${main.join(", ") || "None of the first six metrics changes by 0.5 % or more"}. ${how}` : "No metric differs by 0.5 % or more."}`;
};

const pictures = (): void => {
  const box = byId("pictures", HTMLElement);
  const sweeps = chosen.map(entry).filter((found) => found?.kind === "sweep");
  box.hidden = !sweeps.length;
  box.replaceChildren();
  for (const found of sweeps) {
    make("h2", called(found.id), box);
    const files = make("p", undefined, box);
    const button = make("button", "Rename", files);
    button.addEventListener("click", () => void rename(found.id).catch(tell));
    for (const name of found.pictures) {
      files.append(" ");
      const link = make("a", name, files);
      link.href = `/picture?id=${encodeURIComponent(found.id)}&name=${encodeURIComponent(name)}`;
      link.target = "_blank";
      // The page draws no more than two axes itself.
      if (found.axes.length > 2 && !name.endsWith(".svg")) Object.assign(make("img", undefined, link), { src: link.href, alt: "" });
    }
    sweep(found.id, labels, make("div", undefined, box), (id, point, nth) => void lead(id, point, nth).catch(tell)).catch(tell);
  }
};

/** Shows a run of a sweep. A sweep stores only results: the run is repeated, with the same bytes. */
const lead = async (id: string, point: number, nth: number): Promise<void> => {
  if (startButton.disabled) return;
  await load(`sweep=${encodeURIComponent(id)}&point=${point}&seed=${nth}`);
  edit.open = true;
  edit.scrollIntoView();
  chosen = [];
  await run();
};

const draw = (again = false): Promise<void> => {
  const runs = chosen.filter((id) => isJob(id) || entry(id)?.kind === "run");
  byId("plots", HTMLElement).hidden = !runs.length;
  byId("several", HTMLElement).hidden = runs.length < 2;
  plots.apart = byId("apart", HTMLInputElement).checked;
  return plots.show(runs, wanted(), again);
};

const choose = (ids: string[]): Promise<void> => {
  chosen = [...new Set(ids)];
  tell();
  remember();
  list();
  pictures();
  return Promise.all([draw(), results()]).then(
    () => undefined,
    (error: unknown) => tell(error),
  );
};

const refresh = async (): Promise<void> => {
  const found = await ask<Listing>("/api/runs");
  entries = found.runs;
  quantities = found.quantities;
  labels = found.labels;
  given.clear();
  for (const { id } of entries) given.set(short(series(id)), (given.get(short(series(id))) ?? new Set()).add(series(id)));
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
const start = async (): Promise<void> => {
  await refresh();
  recall();
  plots = new Plots(Object.keys(quantities), engine, tell, called);
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
const rename = async (name: string): Promise<void> => {
  const wish = prompt(`New name of ${name}`, called(name).split("/").at(-1));
  if (!wish) return;
  const now = await ask<string>("/api/rename", { id: name, name: wish });
  await refresh();
  await choose(chosen.map((id) => (series(id) === name || id === name ? now + id.slice(name.length) : id)));
};

/** Does something with the only side that is chosen. */
const act = (id: string, what: (side: Side) => Promise<unknown>): void =>
  byId(id, HTMLButtonElement).addEventListener("click", () => {
    const [only] = sides();
    if (only) what(only).catch(tell);
  });
act("change", async ({ runs }) => {
  edit.open = true;
  edit.scrollIntoView();
  await formed;
  await load(`id=${encodeURIComponent(runs[0]?.id ?? "")}`);
});
act("rename", ({ name }) => rename(name));
act("delete", async ({ name }) => {
  if (!confirm(`Delete the run ${name} and its folder?`)) return;
  await ask("/api/delete", { id: name });
  await refresh();
  await choose([]);
});
byId("apart", HTMLInputElement).addEventListener("change", () => draw(true).catch(tell));
byId("new", HTMLButtonElement).addEventListener("click", () => {
  edit.open = true;
  byId("toml", HTMLTextAreaElement).focus();
});
filter.addEventListener("input", list);
// Neither waits for the other: the plots of a large run take a second or two.
const formed = form();
Promise.all([start(), formed]).then(() => (document.body.dataset["ready"] = "yes"), tell);
