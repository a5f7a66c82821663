/** A run that was asked for: its progress, and what there is of it. */
import type { JobState } from "./api";
import { ask } from "./ask";
import { byId } from "./dom";

interface Hands {
  /** There is more of a run to see. */
  more(run: string): Promise<unknown>;
  /** It is in the folder of runs. */
  done(run: string): Promise<unknown>;
  tell(error?: unknown): void;
}

const progress = byId("progress", HTMLProgressElement);
const stop = byId("stop", HTMLButtonElement);
const start = byId("start", HTMLButtonElement);
const state = byId("state", HTMLOutputElement);

const say = (said: JobState): string => {
  if (said.state !== "running") return said.state;
  const far = `${(said.simulated_ns / 1e9).toFixed(1)} of ${said.total_ns / 1e9} s`;
  return said.backend === "emu" ? `${far}, emulated in real time; plots come at its end` : far;
};

export const follow = (job: JobState, hands: Hands): void => {
  let version = 0;
  let over = false;
  const events = new EventSource(`/api/jobs/${job.job}/events`);
  const wish = (): void => void ask(`/api/jobs/${job.job}/stop`, {}).catch(hands.tell);
  stop.addEventListener("click", wish);
  const busy = (now: boolean): void => {
    progress.hidden = stop.hidden = !now;
    start.disabled = now;
  };
  const end = (): void => {
    over = true;
    events.close();
    stop.removeEventListener("click", wish);
    busy(false);
  };
  busy(true);
  const show = async (said: JobState): Promise<void> => {
    try {
      if (said.state === "done" && said.id) await hands.done(said.id);
      else if (said.state === "failed") hands.tell(new Error(said.message));
      else if (said.version > version) {
        version = said.version;
        await hands.more(`job:${said.job}`);
      }
    } catch (error) {
      hands.tell(error);
    }
    document.body.dataset["job"] = said.state;
  };
  // One after the other: what is fetched of a part must not be drawn over the whole.
  let shown = Promise.resolve();
  events.onmessage = (message: MessageEvent<string>) => {
    const said = JSON.parse(message.data) as JobState;
    progress.value = said.simulated_ns / said.total_ns;
    state.textContent = say(said);
    if (said.state !== "running") end();
    shown = shown.then(() => show(said));
  };
  events.onerror = () => {
    if (!over) hands.tell(new Error("the server has gone"));
    end();
  };
};
