/** A controller written in the page: a class with the methods and outputs of `paceline.Controller`. */

/** The engine's calls by their numbers, and how numbers pass. */
export interface Interface {
  calls: { name: string; object: [name: string, kind: "number" | "flag" | "state"][] | null; count: number }[];
  outputs: string[];
  /** States of recovery. */
  states: string[];
}

type Instance = Record<string, unknown>;
type Class = { new (config: Record<string, unknown>, options: Record<string, unknown>): object; phases?: string[] };

let face: Interface | undefined;
let own: Class | undefined;
let fields: string[] = [];
/** The address of the controller's source. */
let address = "";
const instances = new Map<number, Instance>();

const CODEPOINTS = [null, "ect0", "ect1"];

export const adopt = (told: Interface): void => {
  face = told;
};

/** Where in the controller's source an error happened, if its stack says so. */
const place = (error: unknown): string => {
  const [, after] = error instanceof Error && address ? (error.stack ?? "").split(`${address}:`) : [];
  const line = /^\d+/.exec(after ?? "")?.[0];
  return line ? ` (line ${line} of the controller)` : "";
};

const words = (error: unknown): string => `${String(error)}${place(error)}`;

/** Without anything that would make two runs differ. */
const deterministic = (): void => {
  const refuse = (name: string): (() => never) => () => {
    throw new Error(`${name} makes runs differ: take times from events and draws from config.seed`);
  };
  Math.random = refuse("Math.random()");
  globalThis.Date = refuse("Date") as unknown as DateConstructor;
  performance.now = refuse("performance.now()");
};

/** Runs the source, an ES module, and takes its class. */
export const load = async (source: string): Promise<void> => {
  instances.clear();
  own = undefined;
  deterministic();
  address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  let found: { default?: unknown };
  try {
    found = (await import(address)) as { default?: unknown };
  } catch (error) {
    throw new Error(`the controller cannot be loaded: ${words(error)}`);
  } finally {
    URL.revokeObjectURL(address);
  }
  if (typeof found.default !== "function") throw new Error("the controller has no class: write `export default class { ... }`");
  own = found.default as Class;
};

const read = (kind: "number" | "flag" | "state", value: number, states: string[]): unknown => {
  if (kind === "flag") return value !== 0;
  if (kind === "state") return states[value];
  return Number.isNaN(value) ? null : value;
};

const written = (instance: Instance, name: string): number => {
  const value = instance[name];
  if (name === "uses_prr") return value === false ? 0 : 1;
  if (value === undefined || value === null) return name === "ecn" ? 0 : NaN;
  if (name === "ecn") {
    const codepoint = CODEPOINTS.indexOf(value as string);
    if (codepoint < 0) throw new Error(`ecn is ${JSON.stringify(value)}: "ect0", "ect1" or null`);
    return codepoint;
  }
  if (typeof value !== "number") throw new Error(`${name} is ${JSON.stringify(value)}: it takes a number`);
  return value;
};

const make = (config: Record<string, unknown>, text: string): Instance => {
  if (!own) throw new Error("there is no controller");
  const instance = new own(config, JSON.parse(text) as Record<string, unknown>) as Instance;
  instance["cwnd_bytes"] ??= config["initial_window_bytes"];
  return instance;
};

/** Calls a method; `slots` are its arguments, and then what is set. The answer to the constructor describes the class. */
export const call = (nth: number, number: number, slots: Float64Array, text: string): string | null => {
  const method = face?.calls[nth];
  if (!face || !method) throw new Error(`there is no call ${nth}`);
  const { states, outputs } = face;
  try {
    const event = method.object && Object.fromEntries(method.object.map(([name, kind], at) => [name, read(kind, slots[at] ?? NaN, states)]));
    const made = nth === 0 && event ? make(event, text) : instances.get(number);
    if (!made) throw new Error(`there is no instance ${number}`);
    if (method.name === "state") {
      const state = (made as { state: () => Record<string, unknown> }).state();
      fields.forEach((name, at) => (slots[at] = state[name] == null ? NaN : Number(state[name])));
      return null;
    }
    if (nth > 0) (made[method.name] as (...given: unknown[]) => void)(...(event ? [event] : slots.subarray(0, method.count)));
    outputs.forEach((name, at) => (slots[at] = written(made, name)));
    const phases = own?.phases ?? [];
    slots[outputs.length] = phases.indexOf((made["phase"] as string | undefined) ?? phases[0] ?? "");
    if (nth > 0) return null;
    instances.set(number, made);
    const state = typeof made["state"] === "function" ? (made as { state: () => Record<string, unknown> }).state() : {};
    fields = Object.keys(state);
    return JSON.stringify({
      methods: face.calls.map(({ name }) => name).filter((name) => name !== "constructor" && typeof made[name] === "function"),
      phases,
      fields: fields.map((name) => [name, typeof state[name] === "boolean"]),
    });
  } catch (error) {
    throw new Error(words(error));
  }
};
