/** The laboratory in a browser: a scenario, its run in a worker, its plots, and ten lessons. */
import type uPlotType from "uplot";
import { SIDE, axis, cursor, dashed, fromZero, timeAxis } from "./chart";
import { byId, make, settled } from "./dom";
import type { Order, Problem, Ran, Summary, Tables, Told } from "./engine";
import { attach, complete, type Schema } from "./complete";
import { packed, unpacked } from "./link";
import { seconds, shown } from "./quantity";
import { count, read, write, type Place } from "./toml";

interface Lesson {
  id: string;
  title: string;
  text: string;
  toml: string;
  /** The scenario with the change. */
  changed: string;
  /** Digests of the native runs of both. */
  digests: [string, string];
  do: string;
  question: string;
  answers: string[];
  right: number;
  why: string;
}

/** What the page is built with. */
interface Built {
  lessons: Lesson[];
  controllers: string[];
  version: string;
  /** A controller to start from. */
  template: string;
  schema: Schema;
}

/** What a run leaves to be drawn. */
interface Result {
  text: string;
  summary: Summary;
  tables: Tables;
}

declare global {
  interface Window {
    /** The simulator, compressed, and its worker's source. */
    paceline: { wasm: string; worker: string; built: Built };
  }
}

const { wasm, worker: source, built } = window.paceline;

const editor = byId("toml", HTMLTextAreaElement);
const own = byId("own", HTMLTextAreaElement);
const problems = byId("problems", HTMLElement);
const state = byId("state", HTMLOutputElement);
const progress = byId("progress", HTMLProgressElement);
const start = byId("run", HTMLButtonElement);
const stop = byId("stop", HTMLButtonElement);
const plots = byId("plots", HTMLElement);

const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000"];
const DASHES = [[], [8, 3], [2, 2], [8, 3, 2, 3]];
const COLUMNS = ["samples.flow", "samples.t_ns", "samples.goodput_bytes", "samples.rtt_ns", "samples.in_flight_bytes", "queue.link", "queue.t_ns", "queue.delay_ns"];
const BUCKETS = 500;
/** Lines of more flows cannot be told apart. */
const MANY = 20;
const HEIGHT = 220;

// The worker

let engine: Worker | null = null;
let binary: ArrayBuffer | null = null;
let ready: Promise<void> | null = null;
let running = "";
/** The last run, and the one before it. */
let last: Result | null = null;
let before: Result | null = null;

