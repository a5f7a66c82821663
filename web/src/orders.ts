/** The messages between a page and the simulator's worker. */
import type { Problem } from "./engine";

export interface Checked {
  problems: Problem[];
  about?: string | null;
  total_ns?: number;
  flows?: number;
}

/** The metrics that `paceline run --json` prints. */
export interface Summary {
  metrics: Record<string, number | null>;
  flows: ({ flow: number; cc: string; label: string } & Record<string, unknown>)[];
}

export interface Ran {
  problems: Problem[];
  summary?: Summary;
  packets?: number;
  events?: number;
}

/** Columns of tables, `TABLE.COLUMN`. */
export type Columns = Record<string, Float64Array>;

/** `controller` is the source of the page's own one, if the scenario names it; only a run executes it. */
export type Order = { wasm: ArrayBuffer } | { check: string; controller: string } | { run: string; controller: string; columns: string[] };

/** `grown` are the rows since the last message, of the columns that were asked for; `digest` is that of all tables. */
export type Told =
  | { ready: true }
  | { checked: Checked }
  | { simulated_ns: number; total_ns: number; packets: number; grown: Columns }
  | { ran: Ran; columns: Columns; digest: string; took_ms: number }
  | { failed: string };
