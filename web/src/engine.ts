/** The interface of an engine for a page: a server's (`http.ts`) or the simulator in a worker (`wasm.ts`). */
import type { Series } from "./api";

/** A problem of a scenario, with its place. */
export interface Problem {
  message: string;
  line?: number | null;
  key?: string;
  hint?: string | null;
}

/** The progress of a run. */
export interface Progress {
  simulated_ns: number;
  total_ns: number;
}

/** A page's callbacks for a run. */
export interface Watch {
  progress(at: Progress): void;
  /** There is more to draw. */
  more(run: string): void;
}

/** How a run ended: the name under which its lines are found. */
export interface Ended {
  run: string;
  said: string;
}

export interface Engine {
  /** The problems of a scenario. */
  check(text: string): Promise<Problem[]>;
  /** Runs a scenario to its end. Rejects with [`Refused`] if it cannot run, with [`Stopped`] if it was stopped. */
  run(text: string, watch: Watch): Promise<Ended>;
  stop(): void;
  /** Lines of a quantity of some runs; of all of the time unless there is a span, in seconds. */
  series(quantity: string, runs: string[], span: [from: number, to: number] | null): Promise<Series>;
}

/** A scenario cannot run. */
export class Refused extends Error {
  constructor(readonly problems: Problem[]) {
    super(problems[0]?.message ?? "the scenario cannot run");
  }
}

/** The run was stopped. */
export class Stopped extends Error {}
