/** The simulator in a worker, so that the page stays responsive. Stop ends the worker. */
import type { Checked, Order, Ran, Tables, Told } from "./engine";

interface Exports {
  memory: WebAssembly.Memory;
  paceline_input(bytes: number): number;
  paceline_output(): number;
  paceline_output_len(): number;
  paceline_check(): void;
  paceline_run(): void;
  paceline_column(): void;
  paceline_digest(): void;
}

type Act = "paceline_check" | "paceline_run" | "paceline_column" | "paceline_digest";

const tell = (told: Told): void => postMessage(told);

let engine: Exports | undefined;

/** Calls the engine. The answer is a copy: wasm memory moves when it grows. */
const call = (act: Act, text: string): Uint8Array<ArrayBuffer> => {
  if (!engine) throw new Error("the simulator is not loaded");
  const octets = new TextEncoder().encode(text);
  const at = engine.paceline_input(octets.length);
  new Uint8Array(engine.memory.buffer, at, octets.length).set(octets);
  engine[act]();
  return new Uint8Array(engine.memory.buffer, engine.paceline_output(), engine.paceline_output_len()).slice() as Uint8Array<ArrayBuffer>;
};

const words = (octets: Uint8Array): string => new TextDecoder().decode(octets);

const run = (text: string, columns: string[]): void => {
  const began = performance.now();
  const ran = JSON.parse(words(call("paceline_run", text))) as Ran;
  const took_ms = performance.now() - began;
  let tables: Tables | null = null;
  if (!ran.problems.length) {
    const read = columns.map((name) => [name, new Float64Array(call("paceline_column", name).buffer)]);
    tables = { columns: Object.fromEntries(read), digest: words(call("paceline_digest", "")) };
  }
  tell({ ran, tables, took_ms });
};

const obey = async (order: Order): Promise<void> => {
  if ("wasm" in order) {
    const heard = (simulated_ns: number, total_ns: number, packets: number): void => tell({ simulated_ns, total_ns, packets });
    const { instance } = await WebAssembly.instantiate(order.wasm, { page: { heard } });
    engine = instance.exports as unknown as Exports;
    tell({ ready: true });
  } else if ("check" in order) tell({ checked: JSON.parse(words(call("paceline_check", order.check))) as Checked });
  else run(order.run, order.columns);
};

addEventListener("message", ({ data }: MessageEvent<Order>) => {
  obey(data).catch((error: unknown) => tell({ failed: error instanceof Error ? error.message : String(error) }));
});
