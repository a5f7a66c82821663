/** A scenario as text and as controls, in step with each other. */
import { attach, complete, type Schema } from "./complete";
import { byId, make, settled } from "./dom";
import type { Problem } from "./engine";
import { shown } from "./quantity";
import { count, read, write, type Place } from "./toml";

const PLACES: Record<string, Place> = {
  rate: { head: "[path]", key: "rate" },
  rtt: { head: "[path]", key: "rtt" },
  buffer: { head: "[path]", key: "queue", inside: "size" },
  loss: { head: "[path]", key: "loss" },
};

/** A slider: steps of a scale, its place in the text, and how a value is written. */
interface Slider {
  place: Place;
  steps: number[];
  unit: string;
  factors: Record<string, number>;
}

const SLIDERS: Record<string, Slider> = {
  rate: { place: PLACES["rate"] as Place, steps: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], unit: "Mbit/s", factors: { "kbit/s": 0.001, "Mbit/s": 1, "Gbit/s": 1000 } },
  rtt: { place: PLACES["rtt"] as Place, steps: [1, 2, 5, 10, 20, 40, 80, 100, 200, 400], unit: "ms", factors: { us: 0.001, ms: 1, s: 1000 } },
  buffer: { place: PLACES["buffer"] as Place, steps: [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 100], unit: "bdp", factors: { bdp: 1 } },
  loss: { place: PLACES["loss"] as Place, steps: [0, 0.01, 0.1, 0.5, 1, 2, 5, 10], unit: "%", factors: { "%": 1 } },
};
/** Groups of flows that have a menu for their controller. */
const GROUPS = 6;
const PROBLEMS = 20;

const nearest = (steps: number[], value: number): number => {
  const far = steps.map((step) => Math.abs(Math.log((step + 1e-3) / (value + 1e-3))));
  return far.indexOf(Math.min(...far));
};

/** Where the controller of a group of flows is written. */
export const controllerOf = (text: string, nth = 0): Place => {
  const simple: Place = { head: "[[flows]]", nth, key: "cc" };
  return read(text, simple) === null ? { ...simple, inside: "name" } : simple;
};

export interface Hands {
  schema: Schema;
  controllers: string[];
  /** The problems of a text. */
  check(text: string): Promise<Problem[]>;
  /** Ctrl+Enter. */
  run(): void;
}

export class Editor {
  readonly #text = byId("toml", HTMLTextAreaElement);
  readonly #problems = byId("problems", HTMLElement);
  readonly #hands: Hands;
  readonly #suggest: () => void;
  /** Problems in addition to the text's own, until it is edited. */
  #notice: Problem[] = [];
  #checked = 0;
  /** Whether a run has reported the text's problems. */
  #judged = false;

  constructor(hands: Hands) {
    this.#hands = hands;
    for (const [name, slider] of Object.entries(SLIDERS)) {
      const input = byId(`slide-${name}`, HTMLInputElement);
      input.addEventListener("input", () => this.edit(write(this.text, slider.place, `${slider.steps[Number(input.value)] ?? 0} ${slider.unit}`)));
    }
    this.#text.addEventListener("input", () => {
      this.#notice = [];
      this.#suggest();
      this.#follow();
      this.check();
    });
    this.#text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) hands.run();
    });
    this.#suggest = attach(this.#text, byId("completions", HTMLElement), () => complete(this.text, this.#text.selectionStart, hands.schema, hands.controllers));
  }

  get text(): string {
    return this.#text.value;
  }

  /** Puts another text in its place. */
  edit(text: string): void {
    this.#notice = [];
    this.#text.value = text;
    this.#follow();
    this.check();
  }

  /** Looks for problems, when typing has stopped. */
  check(): void {
    this.#judged = false;
    this.#look();
  }

  readonly #look = settled(() => {
    // A run that was started in the meantime knows better.
    if (this.#judged) return;
    const turn = ++this.#checked;
    void this.#hands
      .check(this.text)
      .then((found) => {
        // An answer about an earlier text is ignored.
        if (turn === this.#checked) this.#put(found);
      })
      .catch(() => undefined);
  }, 250);

  /** Says something that is not about the text. */
  warn(message: string): void {
    this.#notice = [{ message }];
    this.show([]);
  }

  /** Shows problems of a run, instead of those that a check may still find. */
  show(found: Problem[]): void {
    this.#checked += 1;
    this.#judged = true;
    this.#put(found);
  }

  /** A click on a problem goes to its line. */
  #put(checked: Problem[]): void {
    const found = [...this.#notice, ...checked];
    this.#problems.replaceChildren();
    this.#problems.hidden = !found.length;
    document.body.dataset["problems"] = String(found.length);
    for (const { message, line, hint } of found.slice(0, PROBLEMS)) {
      const item = make("li", undefined, this.#problems);
      const told = `${line ? `line ${line}: ` : ""}${message}${hint ? `. Help: ${hint}` : ""}`;
      if (!line) {
        item.textContent = told;
        continue;
      }
      const button = make("button", told, item);
      button.type = "button";
      button.addEventListener("click", () => this.#select(line));
    }
  }

  #select(line: number): void {
    const lines = this.text.split("\n");
    const at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.#text.focus();
    this.#text.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0));
  }

  /** Shows the values of the text in sliders and menus. */
  #follow(): void {
    for (const [name, slider] of Object.entries(SLIDERS)) {
      const input = byId(`slide-${name}`, HTMLInputElement);
      const label = byId(`value-${name}`, HTMLOutputElement);
      const value = this.#value(slider);
      input.disabled = value === null;
      input.max = String(slider.steps.length - 1);
      if (value !== null) input.value = String(nearest(slider.steps, value));
      label.textContent = value === null ? (read(this.text, slider.place) ?? "see the text") : `${shown(value)} ${slider.unit}`;
      input.setAttribute("aria-valuetext", label.textContent);
    }
    const box = byId("controllers", HTMLElement);
    const groups = Array.from({ length: Math.min(count(this.text, "[[flows]]"), GROUPS) }, (_, nth) => nth);
    box.replaceChildren();
    for (const nth of groups) {
      const place = controllerOf(this.text, nth);
      const label = make("label", `flow${groups.length > 1 ? ` ${nth + 1}` : ""}`, box);
      const choice = make("select", undefined, label);
      for (const name of this.#hands.controllers) make("option", name, choice);
      choice.value = read(this.text, place) ?? "";
      choice.addEventListener("change", () => this.edit(write(this.text, place, choice.value)));
    }
  }

  #value(slider: Slider): number | null {
    const said = read(this.text, slider.place);
    if (said === null) return slider.unit === "%" ? 0 : null;
    const parts = /^([\d.]+)\s*(\S*)$/.exec(said);
    const factor = slider.factors[parts?.[2] ?? ""];
    return parts && factor !== undefined ? Number(parts[1]) * factor : null;
  }
}
