/** The engine of a server, which stores its runs in its folder. */
import type { JobState, Problems, Series } from "./api";
import { ask } from "./ask";
import { type Ended, type Engine, type Problem, Refused, Stopped, type Watch } from "./engine";

/** How a run is to be made beyond its scenario. */
export interface Choice {
  backend: string;
  seed: number | null;
  /** For its folder; empty for one after the scenario. */
  name: string;
}

export class Http implements Engine {
  readonly #choice: () => Choice;
  #job: number | null = null;

  constructor(choice: () => Choice) {
    this.#choice = choice;
  }

  async check(text: string): Promise<Problem[]> {
    return (await ask<Problems>("/api/check", { scenario: text })).problems;
  }

  async run(text: string, watch: Watch): Promise<Ended> {
    const problems = await this.check(text);
    // Only a kernel says what it cannot do of a scenario.
    const { backend, seed, name } = this.#choice();
    if (problems.length && backend === "sim") throw new Refused(problems);
    const job = await ask<JobState>("/api/run", { scenario: text, backend, seed, name });
    this.#job = job.job;
    try {
      return await this.#follow(job, watch);
    } finally {
      this.#job = null;
    }
  }

  stop(): void {
    if (this.#job !== null) void ask(`/api/jobs/${this.#job}/stop`, {}).catch(() => undefined);
  }

  series(quantity: string, runs: string[], span: [number, number] | null): Promise<Series> {
    const which = runs.map((id) => `id=${encodeURIComponent(id)}`);
    if (span) which.push(`from=${span[0]}`, `to=${span[1]}`);
    return ask<Series>(`/api/series?quantity=${quantity}&${which.join("&")}`);
  }

  #follow(job: JobState, watch: Watch): Promise<Ended> {
    const events = new EventSource(`/api/jobs/${job.job}/events`);
    let version = 0;
    return new Promise<Ended>((resolve, reject) => {
      events.onmessage = ({ data }: MessageEvent<string>) => {
        const said = JSON.parse(data) as JobState;
        watch.progress(said);
        if (said.state === "done" && said.id) resolve({ run: said.id, said: "done" });
        else if (said.state === "failed") reject(new Error(said.message));
        else if (said.state === "stopped") reject(new Stopped("stopped"));
        else if (said.version > version) watch.more(`job:${said.job}`);
        version = said.version;
      };
      events.onerror = () => reject(new Error("the server has gone"));
    }).finally(() => events.close());
  }
}
