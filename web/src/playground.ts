/** The laboratory in a browser: a scenario, its run in a worker, its plots, and lessons. */
import type { Schema } from "./complete";
import { byId, make } from "./dom";
import { Editor, controllerOf } from "./editor";
import { Refused, Stopped } from "./engine";
import { packed, unpacked } from "./link";
import { Plots } from "./plots";
import { shown } from "./quantity";
import { write } from "./toml";
import { BEFORE, NOW, QUANTITIES, Wasm } from "./wasm";

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

/** The data built into the page. */
interface Built {
  lessons: Lesson[];
  controllers: string[];
  version: string;
  /** A controller to start from. */
  template: string;
  schema: Schema;
  /** The label of each metric. */
  labels: Record<string, string>;
}

declare global {
  interface Window {
    /** The simulator, compressed, and its worker's source. */
    paceline: { wasm: string; worker: string; built: Built };
  }
}

const { wasm, worker, built } = window.paceline;

const own = byId("own", HTMLTextAreaElement);
const state = byId("state", HTMLOutputElement);
const progress = byId("progress", HTMLProgressElement);
const start = byId("run", HTMLButtonElement);
const stop = byId("stop", HTMLButtonElement);
const compared = byId("compare", HTMLInputElement);

/** The controller of the page, if the scenario names it. */
const controller = (text: string): string => (text.includes('"mine"') ? own.value : "");

const engine = new Wasm(wasm, worker, controller);
const editor = new Editor({
  schema: built.schema,
  controllers: [...built.controllers, "mine"],
  check: (text) => engine.check(text),
  run: () => {
    if (!start.disabled) void run();
  },
});
const tell = (error: unknown): void => editor.warn(error instanceof Error ? error.message : String(error));
const plots = new Plots(Object.keys(QUANTITIES), engine, tell);

// Runs

const busy = (now: boolean): void => {
  start.disabled = now;
  stop.hidden = progress.hidden = !now;
};

const say = (said: string): void => {
  state.textContent = said;
  document.body.dataset["state"] = said.split(" ")[0] ?? "";
};

/** Draws the current run, and the previous one if requested. */
const draw = (): Promise<void> => {
  const shows = compared.checked ? [BEFORE, NOW] : [NOW];
  return plots.show(engine.last || start.disabled ? shows : [], Object.keys(QUANTITIES), true);
};

/** Draws a run in progress, one picture after the other; most of the time is left to the page. */
let next = 0;
const grow = async (): Promise<void> => {
  const began = performance.now();
  if (began < next) return;
  next = Infinity;
  await draw();
  const ended = performance.now();
  next = ended + Math.max(80, 3 * (ended - began));
  document.body.dataset["grown"] = String(Number(document.body.dataset["grown"] ?? 0) + 1);
};

/** Says so if a lesson's run is not that of the native simulator. */
const compare = (text: string, digest: string): void => {
  const native = built.lessons.flatMap(({ toml, changed, digests }) => [[toml, digests[0]], [changed, digests[1]]]).find(([of]) => of === text)?.[1];
  document.body.dataset["native"] = native === undefined ? "unknown" : native === digest ? "equal" : "different";
  if (native !== undefined && native !== digest) editor.warn("this browser's results differ from the native simulator's. Do not rely on them, and report the browser and its version");
};

const run = async (): Promise<void> => {
  const text = editor.text;
  busy(true);
  progress.value = 0;
  next = 0;
  say("running");
  state.textContent = "starting";
  try {
    const { said } = await engine.run(text, {
      progress: ({ simulated_ns, total_ns }) => {
        progress.value = simulated_ns / total_ns;
        state.textContent = `${(simulated_ns / 1e9).toFixed(1)} of ${total_ns / 1e9} s`;
      },
      more: () => void grow().catch(tell),
    });
    editor.show([]);
    busy(false);
    const digest = engine.last?.digest ?? "";
    document.body.dataset["digest"] = digest;
    compare(text, digest);
    await draw();
    numbers();
    say(said);
  } catch (error) {
    busy(false);
    if (error instanceof Stopped) return say("stopped");
    editor.show(error instanceof Refused ? error.problems : [{ message: error instanceof Error ? error.message : String(error) }]);
    say("failed");
  }
};

