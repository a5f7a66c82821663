/** The packets of a flow, each drawn where few enough are in view. */
import type uPlotType from "uplot";
import type { Packets } from "./api";
import { SIDE, axis, cursor, styled, timeAxis, tone } from "./chart";
import { make } from "./dom";
import { seconds, shown } from "./quantity";

/** With more packets in view they hide each other: their outline is drawn. */
const MANY = 3000;
/** Losses and marks are thinned to one in this many pixels. */
const APART = 3;
const MB = 1e6;

const BLUE = "#0072B2";
const GREEN = "#009E73";
const ORANGE = "#D55E00";
const PURPLE = "#CC79A7";

/** Rows as they were recorded: seconds, bytes from the start of the stream. */
export interface Rows {
  kinds: string[];
  times: Float64Array;
  kind: Uint8Array;
  from: Float64Array;
  to: Float64Array;
}

export const unpacked = ({ kinds, t_us, kind, seq_bytes, len_bytes }: Packets): Rows => {
  const count = t_us.length;
  const rows: Rows = { kinds, times: new Float64Array(count), kind: Uint8Array.from(kind), from: new Float64Array(count), to: new Float64Array(count) };
  const last = kinds.map(() => 0);
  let now = 0;
  for (let row = 0; row < count; row += 1) {
    now += t_us[row] ?? 0;
    const which = kind[row] ?? 0;
    const start = (last[which] ?? 0) + (seq_bytes[row] ?? 0);
    last[which] = start;
    rows.times[row] = now / 1e6;
    rows.from[row] = start;
    rows.to[row] = start + (len_bytes[row] ?? 0);
  }
  return rows;
};

/** The first row at a time or after it. */
export const at = (times: Float64Array, t: number): number => {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? Infinity) < t) low = middle + 1;
    else high = middle;
  }
  return low;
};

/** The end of the sent and of the acknowledged data, at each row. */
const outline = (rows: Rows): [number[], number[]] => {
  const [ack, sends] = [rows.kinds.indexOf("ack"), rows.kinds.indexOf("send")];
  let [sent, acknowledged] = [0, 0];
  const lines: [number[], number[]] = [[], []];
  rows.times.forEach((_, row) => {
    if (rows.kind[row] === sends) sent = Math.max(sent, rows.to[row] ?? 0);
    if (rows.kind[row] === ack) acknowledged = Math.max(acknowledged, rows.from[row] ?? 0);
    lines[0].push(sent / MB);
    lines[1].push(acknowledged / MB);
  });
  return lines;
};

type Look = (ctx: CanvasRenderingContext2D, x: number, low: number, high: number, ratio: number) => void;

const bar =
  (colour: string, width: number): Look =>
  (ctx, x, low, high, ratio) => {
    ctx.fillStyle = tone(colour)();
    ctx.fillRect(x - (width * ratio) / 2, high, width * ratio, Math.max(low - high, ratio));
  };

const cross: Look = (ctx, x, low, high, ratio) => {
  const [middle, arm] = [(low + high) / 2, 4 * ratio];
  ctx.strokeStyle = styled("--bad", "#b00020");
  ctx.lineWidth = 1.5 * ratio;
  ctx.beginPath();
  for (const side of [-1, 1]) {
    ctx.moveTo(x - arm, middle - side * arm);
    ctx.lineTo(x + arm, middle + side * arm);
  }
  ctx.stroke();
};

const ring: Look = (ctx, x, low, high, ratio) => {
  ctx.strokeStyle = tone("#000000")();
  ctx.lineWidth = 1.25 * ratio;
  ctx.beginPath();
  ctx.arc(x, (low + high) / 2, 3.5 * ratio, 0, 7);
  ctx.stroke();
};

const dot: Look = (ctx, x, low, _, ratio) => {
  ctx.fillStyle = tone(GREEN)();
  ctx.fillRect(x - 1.5 * ratio, low - 1.5 * ratio, 3 * ratio, 3 * ratio);
};

