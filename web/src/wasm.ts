/** The simulator in a worker of this page. */
import type { Series } from "./api";
import { type Ended, type Engine, type Problem, Refused, Stopped, type Watch } from "./engine";
import { type Cut, type Line, envelopes, rates } from "./lines";
import type { Columns, Order, Summary, Told } from "./orders";

/** The results of a run. */
export interface Result {
  text: string;
  summary?: Summary;
  digest: string;
  columns: Columns;
  end_ns: number;
}

/** The names under which a page finds runs. */
export const NOW = "this run";
export const BEFORE = "previous run";

const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000"];
const DASHES = [[], [8, 3], [2, 2], [8, 3, 2, 3]];
const COLUMNS = ["samples.flow", "samples.t_ns", "samples.delivered_bytes", "samples.rtt_ns", "samples.in_flight_bytes", "queue.link", "queue.t_ns", "queue.delay_ns"];
const BUCKETS = 500;
/** Of a throughput, in nanoseconds. */
const LEAST_BIN = 20e6;
/** Lines of more flows cannot be distinguished. */
const MANY = 20;

interface Quantity {
  title: string;
  table: string;
  of: string;
  unit: string;
  /** Of the column in that unit. */
  factor: number;
}

/** The quantities that can be drawn. */
export const QUANTITIES: Record<string, Quantity> = {
  throughput_bps: { title: "Throughput", table: "samples", of: "delivered_bytes", unit: "Mbit/s", factor: 1e-6 },
  rtt_ns: { title: "Round-trip time", table: "samples", of: "rtt_ns", unit: "ms", factor: 1e-6 },
  queue_delay_ns: { title: "Queue delay", table: "queue", of: "delay_ns", unit: "ms", factor: 1e-6 },
  in_flight_bytes: { title: "Bytes in flight", table: "samples", of: "in_flight_bytes", unit: "kB", factor: 1e-3 },
};

