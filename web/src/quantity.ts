/** Numbers beside a plot, in its units. */

export const shown = (value: number | null | undefined): string => (value == null ? "–" : Number(value.toPrecision(4)).toLocaleString("en"));

export const seconds = (value: number | null): string => (value == null ? "–" : `${value.toFixed(3)} s`);

const PREFIXES: Record<string, [unit: string, size: number][]> = {
  _bps: [["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3], ["bit/s", 1]],
  _ns: [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]],
  _bytes: [["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1]],
};

/** The unit in which a quantity of about `most` reads best. */
export const scaleOf = (suffix: string, most: number): { unit: string; size: number } => {
  const units = PREFIXES[suffix] ?? [["", 1]];
  const [unit, size] = units.find(([, size]) => most >= size) ?? units.at(-1) ?? ["", 1];
  return { unit, size };
};
