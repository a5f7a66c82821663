/** A sweep as a picture: each mark is a button that leads to the runs of its point. */
import type { Mark, Picture } from "./api";
import { tone } from "./chart";
import { make } from "./dom";
import { shown } from "./quantity";

const SVG = "http://www.w3.org/2000/svg";
const [WIDEST, NARROWEST, HEIGHT] = [760, 320, 300];
/** Room for the labels of the axes. */
const [LEFT, RIGHT, TOP, BOTTOM] = [62, 14, 26, 46];
/** Numbers on an axis, about. */
const TICKS = 5;
/** Pixels of a tick's text. */
const ROOM = 44;

const draw = (tag: string, attributes: Record<string, string | number>, inside: Element, text?: string): SVGElement => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  if (text !== undefined) element.textContent = text;
  inside.append(element);
  return element;
};

/** Round numbers from `low` to `high`. */
const round = (low: number, high: number): number[] => {
  const raw = (high - low) / TICKS;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5].find((factor) => factor * size >= raw) ?? 10) * size;
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, nth) => Number(((first + nth) * step).toPrecision(12)));
};

/** From values to pixels; equal ends get room. */
const scale = (low: number, high: number, from: number, to: number, log = false): ((value: number) => number) => {
  const place = log ? Math.log : (value: number): number => value;
  const [start, end] = [place(low), place(high)];
  return (value) => (start === end ? (from + to) / 2 : from + ((place(value) - start) / (end - start)) * (to - from));
};

/** Left, right, Home and End move between the marks, of which Tab reaches one; Enter and Space choose. */
const keys = (marks: SVGElement[], chosen: (nth: number) => void): void => {
  marks.forEach((mark, nth) => {
    mark.setAttribute("tabindex", nth === 0 ? "0" : "-1");
    mark.addEventListener("click", () => chosen(nth));
    mark.addEventListener("keydown", ({ key }) => {
      const to = { ArrowLeft: nth - 1, ArrowDown: nth - 1, ArrowRight: nth + 1, ArrowUp: nth + 1, Home: 0, End: marks.length - 1 }[key];
      const next = marks[to ?? -1];
      if (next) {
        mark.setAttribute("tabindex", "-1");
        next.setAttribute("tabindex", "0");
        next.focus();
      }
      if (key === "Enter" || key === " ") chosen(nth);
    });
    mark.addEventListener("keydown", (event) => {
      if (/^(Arrow|Home|End|Enter| )/.test(event.key)) event.preventDefault();
    });
  });
};

/** Draws into `box`; `names` are the names of the points. */
export const picture = (box: HTMLElement, { across, up, ticks, log, joined, lines, marks }: Picture, names: string[], chosen: (point: number) => void): void => {
  const width = Math.max(Math.min(box.clientWidth, WIDEST), NARROWEST);
  const root = draw("svg", { class: "sweep", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": `${up} over ${across}` }, box);
  const [right, bottom] = [width - RIGHT, HEIGHT - BOTTOM];
  const all = (of: (mark: Mark) => (number | null)[]): number[] => marks.flatMap(of).filter((value) => value !== null);
  const [xs, ys] = [ticks.length ? ticks.map(({ at }) => at) : all(({ x }) => [x]), all(({ y, low, high }) => [y, low, high])];
  const [low, high] = [Math.min(0, ...ys), 1.05 * Math.max(0, ...ys) || 1];
  const x = scale(Math.min(...xs), Math.max(...xs), LEFT + 12, right - 12, log);
  const y = scale(low, high, bottom, TOP);
  for (const value of round(low, high)) {
    draw("line", { class: "grid-line", x1: LEFT, x2: right, y1: y(value), y2: y(value) }, root);
    draw("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, root, shown(value));
  }
  let free = 0;
  const below = ticks.length ? [...ticks].sort((one, other) => one.at - other.at) : round(Math.min(...xs), Math.max(...xs)).map((at) => ({ at, text: shown(at) }));
  for (const { at, text } of below) {
    draw("line", { class: "grid-line", x1: x(at), x2: x(at), y1: bottom, y2: bottom + 4 }, root);
    if (x(at) < free) continue;
    draw("text", { x: x(at), y: bottom + 17, "text-anchor": "middle" }, root, text);
    free = x(at) + Math.max(ROOM, 7 * text.length);
  }
  draw("text", { x: (LEFT + right) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, root, across);
  draw("text", { x: 4, y: 14 }, root, up);
  lines.forEach(({ colour, dash }, nth) => {
    const line = marks.filter((mark) => mark.line === nth);
    const step = (mark: Mark, at: number): string => `${at ? (joined === "steps" ? `H${x(mark.x)}V${y(mark.y)}` : `L${x(mark.x)} ${y(mark.y)}`) : `M${x(mark.x)} ${y(mark.y)}`}`;
    if (joined !== "no") draw("path", { class: "line", d: line.map(step).join(""), stroke: tone(colour)(), "stroke-dasharray": dash.join(" ") }, root);
    for (const { x: at, low: from, high: to } of line) if (from !== null && to !== null) draw("path", { class: "line", d: `M${x(at)} ${y(from)}V${y(to)}m-3 0h6M${x(at) - 3} ${y(from)}h6`, stroke: tone(colour)() }, root);
  });
  const buttons = marks.map((mark) => {
    const name = names[mark.point] ?? "";
    const button = draw("g", { class: "mark", role: "button", "aria-label": name }, root);
    // The clickable area is larger than the visible mark.
    draw("circle", { cx: x(mark.x), cy: y(mark.y), r: 12, class: "reach" }, button);
    draw("circle", { cx: x(mark.x), cy: y(mark.y), r: marks.length > 100 ? 2.5 : 4, fill: tone(lines[mark.line]?.colour ?? "#000000")() }, button);
    draw("title", {}, button, name);
    return button;
  });
  keys(buttons, (nth) => chosen(marks[nth]?.point ?? 0));
  const told = lines.filter(({ label }) => label);
  if (!told.length) return;
  const legend = make("p", undefined, box);
  legend.className = "note";
  for (const { label, colour, dash } of told) {
    const key = draw("svg", { width: 26, height: 10, "aria-hidden": "true" }, legend);
    draw("line", { class: "line", x1: 1, x2: 25, y1: 5, y2: 5, stroke: tone(colour)(), "stroke-dasharray": dash.join(" ") }, key);
    legend.append(` ${label}  `);
  }
};