const inflated = async (wasm: string): Promise<ArrayBuffer> => {
  const octets = Uint8Array.from(atob(wasm), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([octets]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
};

interface Waiting {
  watch: Watch;
  text: string;
  resolve(ended: Ended): void;
  reject(error: Error): void;
}

export class Wasm implements Engine {
  readonly #source: string;
  readonly #binary: Promise<ArrayBuffer>;
  /** The page's own controller, for a scenario that names it. */
  readonly #controller: (text: string) => string;
  #worker: Worker | null = null;
  #ready: Promise<void> | null = null;
  #waiting: Waiting | null = null;
  readonly #checks: ((problems: Problem[]) => void)[] = [];
  #growing: Record<string, number[]> = {};
  #total = 0;
  last: Result | null = null;
  before: Result | null = null;

  constructor(wasm: string, source: string, controller: (text: string) => string) {
    this.#source = source;
    this.#binary = inflated(wasm);
    this.#controller = controller;
  }

  /** Starts the worker, if none is there. */
  start(): Promise<void> {
    return (this.#ready ??= this.#begin());
  }

  async check(text: string): Promise<Problem[]> {
    // A run keeps the worker busy; it checks its own scenario.
    if (this.#waiting) return [];
    await this.start();
    return new Promise((resolve) => {
      this.#checks.push(resolve);
      this.#send({ check: text, controller: this.#controller(text) });
    });
  }

  run(text: string, watch: Watch): Promise<Ended> {
    this.#growing = {};
    return new Promise((resolve, reject) => {
      const waiting = { watch, text, resolve, reject };
      this.#waiting = waiting;
      this.start().then(
        () => {
          // It may have been stopped before the worker was there.
          if (this.#waiting === waiting) this.#send({ run: text, controller: this.#controller(text), columns: COLUMNS });
        },
        (error: Error) => this.#settle()?.reject(error),
      );
    });
  }

  stop(): void {
    this.#renew();
    this.#settle()?.reject(new Stopped("stopped"));
  }

  /** Gives up the results so far. */
  forget(): void {
    this.last = this.before = null;
  }

  async series(name: string, runs: string[], span: [number, number] | null): Promise<Series> {
    const quantity = QUANTITIES[name];
    if (!quantity) throw new Error(`there is no quantity ${name}`);
    const results = [BEFORE, NOW].filter((run) => runs.includes(run)).map((run) => [run, this.#result(run)] as const);
    const end = results.reduce((most, [, result]) => Math.max(most, result?.end_ns ?? 1), 1);
    const [from, to] = span ? [span[0] * 1e9, span[1] * 1e9] : [0, end];
    const cut = { from, to, buckets: span ? 2 * BUCKETS : BUCKETS };
    const drawn = results.flatMap(([run, result]) => (result ? this.#lines(quantity, run, result, cut) : []));
    return {
      title: quantity.title,
      unit: quantity.unit,
      end: end / 1e9,
      times: Array.from({ length: 2 * cut.buckets }, (_, nth) => (from + ((nth + 0.5) * (to - from)) / (2 * cut.buckets)) / 1e9),
      lines: drawn.map((line) => ({ ...line, values: line.values.map((value) => (value === null ? null : value * quantity.factor)) })),
    };
  }

  #result(run: string): Result | null {
    if (run === BEFORE) return this.#waiting ? this.last : this.before;
    if (!this.#waiting) return this.last;
    const columns = Object.fromEntries(COLUMNS.map((name) => [name, Float64Array.from(this.#growing[name] ?? [])]));
    return { text: this.#waiting.text, digest: "", columns, end_ns: this.#total };
  }

  #lines({ table, of }: Quantity, run: string, { columns, summary }: Result, cut: Cut): Series["lines"] {
    const key = columns[table === "queue" ? "queue.link" : "samples.flow"];
    const [times, values] = [columns[`${table}.t_ns`], columns[`${table}.${of}`]];
    if (!key || !times || !values) return [];
    const found: Map<number, Line> = of === "delivered_bytes" ? rates(key, times, values, cut, LEAST_BIN) : envelopes(key, times, values, cut);
    const old = run === BEFORE;
    const sorted = [...found].sort(([a], [b]) => a - b).slice(0, MANY);
    return sorted.map(([number, line]) => ({
      run,
      label: table === "queue" ? (number ? `link ${number}` : "bottleneck") : (summary?.flows.find(({ flow }) => flow === number)?.label ?? `flow ${number}`),
      colour: (COLOURS[number % COLOURS.length] ?? "#000000") + (old ? "80" : ""),
      dash: old ? [3, 4] : (DASHES[number % DASHES.length] ?? []),
      values: line,
    }));
  }

  #send(order: Order): void {
    this.#worker?.postMessage(order);
  }

  #begin(): Promise<void> {
    const made = new Worker(URL.createObjectURL(new Blob([this.#source], { type: "text/javascript" })));
    this.#worker = made;
    return new Promise((resolve, reject) => {
      made.addEventListener("message", ({ data }: MessageEvent<Told>) => {
        if ("ready" in data) resolve();
        else this.#hear(data);
      });
      made.addEventListener("error", () => {
        const error = new Error("the simulator cannot start: this browser must support WebAssembly");
        reject(error);
        this.#settle()?.reject(error);
      });
      this.#binary.then((binary) => this.#send({ wasm: binary })).catch(reject);
    });
  }

  /** Replaces a worker that may be busy for ever. */
  #renew(): void {
    this.#worker?.terminate();
    this.#checks.length = 0;
    this.#ready = this.#begin();
  }

  #settle(): Waiting | null {
    const waiting = this.#waiting;
    this.#waiting = null;
    return waiting;
  }

  #hear(told: Told): void {
    if ("checked" in told) this.#checks.shift()?.(told.checked.problems);
    else if ("simulated_ns" in told) {
      for (const [name, rows] of Object.entries(told.grown)) {
        const column = (this.#growing[name] ??= []);
        for (const row of rows) column.push(row);
      }
      this.#total = told.total_ns;
      this.#waiting?.watch.progress(told);
      this.#waiting?.watch.more(NOW);
    } else if ("failed" in told) {
      this.#renew();
      this.#settle()?.reject(new Refused([{ message: told.failed }]));
    } else if ("ran" in told) {
      const { ran, columns, digest, took_ms } = told;
      const waiting = this.#settle();
      if (!waiting) return;
      if (!ran.summary) return waiting.reject(new Refused(ran.problems));
      this.before = this.last;
      const end_ns = (columns["queue.t_ns"] ?? new Float64Array()).reduce((most, at) => Math.max(most, at), 1);
      this.last = { text: waiting.text, summary: ran.summary, digest, columns, end_ns };
      waiting.resolve({ run: NOW, said: `done in ${(took_ms / 1000).toFixed(2)} s: ${(ran.packets ?? 0).toLocaleString("en")} packets` });
    }
  }
}