const inflated = async (): Promise<ArrayBuffer> => {
  const octets = Uint8Array.from(atob(wasm), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([octets]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
};

const send = (order: Order): void => engine?.postMessage(order);

/** The controller of the page, if the scenario names it. */
const controller = (): string => (editor.value.includes('"mine"') ? own.value : "");

/** Starts a worker; it replaces one that was ended. */
const begin = (): Promise<void> => {
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const made = new Worker(address);
  engine = made;
  return new Promise((resolve, reject) => {
    made.addEventListener("message", ({ data }: MessageEvent<Told>) => {
      if ("ready" in data) resolve();
      else hear(data);
    });
    made.addEventListener("error", () => {
      reject(new Error("the simulator cannot start: this browser must support WebAssembly"));
      idle("failed");
    });
    void (async () => {
      binary ??= await inflated();
      send({ wasm: binary });
    })().catch(reject);
  });
};

const idle = (said: string): void => {
  start.disabled = false;
  stop.hidden = progress.hidden = true;
  state.textContent = said;
  running = "";
  document.body.dataset["state"] = said.split(" ")[0] ?? "";
};

const hear = (told: Told): void => {
  if ("checked" in told) return show(told.checked.problems);
  if ("simulated_ns" in told) {
    progress.value = told.simulated_ns / told.total_ns;
    state.textContent = `${(told.simulated_ns / 1e9).toFixed(1)} of ${told.total_ns / 1e9} s`;
    return;
  }
  if ("failed" in told) {
    show([{ message: told.failed }]);
    engine?.terminate();
    ready = begin();
    return idle("failed");
  }
  if ("ran" in told) end(told.ran, told.tables, told.took_ms);
};

/** Says so if a lesson's run is not that of the native simulator. */
const compare = (text: string, digest: string): void => {
  const native = built.lessons.flatMap(({ toml, changed, digests }) => [[toml, digests[0]], [changed, digests[1]]]).find(([of]) => of === text)?.[1];
  document.body.dataset["native"] = native === undefined ? "unknown" : native === digest ? "equal" : "different";
  if (native !== undefined && native !== digest) show([{ message: "this browser's results differ from the native simulator's", hint: "do not rely on them, and report the browser and its version" }]);
};

const end = (ran: Ran, tables: Tables | null, took: number): void => {
  const text = running;
  show(ran.problems);
  if (!ran.summary || !tables) return idle("not run");
  before = last;
  last = { text, summary: ran.summary, tables };
  idle(`done in ${(took / 1000).toFixed(2)} s: ${(ran.packets ?? 0).toLocaleString("en")} packets`);
  document.body.dataset["digest"] = tables.digest;
  compare(text, tables.digest);
  draw();
};

const run = async (): Promise<void> => {
  running = editor.value;
  start.disabled = true;
  stop.hidden = progress.hidden = false;
  progress.value = 0;
  state.textContent = "starting";
  document.body.dataset["state"] = "running";
  try {
    await (ready ??= begin());
    send({ run: running, controller: controller(), columns: COLUMNS });
  } catch (error) {
    show([{ message: String(error instanceof Error ? error.message : error) }]);
    idle("failed");
  }
};

start.addEventListener("click", () => void run());
stop.addEventListener("click", () => {
  engine?.terminate();
  ready = begin();
  idle("stopped");
});

// The scenario

const PLACES: Record<string, Place> = {
  rate: { head: "[path]", key: "rate" },
  rtt: { head: "[path]", key: "rtt" },
  buffer: { head: "[path]", key: "queue", inside: "size" },
  loss: { head: "[path]", key: "loss" },
};

/** A slider: steps of a scale, its place in the text, and how a value is written. */
interface Slider {
  place: Place;
  steps: number[];
  unit: string;
  factors: Record<string, number>;
}

const SLIDERS: Record<string, Slider> = {
  rate: { place: PLACES["rate"] as Place, steps: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], unit: "Mbit/s", factors: { "kbit/s": 0.001, "Mbit/s": 1, "Gbit/s": 1000 } },
  rtt: { place: PLACES["rtt"] as Place, steps: [1, 2, 5, 10, 20, 40, 80, 100, 200, 400], unit: "ms", factors: { us: 0.001, ms: 1, s: 1000 } },
  buffer: { place: PLACES["buffer"] as Place, steps: [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 100], unit: "bdp", factors: { bdp: 1 } },
  loss: { place: PLACES["loss"] as Place, steps: [0, 0.01, 0.1, 0.5, 1, 2, 5, 10], unit: "%", factors: { "%": 1 } },
};

const valueOf = (slider: Slider): number | null => {
  const said = read(editor.value, slider.place);
  if (said === null) return slider.unit === "%" ? 0 : null;
  const parts = /^([\d.]+)\s*(\S*)$/.exec(said);
  const factor = slider.factors[parts?.[2] ?? ""];
  return parts && factor !== undefined ? Number(parts[1]) * factor : null;
};

const nearest = (steps: number[], value: number): number => {
  const far = steps.map((step) => Math.abs(Math.log((step + 1e-3) / (value + 1e-3))));
  return far.indexOf(Math.min(...far));
};

/** Shows the values of the text in sliders and menus. */
const follow = (): void => {
  for (const [name, slider] of Object.entries(SLIDERS)) {
    const input = byId(`slide-${name}`, HTMLInputElement);
    const label = byId(`value-${name}`, HTMLOutputElement);
    const value = valueOf(slider);
    input.disabled = value === null;
    input.max = String(slider.steps.length - 1);
    if (value !== null) input.value = String(nearest(slider.steps, value));
    label.textContent = value === null ? (read(editor.value, slider.place) ?? "see the text") : `${shown(value)} ${slider.unit}`;
    input.setAttribute("aria-valuetext", label.textContent);
  }
  const box = byId("controllers", HTMLElement);
  const groups = Array.from({ length: Math.min(count(editor.value, "[[flows]]"), 6) }, (_, nth) => nth);
  box.replaceChildren();
  for (const nth of groups) {
    const simple: Place = { head: "[[flows]]", nth, key: "cc" };
    const named: Place = { ...simple, inside: "name" };
    const place = read(editor.value, simple) === null ? named : simple;
    const label = make("label", `flow${groups.length > 1 ? ` ${nth + 1}` : ""}`, box);
    const choice = make("select", undefined, label);
    for (const name of [...built.controllers, "mine"]) make("option", name, choice);
    choice.value = read(editor.value, place) ?? "";
    choice.addEventListener("change", () => edit(write(editor.value, place, choice.value)));
  }
};

const check = settled(() => {
  if (!running) void (ready ??= begin()).then(() => send({ check: editor.value, controller: controller() })).catch(() => undefined);
}, 250);

const edit = (text: string): void => {
  notice = [];
  editor.value = text;
  follow();
  check();
};

for (const [name, slider] of Object.entries(SLIDERS)) {
  const input = byId(`slide-${name}`, HTMLInputElement);
  input.addEventListener("input", () => edit(write(editor.value, slider.place, `${slider.steps[Number(input.value)] ?? 0} ${slider.unit}`)));
}
editor.addEventListener("input", () => {
  notice = [];
  suggest();
  follow();
  check();
});
const suggest = attach(editor, byId("completions", HTMLElement), () =>
  complete(editor.value, editor.selectionStart, built.schema, [...built.controllers, "mine"]),
);

const runs = (event: KeyboardEvent): void => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !start.disabled) void run();
};
editor.addEventListener("keydown", runs);

