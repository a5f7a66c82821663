/** Lines over time from columns, as `paceline serve` makes them: no peak is lost at any zoom. */

export type Line = (number | null)[];

/** The rows of one flow or link: how long a run may be, and where rows are cut. */
export interface Cut {
  from: number;
  to: number;
  buckets: number;
}

/** The minimum and maximum of each bucket of time, in the order in which they came, for each flow or link. */
export const envelopes = (keys: Float64Array, times: Float64Array, values: Float64Array, { from, to, buckets }: Cut): Map<number, Line> => {
  const lines = new Map<number, Line>();
  const seen = new Map<number, { bucket: number; low: number; high: number; rising: boolean }>();
  const flush = (key: number): void => {
    const one = seen.get(key);
    const line = lines.get(key);
    if (!one || !line) return;
    line[2 * one.bucket] = one.rising ? one.low : one.high;
    line[2 * one.bucket + 1] = one.rising ? one.high : one.low;
  };
  for (let row = 0; row < values.length; row += 1) {
    const [value, at] = [values[row] as number, times[row] as number];
    if (Number.isNaN(value) || at < from || at > to) continue;
    const key = keys[row] as number;
    const bucket = Math.min(Math.floor(((at - from) / (to - from)) * buckets), buckets - 1);
    if (!lines.has(key)) lines.set(key, Array<number | null>(2 * buckets).fill(null));
    const one = seen.get(key);
    if (one?.bucket === bucket) {
      if (value < one.low) [one.low, one.rising] = [value, false];
      if (value > one.high) [one.high, one.rising] = [value, true];
    } else {
      flush(key);
      seen.set(key, { bucket, low: value, high: value, rising: true });
    }
  }
  for (const key of seen.keys()) flush(key);
  return lines;
};

/** The rate at which a counter of bytes grew in each bucket, in bit/s; a bucket lasts `least` nanoseconds or more. */
export const rates = (keys: Float64Array, times: Float64Array, totals: Float64Array, { from, to, buckets }: Cut, least: number): Map<number, Line> => {
  const bins = Math.min(buckets, Math.max(Math.floor((to - from) / least), 1));
  const lines = new Map<number, Line>();
  const done = new Map<number, { at: number; total: number; bin: number }>();
  for (let row = 0; row < totals.length; row += 1) {
    const [key, at, total] = [keys[row] as number, times[row] as number, totals[row] as number];
    const bin = at < from ? -1 : Math.floor(((at - from) / (to - from)) * bins);
    if (!lines.has(key)) lines.set(key, Array<number | null>(2 * buckets).fill(null));
    const since = done.get(key) ?? { at: 0, total: 0, bin: Math.min(bin, 0) };
    if (bin > since.bin || !done.has(key)) {
      if (at > since.at && since.bin >= 0 && since.bin < bins) {
        const line = lines.get(key) ?? [];
        const [first, last] = [(since.bin * 2 * buckets) / bins, (Math.min(bin, bins) * 2 * buckets) / bins];
        for (let slot = Math.floor(first); slot < last; slot += 1) line[slot] = ((total - since.total) * 8e9) / (at - since.at);
      }
      done.set(key, { at, total, bin });
    } else if (bin < 0) done.set(key, { at, total, bin });
  }
  return lines;
};
