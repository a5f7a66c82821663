/** The messages between the page and the simulator's worker. */

/** A problem of a scenario, with its place. */
export interface Problem {
  message: string;
  line?: number | null;
  key?: string;
  hint?: string | null;
}

export interface Checked {
  problems: Problem[];
  about?: string | null;
  total_ns?: number;
  flows?: number;
  memory?: number;
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

/** Columns of tables, `TABLE.COLUMN`, and the digest of all of them. */
export interface Tables {
  columns: Record<string, Float64Array>;
  digest: string;
}

/** `controller` is the source of the page's own one, if the scenario names it; only a run executes it. */
export type Order = { wasm: ArrayBuffer } | { check: string; controller: string } | { run: string; controller: string; columns: string[] };

export type Told =
  | { ready: true }
  | { checked: Checked }
  | { simulated_ns: number; total_ns: number; packets: number }
  | { ran: Ran; tables: Tables | null; took_ms: number }
  | { failed: string };