/** How each kind looks and what it is called; never by colour alone. */
const LOOKS: Record<string, [word: string, sign: string, look: Look]> = {
  send: ["sent", "❘", bar(BLUE, 2)],
  retransmit: ["retransmitted", "▮", bar(ORANGE, 5)],
  sack: ["SACK", "▯", bar(PURPLE, 3)],
  ack: ["ACK", "▪", dot],
  drop: ["dropped", "×", cross],
  mark: ["CE mark", "○", ring],
};
const COLOURS: Record<string, string> = { send: BLUE, retransmit: ORANGE, sack: PURPLE, ack: GREEN };

/** Those that are drawn at every zoom. */
const RARE = new Set(["retransmit", "drop", "mark"]);

const each = (rows: Rows, told: (visible: number) => void) => (u: uPlotType): void => {
  const { ctx, bbox } = u;
  const { min, max } = u.scales["x"] ?? {};
  if (min == null || max == null) return;
  const [first, end] = [at(rows.times, min), at(rows.times, max)];
  const few = end - first <= MANY;
  told(end - first);
  const ratio = devicePixelRatio || 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const free = rows.kinds.map(() => -Infinity);
  for (let row = first; row < end; row += 1) {
    const which = rows.kind[row] ?? 0;
    const kind = rows.kinds[which] ?? "";
    const look = LOOKS[kind]?.[2];
    if (!look || !(few || RARE.has(kind))) continue;
    const x = u.valToPos(rows.times[row] ?? 0, "x", true);
    if (!few && x < (free[which] ?? 0)) continue;
    free[which] = x + APART * ratio;
    look(ctx, x, u.valToPos((rows.from[row] ?? 0) / MB, "y", true), u.valToPos((rows.to[row] ?? 0) / MB, "y", true), ratio);
  }
  ctx.restore();
};

/** A plot of them, with its key. */
export const sequence = (label: string, packets: Packets, width: number, height: number, margin: number, box: HTMLElement, follow: (u: uPlotType, key: string) => void): uPlotType => {
  const rows = unpacked(packets);
  const [sent, acknowledged] = outline(rows);
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  const line = (name: string, colour: string): uPlotType.Series => ({
    label: name,
    stroke: tone(colour),
    width: 1,
    points: { show: false },
    value: (_, value) => (value == null ? "" : shown(value)),
    ...(stepped ? { paths: stepped } : {}),
  });
  const key = make("p");
  key.className = "note packets";
  const said = make("span", undefined, key);
  for (const [kind, [word, sign]] of Object.entries(LOOKS)) {
    if (!rows.kind.includes(rows.kinds.indexOf(kind))) continue;
    const entry = make("span", undefined, key);
    const mark = make("i", sign, entry);
    mark.setAttribute("aria-hidden", "true");
    mark.style.color = COLOURS[kind] ?? (kind === "drop" ? "var(--bad)" : "var(--ink)");
    entry.append(` ${word}`);
  }
  const left = packets.until === null ? "" : ` Packets after ${packets.until.toFixed(2)} s are not in this page: \`paceline sequence --from\` draws them.`;
  const told = (visible: number): void => {
    box.dataset["visible"] = String(visible);
    said.textContent = visible > MANY ? `${visible.toLocaleString("en")} packets are in view, drawn as their outline; at ${MANY.toLocaleString("en")} or fewer, each is drawn.${left}` : `Each of ${visible.toLocaleString("en")} packets in view is drawn.${left}`;
  };
  const plot = new uPlot(
    {
      title: `Packets of ${label}, by sequence number`,
      width,
      height,
      padding: [null, margin, null, 0],
      scales: { x: { time: false }, y: { range: (_, low, high) => (low == null || high == null ? [0, 1] : [low - (high - low) * 0.06 - 0.002, high + (high - low) * 0.06 + 0.002]) } },
      axes: [timeAxis(), axis("MB", SIDE - 18)],
      series: [{ label: "time", value: (_, t) => (t == null ? "" : seconds(t)) }, line("sent", BLUE), line("acknowledged", GREEN)],
      cursor: cursor(),
      hooks: { setScale: [follow], draw: [each(rows, told)] },
    },
    [Array.from(rows.times), sent, acknowledged],
    box,
  );
  box.append(key);
  return plot;
};