/** What is wrong with the link, until the scenario is edited. */
let notice: Problem[] = [];

/** Shows problems; a click goes to the line. */
const show = (checked: Problem[]): void => {
  const found = [...notice, ...checked];
  problems.replaceChildren();
  problems.hidden = !found.length;
  document.body.dataset["problems"] = String(found.length);
  for (const { message, line, hint } of found.slice(0, 20)) {
    const item = make("li", undefined, problems);
    const told = `${line ? `line ${line}: ` : ""}${message}${hint ? `. Help: ${hint}` : ""}`;
    if (!line) {
      item.textContent = told;
      continue;
    }
    const button = make("button", told, item);
    button.type = "button";
    button.addEventListener("click", () => {
      const lines = editor.value.split("\n");
      const at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
      editor.focus();
      editor.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0));
    });
  }
};

// The plots

type Envelope = Map<number, (number | null)[]>;

/** The minimum and maximum of each bucket of time, in the order in which they came, for each flow or link. */
const envelopes = (keys: Float64Array, times: Float64Array, values: Float64Array, end: number, scale: number): Envelope => {
  const lines: Envelope = new Map();
  const seen = new Map<number, { bucket: number; low: number; high: number; rising: boolean }>();
  const flush = (key: number): void => {
    const one = seen.get(key);
    const line = lines.get(key);
    if (!one || !line) return;
    line[2 * one.bucket] = (one.rising ? one.low : one.high) * scale;
    line[2 * one.bucket + 1] = (one.rising ? one.high : one.low) * scale;
  };
  for (let row = 0; row < values.length; row += 1) {
    const value = values[row] as number;
    if (Number.isNaN(value)) continue;
    const key = keys[row] as number;
    const bucket = Math.min(Math.floor(((times[row] as number) / end) * BUCKETS), BUCKETS - 1);
    if (!lines.has(key)) lines.set(key, Array<number | null>(2 * BUCKETS).fill(null));
    const one = seen.get(key);
    if (one?.bucket === bucket) {
      if (value < one.low) [one.low, one.rising] = [value, false];
      if (value > one.high) [one.high, one.rising] = [value, true];
    } else {
      flush(key);
      seen.set(key, { bucket, low: value, high: value, rising: true });
    }
  }
  for (const key of seen.keys()) flush(key);
  return lines;
};

/** Mbit/s in each bucket, from bytes handed over so far. */
const rates = (keys: Float64Array, times: Float64Array, totals: Float64Array, end: number): Envelope => {
  const bins = Math.min(BUCKETS, Math.max(Math.floor(end / 20e6), 1));
  const lines: Envelope = new Map();
  const done = new Map<number, { at: number; total: number; bin: number }>();
  for (let row = 0; row < totals.length; row += 1) {
    const [key, at, total] = [keys[row] as number, times[row] as number, totals[row] as number];
    const bin = Math.floor((at / end) * bins);
    if (!lines.has(key)) lines.set(key, Array<number | null>(2 * BUCKETS).fill(null));
    const since = done.get(key) ?? { at: 0, total: 0, bin: 0 };
    if (bin > since.bin || !done.has(key)) {
      if (at > since.at) {
        const rate = ((total - since.total) * 8000) / (at - since.at);
        const line = lines.get(key) ?? [];
        const [from, to] = [(since.bin * 2 * BUCKETS) / bins, (Math.min(bin, bins) * 2 * BUCKETS) / bins];
        for (let slot = Math.floor(from); slot < to; slot += 1) line[slot] = rate;
      }
      done.set(key, { at, total, bin });
    }
  }
  return lines;
};

