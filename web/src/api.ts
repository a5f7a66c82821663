/** What the server answers; `tests/test_web.py` holds these names against it. */

export interface RunEntry {
  kind: "run";
  id: string;
  changed_ns: number;
  scenario: string;
  seed: number;
  backend: "sim" | "emu";
  /** Why an emulated run is not to be trusted; nothing if it is. */
  beyond: string[];
  controllers: string[];
  flows: number;
  metrics: Record<string, number | null>;
}

export interface SweepEntry {
  kind: "sweep";
  id: string;
  changed_ns: number;
  scenario: string;
  axes: string[];
  runs: number;
  pictures: string[];
}

export type Entry = RunEntry | SweepEntry;

export interface Listing {
  runs: Entry[];
  /** Titles by column, in the order in which plots stand. */
  quantities: Record<string, string>;
}

export interface Line {
  run: string;
  label: string;
  colour: string;
  dash: number[];
  values: (number | null)[];
}

export interface Series {
  title: string;
  unit: string;
  /** When the longest of the runs ends, in seconds. */
  end: number;
  times: number[];
  lines: Line[];
}

export interface JobState {
  job: number;
  backend: "sim" | "emu";
  state: "running" | "done" | "failed" | "stopped";
  message: string;
  /** The run that has come of it. */
  id: string | null;
  simulated_ns: number;
  total_ns: number;
  /** Counts what there is to see. */
  version: number;
}

/** Asks the server, or gives it an order. */
export const ask = async <Answer>(path: string, order?: object): Promise<Answer> => {
  const options = order && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(order) };
  const answer = await fetch(path, options);
  const value: unknown = await answer.json();
  if (!answer.ok) throw new Error((value as { error: string }).error);
  return value as Answer;
};