start.addEventListener("click", () => void run());
stop.addEventListener("click", () => engine.stop());
compared.addEventListener("change", () => {
  numbers();
  draw().catch(tell);
});

const NUMBERS: [name: string, unit: string, factor: number][] = [
  ["goodput_bps", "Mbit/s", 1e-6],
  ["utilisation_ratio", "%", 100],
  ["rtt_p50_ns", "ms", 1e-6],
  ["queue_p95_ns", "ms", 1e-6],
  ["retransmit_ratio", "%", 100],
  ["jain_last_half_ratio", "", 1],
];

const numbers = (): void => {
  const body = byId("numbers", HTMLTableElement);
  body.replaceChildren();
  const results = [engine.last, compared.checked ? engine.before : null].flatMap((result) => result?.summary ?? []);
  if (!results.length) return;
  const head = make("tr", undefined, body);
  for (const title of ["metric", NOW, BEFORE].slice(0, results.length + 1)) make("th", title, head).scope = "col";
  for (const [name, unit, factor] of NUMBERS) {
    const values = results.map(({ metrics }) => metrics[name]);
    // One flow is fair.
    const alone = name.startsWith("jain") && results.every(({ flows }) => flows.length < 2);
    if (alone || values.every((value) => value == null)) continue;
    const row = make("tr", undefined, body);
    make("th", built.labels[name] ?? name, row).scope = "row";
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
  const ask = (text: string, label: string, toml: string): void => {
    const button = make("button", label, make("li", `${text} `, steps));
    button.addEventListener("click", () => {
      editor.edit(toml);
      void run();
    });
  };
  ask("Run the scenario.", "Run it", chosen.toml);
  const question = make("li", `${chosen.question} `, steps);
  const verdict = make("p");
  verdict.setAttribute("role", "status");
  chosen.answers.forEach((answer, nth) => {
    const button = make("button", answer, question);
    button.addEventListener("click", () => {
      verdict.textContent = `${nth === chosen.right ? "Right." : `No: ${chosen.answers[chosen.right] ?? ""}.`} ${chosen.why} Run the change to see it.`;
    });
  });
  ask(chosen.do, "Change it and run", chosen.changed);
  box.append(verdict);
  editor.edit(chosen.toml);
};

const menu = byId("lessons", HTMLElement);
built.lessons.forEach((one, nth) => {
  const button = make("button", `${nth + 1}. ${one.title}`, make("li", undefined, menu));
  button.type = "button";
  button.addEventListener("click", () => {
    for (const other of menu.querySelectorAll("button")) other.removeAttribute("aria-current");
    button.setAttribute("aria-current", "true");
    if (!start.disabled) engine.forget();
    plots.view = null;
    draw().catch(tell);
    numbers();
    lesson(one);
  });
});

// The page's own controller

own.value = built.template;
own.addEventListener("input", () => editor.check());
own.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !start.disabled) void run();
});
byId("use", HTMLButtonElement).addEventListener("click", () => {
  editor.edit(write(editor.text, controllerOf(editor.text), "mine"));
  state.textContent = "The first flow uses this controller. Press Run to start it.";
});

// Links and files

byId("share", HTMLButtonElement).addEventListener("click", () => {
  void (async () => {
    const parts = [`scenario=${await packed(editor.text)}`];
    const code = controller(editor.text);
    if (code) parts.push(`controller=${await packed(code)}`);
    if (plots.view) parts.push(`zoom=${plots.view.map((at) => at.toFixed(3)).join("-")}`);
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
  link.href = URL.createObjectURL(new Blob([editor.text], { type: "application/toml" }));
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
    plots.view = zoom ? [Number(zoom[1]), Number(zoom[2])] : null;
    editor.edit(text);
    state.textContent = "Scenario loaded from the link. Press Run to start it.";
  } catch (error) {
    tell(error);
  }
};

addEventListener("hashchange", () => void recall());
menu.querySelector("button")?.click();
void recall();
engine
  .start()
  .then(() => (document.body.dataset["ready"] = "true"))
  .catch(tell);
