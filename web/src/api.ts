/** The JSON of pages. Written by docs/generate.py. */

/** A run in the served folder. */
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

/** A sweep in the served folder. */
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
  /** What people call each metric. */
  labels: Record<string, string>;
}

/** A point of a sweep. */
export interface GridPoint {
  /** Its number in the grid. */
  point: number;
  /** Its name along each axis. */
  place: string[];
  mean: number | null;
  /** The mean and its 95 % interval, with units. */
  text: string;
}

/** A point of a sweep in its picture. */
export interface Mark {
  /** Its place in `points`. */
  point: number;
  /** The line that it is on. */
  line: number;
  x: number;
  y: number;
  /** The 95 % interval. */
  low: number | null;
  high: number | null;
}

/** A line through marks. */
export interface Track {
  label: string;
  colour: string;
  dash: number[];
}

/** A position on an axis, and its label. */
export interface Tick {
  at: number;
  text: string;
}

/** A metric along one axis, or its distribution over a population. */
export interface Picture {
  across: string;
  up: string;
  /** On the axis across; none where any number is. */
  ticks: Tick[];
  /** Whether the axis across is logarithmic. */
  log: boolean;
  /** How marks are joined: `no`, `straight` or in `steps`. */
  joined: string;
  lines: Track[];
  marks: Mark[];
}

/** A metric over the points of a sweep. */
export interface Points {
  scenario: string;
  metric: string;
  metrics: string[];
  axes: string[];
  seeds: number[];
  /** How many points there are: of many, only some are in `points`. */
  total: number;
  points: GridPoint[];
  /** None over three axes and more, or for more than 12 lines. */
  picture: Picture | null;
}

/** A scenario included in the package. */
export interface Shipped {
  name: string;
  about: string;
}

/** The starting points for a new scenario. */
export interface Basis {
  scenarios: Shipped[];
  controllers: string[];
  /** The JSON Schema of scenarios. */
  schema: Record<string, unknown>;
}

/** A scenario to edit. */
export interface Scenario {
  text: string;
  /** That of the run that it is of. */
  seed: number | null;
  backend: "sim" | "emu" | "vm";
}

/** An error in a scenario. */
export interface Trouble {
  message: string;
  line: number | null;
  hint: string | null;
}

/** The errors in a scenario; none if it can run. */
export interface Problems {
  problems: Trouble[];
}

/** A setting in which two scenarios differ. */
export interface Differing {
  key: string;
  old: string;
  new: string;
}

/** A metric of two runs, for people. */
export interface Change {
  name: string;
  /** The mean of the runs, with its 95 % interval and how many they are. */
  old: string;
  new: string;
  /** The change over the old value. */
  change_ratio: number | null;
  /** The 95 % interval of the difference; null without repeats on both sides. */
  interval: string | null;
  /** How likely chance gives as much, corrected for all metrics. */
  p: number | null;
  verdict: "worse" | "better" | "untested" | "unclear" | "lost" | "gained" | "same";
}

/** Two runs side by side. */
export interface Between {
  settings: Differing[];
  metrics: Change[];
  /** How many runs are compared on each side: its repeats count. */
  runs: number[];
}

/** A run, or all its repeats. */
export interface Side {
  /** What came of it, in a sentence. */
  verdict: string;
  /** Whether an expectation failed. */
  failed: boolean;
  runs: number;
  /** Of repeats the means, with their 95 % intervals. */
  metrics: Record<string, string>;
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
  /** What the lines are compared with, such as the link rate. */
  references: Shape[];
}

/** A span, in seconds, in which a flow was in one state. */
export interface Band {
  start: number;
  end: number;
  state: string;
}

/** The packets of a flow in order of time, as seen by its sender and its path. */
export interface Packets {
  /** What a number in `kind` stands for. */
  kinds: string[];
  /** In seconds: later ones are left out; null if none are. */
  until: number | null;
  /** The first time, and the difference from each to the next. */
  t_us: number[];
  kind: number[];
  /** The first byte: its difference from the packet of the same kind before. */
  seq_bytes: number[];
  len_bytes: number[];
}

/** The plotted data of one flow. */
export interface Detail {
  flow: number;
  label: string;
  panels: Panel[];
  /** The states of the controller. */
  bands: Band[];
  /** What bounded the sender. */
  limits: Band[];
  /** Packets declared lost up to each time of the panels. */
  lost: number[];
  /** Null if they were not recorded. */
  packets: Packets | null;
}

/** An event, in words. */
export interface Happening {
  /** In seconds. */
  t: number;
  /** To which flow; none for the path. */
  flow: number | null;
  kind: string;
  text: string;
}

/** The plotted data of a report. */
export interface Drawn {
  end: number;
  overview: Panel[];
  details: Detail[];
  /** The colour of each state. */
  tints: Record<string, string>;
  /** What the scenario changed, and convergence. */
  marks: Happening[];
  happenings: Happening[];
}
