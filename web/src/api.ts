/** What pages are told. Written by docs/generate.py. */

/** A run below the folder that is served. */
export interface RunEntry {
  kind: "run";
  id: string;
  changed_ns: number;
  scenario: string;
  seed: number;
  backend: "sim" | "emu" | "vm";
  /** Why an emulated run is not reliable; empty if it is. */
  beyond: string[];
  controllers: string[];
  flows: number;
  /** For people, with their units. */
  metrics: Record<string, string>;
}

/** A sweep below it. */
export interface SweepEntry {
  kind: "sweep";
  id: string;
  changed_ns: number;
  scenario: string;
  axes: string[];
  runs: number;
  pictures: string[];
}

/** All runs and sweeps. */
export interface Listing {
  runs: (RunEntry | SweepEntry)[];
  /** Titles by column, in the order of the plots. */
  quantities: Record<string, string>;
}

/** A line of a plot. */
export interface Line {
  run: string;
  label: string;
  colour: string;
  dash: number[];
  values: (number | null)[];
}

/** A plot of some runs. */
export interface Series {
  title: string;
  unit: string;
  /** When the longest of the runs ends, in seconds. */
  end: number;
  times: number[];
  lines: Line[];
}

/** A run requested by the page. */
export interface JobState {
  job: number;
  backend: "sim" | "emu" | "vm";
  state: "running" | "done" | "failed" | "stopped";
  message: string;
  /** The run that it produced. */
  id: string | null;
  simulated_ns: number;
  total_ns: number;
  /** Counts updates of its plots. */
  version: number;
}

/** A line of a report's plot. */
export interface Shape {
  label: string;
  colour: string;
  dash: number[];
  /** Whether it uses the right axis. */
  right: boolean;
  values: (number | null)[];
}

/** A plot of a report. */
export interface Panel {
  title: string;
  unit: string;
  unitRight: string | null;
  stacked: boolean;
  times: number[];
  series: Shape[];
}

/** A span, in seconds, in which a controller was in one state. */
export interface Band {
  start: number;
  end: number;
  state: string;
}

/** What is drawn of one flow. */
export interface Detail {
  flow: number;
  panels: Panel[];
  bands: Band[];
}

/** What a report draws. */
export interface Drawn {
  end: number;
  overview: Panel[];
  details: Detail[];
  /** The colour of each state. */
  tints: Record<string, string>;
}
