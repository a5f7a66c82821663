/** Numbers with their units. */

export const shown = (value: number | null | undefined): string => (value == null ? "–" : Number(value.toPrecision(4)).toLocaleString("en"));

export const seconds = (value: number | null): string => (value == null ? "–" : `${value.toFixed(3)} s`);

const UNITS: Record<string, [number, string][]> = {
  _ns: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
  _bps: [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]],
  _bytes: [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "bytes"]],
};

/** A value of a metric, whose name ends in its unit. */
export const quantity = (name: string, value: number | null | undefined): string => {
  if (value == null) return "–";
  for (const [end, scales] of Object.entries(UNITS)) {
    if (!name.endsWith(end)) continue;
    const scale = scales.find(([size]) => Math.abs(value) >= size) ?? scales.at(-1);
    if (scale) return `${shown(value / scale[0])} ${scale[1]}`;
  }
  return shown(value);
};
