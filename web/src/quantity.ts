/** Numbers for display, in a plot's units. */

export const shown = (value: number | null | undefined): string => (value == null ? "–" : Number(value.toPrecision(4)).toLocaleString("en"));

export const seconds = (value: number | null): string => (value == null ? "–" : `${value.toFixed(3)} s`);