const QUANTITIES: { title: string; unit: string; lines: (tables: Tables, end: number) => Envelope }[] = [
  { title: "Goodput", unit: "Mbit/s", lines: ({ columns: c }, end) => rates(c["samples.flow"]!, c["samples.t_ns"]!, c["samples.goodput_bytes"]!, end) },
  { title: "Round-trip time", unit: "ms", lines: ({ columns: c }, end) => envelopes(c["samples.flow"]!, c["samples.t_ns"]!, c["samples.rtt_ns"]!, end, 1e-6) },
  { title: "Queue delay", unit: "ms", lines: ({ columns: c }, end) => envelopes(c["queue.link"]!, c["queue.t_ns"]!, c["queue.delay_ns"]!, end, 1e-6) },
  { title: "Bytes in flight", unit: "kB", lines: ({ columns: c }, end) => envelopes(c["samples.flow"]!, c["samples.t_ns"]!, c["samples.in_flight_bytes"]!, end, 1e-3) },
];

let charts: uPlotType[] = [];
/** What is zoomed in to, in seconds, in all plots. */
let view: [number, number] | null = null;

const zoomTo = (from: number, to: number, end: number): void => {
  const whole = from <= 0 && to >= end;
  if (whole ? view === null : view?.[0] === from && view[1] === to) return;
  view = whole ? null : [from, to];
  for (const chart of charts) chart.setScale("x", { min: from, max: to });
};

const ends = ({ tables }: Result): number => tables.columns["queue.t_ns"]?.reduce((most, at) => Math.max(most, at), 1) ?? 1;

const draw = (): void => {
  charts.forEach((chart) => chart.destroy());
  charts = [];
  plots.replaceChildren();
  if (!last) return;
  const compared = byId("compare", HTMLInputElement).checked ? before : null;
  const end = Math.max(ends(last), compared ? ends(compared) : 0);
  const times = Array.from({ length: 2 * BUCKETS }, (_, nth) => ((nth + 0.5) * end) / (2 * BUCKETS) / 1e9);
  for (const { title, unit, lines } of QUANTITIES) {
    const series: uPlotType.Series[] = [{ label: "time", value: (_, value) => seconds(value) }];
    const data: (number | null)[][] = [];
    for (const [result, old] of [[compared, true], [last, false]] as [Result | null, boolean][]) {
      if (!result) continue;
      const found = [...lines(result.tables, end)].sort(([a], [b]) => a - b).slice(0, MANY);
      for (const [key, values] of found) {
        const flow = result.summary.flows.find(({ flow: number }) => number === key);
        const label = title.startsWith("Queue") ? "queue" : (flow?.label ?? `flow ${key}`);
        series.push({
          label: old ? `previous: ${label}` : label,
          stroke: (COLOURS[key % COLOURS.length] ?? "#000") + (old ? "70" : ""),
          dash: dashed(old ? [3, 4] : (DASHES[key % DASHES.length] ?? [])),
          width: old ? 1 : 1.5,
          points: { show: false },
          spanGaps: true,
          value: (_, value) => shown(value),
        });
        data.push(values);
      }
    }
    const box = make("figure", undefined, plots);
    box.setAttribute("aria-label", `${title} over time, in ${unit}`);
    const options: uPlotType.Options = {
      title,
      width: box.clientWidth,
      height: HEIGHT,
      scales: { x: { time: false, min: view?.[0] ?? 0, max: view?.[1] ?? end / 1e9 }, y: { range: fromZero } },
      axes: [timeAxis(), axis(unit, SIDE - 18)],
      series,
      cursor: cursor(),
      legend: { show: series.length <= 13 },
      hooks: {
        setScale: [
          (chart, scale) => {
            const { min, max } = chart.scales["x"] ?? {};
            if (scale === "x" && min != null && max != null && charts.includes(chart)) zoomTo(min, max, end / 1e9);
          },
        ],
      },
    };
    charts.push(new uPlot(options, [times, ...data] as uPlotType.AlignedData, box));
  }
  numbers(compared);
};

byId("compare", HTMLInputElement).addEventListener("change", draw);
addEventListener("resize", settled(() => charts.forEach((chart) => chart.setSize({ width: plots.clientWidth, height: HEIGHT })), 100));

const NUMBERS: [name: string, label: string, unit: string, factor: number][] = [
  ["goodput_bps", "Goodput", "Mbit/s", 1e-6],
  ["utilisation_ratio", "Link used", "%", 100],
  ["rtt_p50_ns", "Median RTT", "ms", 1e-6],
  ["queue_p95_ns", "Queue, 95th percentile", "ms", 1e-6],
  ["retransmit_ratio", "Retransmitted", "%", 100],
  ["jain_last_half_ratio", "Jain's index, second half", "", 1],
];

