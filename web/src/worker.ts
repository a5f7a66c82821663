/** The simulator in a worker, so that the page stays responsive. Stop ends the worker. */
import { type Interface, adopt, call as callOwn, load } from "./controller";
import type { Checked, Columns, Order, Ran, Told } from "./orders";

interface Exports {
  memory: WebAssembly.Memory;
  paceline_input(bytes: number): number;
  paceline_output(): number;
  paceline_output_len(): number;
  paceline_check(): void;
  paceline_follow(): void;
  paceline_run(): void;
  paceline_column(): void;
  paceline_digest(): void;
  paceline_interface(): void;
  paceline_bring(asleep: number): void;
}

type Act = "paceline_check" | "paceline_follow" | "paceline_run" | "paceline_column" | "paceline_digest" | "paceline_interface";

const tell = (told: Told): void => postMessage(told);

let engine: Exports | undefined;

/** Calls the engine. The answer is a copy: wasm memory moves when it grows. */
const loaded = (): Exports => {
  if (!engine) throw new Error("the simulator is not loaded");
  return engine;
};

/** Writes the engine's input. */
const input = (text: string): void => {
  const octets = new TextEncoder().encode(text);
  const at = loaded().paceline_input(octets.length);
  new Uint8Array(loaded().memory.buffer, at, octets.length).set(octets);
};

const call = (act: Act, text: string): Uint8Array<ArrayBuffer> => {
  const engine = loaded();
  input(text);
  engine[act]();
  return new Uint8Array(engine.memory.buffer, engine.paceline_output(), engine.paceline_output_len()).slice() as Uint8Array<ArrayBuffer>;
};

const words = (octets: Uint8Array): string => new TextDecoder().decode(octets);

/** Tells the engine of the page's own controller, without its code. */
const bring = (source: string, asleep: boolean): void => {
  input(source);
  loaded().paceline_bring(Number(asleep));
};

/** The columns of the run, and their rows that the page does not have yet. */
let followed: string[] = [];
let rows: Record<string, Float64Array> = {};

const clock = performance.now.bind(performance);

const run = async (text: string, controller: string, columns: string[]): Promise<void> => {
  if (controller) await load(controller);
  bring(controller, false);
  followed = columns;
  call("paceline_follow", columns.join("\n"));
  const began = clock();
  const ran = JSON.parse(words(call("paceline_run", text))) as Ran;
  const took_ms = clock() - began;
  const read = columns.map((name) => [name, new Float64Array(call("paceline_column", name).buffer)]);
  tell({ ran, columns: Object.fromEntries(read) as Columns, digest: words(call("paceline_digest", "")), took_ms });
};

/** The engine's call of a method of the page's own controller. */
const called = (nth: number, instance: number, slots: number, text: number, bytes: number): number => {
  const { memory } = loaded();
  try {
    const said = callOwn(nth, instance, new Float64Array(memory.buffer, slots), words(new Uint8Array(memory.buffer, text, bytes)));
    if (said !== null) input(said);
    return 0;
  } catch (error) {
    input(error instanceof Error ? error.message : String(error));
    return 1;
  }
};

const obey = async (order: Order): Promise<void> => {
  if ("wasm" in order) {
    const grown = (column: number, at: number, count: number): void => {
      rows[followed[column] ?? ""] = new Float64Array(loaded().memory.buffer, at, count).slice();
    };
    const heard = (simulated_ns: number, total_ns: number, packets: number): void => {
      tell({ simulated_ns, total_ns, packets, grown: rows });
      rows = {};
    };
    const { instance } = await WebAssembly.instantiate(order.wasm, { page: { heard, grown, called } });
    engine = instance.exports as unknown as Exports;
    adopt(JSON.parse(words(call("paceline_interface", ""))) as Interface);
    tell({ ready: true });
  } else if ("check" in order) {
    bring(order.controller, true);
    tell({ checked: JSON.parse(words(call("paceline_check", order.check))) as Checked });
  } else await run(order.run, order.controller, order.columns);
};

addEventListener("message", ({ data }: MessageEvent<Order>) => {
  obey(data).catch((error: unknown) => {
    const said = error instanceof Error ? error.message : String(error);
    tell({ failed: error instanceof WebAssembly.RuntimeError ? `the simulator failed: ${said}; make the scenario smaller, or run it on the command line` : said });
  });
});