const numbers = (compared: Result | null): void => {
  const body = byId("numbers", HTMLTableElement);
  body.replaceChildren();
  const head = make("tr", undefined, body);
  for (const title of ["metric", "this run", ...(compared ? ["previous run"] : [])]) make("th", title, head).scope = "col";
  for (const [name, label, unit, factor] of NUMBERS) {
    const values = [last, compared].filter((result) => result !== null).map(({ summary }) => summary.metrics[name]);
    if (values.every((value) => value == null)) continue;
    const row = make("tr", undefined, body);
    make("th", label, row).scope = "row";
    for (const value of values) make("td", value == null ? "–" : `${shown(value * factor)} ${unit}`, row);
  }
};

// Lessons

const lesson = (chosen: Lesson): void => {
  const box = byId("lesson", HTMLElement);
  box.hidden = false;
  box.replaceChildren();
  make("h2", chosen.title, box);
  make("p", chosen.text, box);
  const steps = make("ol", undefined, box);
  const first = make("li", "Run the scenario. ", steps);
  const one = make("button", "Run it", first);
  one.addEventListener("click", () => {
    edit(chosen.toml);
    void run();
  });
  const second = make("li", `${chosen.question} `, steps);
  const verdict = make("p", undefined, box);
  verdict.setAttribute("role", "status");
  chosen.answers.forEach((answer, nth) => {
    const button = make("button", answer, second);
    button.addEventListener("click", () => {
      verdict.textContent = `${nth === chosen.right ? "Right." : `No: ${chosen.answers[chosen.right] ?? ""}.`} ${chosen.why} Run the change to see it.`;
    });
  });
  const third = make("li", `${chosen.do} `, steps);
  const two = make("button", "Change it and run", third);
  two.addEventListener("click", () => {
    edit(chosen.changed);
    void run();
  });
  box.append(verdict);
  edit(chosen.toml);
};

// The page's own controller

own.value = built.template;
own.addEventListener("input", () => check());
own.addEventListener("keydown", runs);
byId("use", HTMLButtonElement).addEventListener("click", () => {
  const simple: Place = { head: "[[flows]]", key: "cc" };
  edit(write(editor.value, read(editor.value, simple) === null ? { ...simple, inside: "name" } : simple, "mine"));
  state.textContent = "The first flow uses this controller. Press Run to start it.";
});



const menu = byId("lessons", HTMLElement);
built.lessons.forEach((one, nth) => {
  const button = make("button", `${nth + 1}. ${one.title}`, make("li", undefined, menu));
  button.type = "button";
  button.addEventListener("click", () => {
    for (const other of menu.querySelectorAll("button")) other.removeAttribute("aria-current");
    button.setAttribute("aria-current", "true");
    [last, before] = [null, null];
    draw();
    byId("numbers", HTMLTableElement).replaceChildren();
    lesson(one);
  });
});

// Links and files

byId("share", HTMLButtonElement).addEventListener("click", () => {
  void (async () => {
    const parts = [`scenario=${await packed(editor.value)}`];
    if (controller()) parts.push(`controller=${await packed(controller())}`);
    if (view) parts.push(`zoom=${view.map((at) => at.toFixed(3)).join("-")}`);
    history.replaceState(null, "", `#${parts.join("&")}`);
    const copied = await navigator.clipboard?.writeText(location.href).then(
      () => true,
      () => false,
    );
    state.textContent = copied ? "Link copied to the clipboard." : "The link is the address of this page.";
  })();
});
byId("save", HTMLButtonElement).addEventListener("click", () => {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([editor.value], { type: "application/toml" }));
  link.download = "scenario.toml";
  link.click();
  URL.revokeObjectURL(link.href);
  state.textContent = "On the command line: paceline run scenario.toml --report";
});

/** Loads the scenario of the address without running it: a link may come from anyone. */
const recall = async (): Promise<void> => {
  const said = new URLSearchParams(location.hash.slice(1));
  const scenario = said.get("scenario");
  if (!scenario) return;
  try {
    const text = await unpacked(scenario);
    const code = said.get("controller");
    own.value = code ? await unpacked(code) : built.template;
    byId("code", HTMLDetailsElement).open = code !== null;
    const zoom = /^(\d+\.\d+)-(\d+\.\d+)$/.exec(said.get("zoom") ?? "");
    view = zoom ? [Number(zoom[1]), Number(zoom[2])] : null;
    edit(text);
    state.textContent = "Scenario loaded from the link. Press Run to start it.";
  } catch (error) {
    notice = [{ message: error instanceof Error ? error.message : String(error) }];
    show([]);
  }
};

addEventListener("hashchange", () => void recall());
menu.querySelector("button")?.click();
void recall();
ready = begin();
void ready.then(() => (document.body.dataset["ready"] = "true")).catch((error: unknown) => show([{ message: error instanceof Error ? error.message : String(error) }]));
