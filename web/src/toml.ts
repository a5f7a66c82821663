/** Reads and changes single values of a scenario's text and leaves the rest as it is. */

/** The lines of the `nth` section of a name: from the line after its head up to the next head. */
const section = (lines: string[], head: string, nth: number): [number, number] | null => {
  let seen = -1;
  for (let at = 0; at < lines.length; at += 1) {
    if (lines[at]?.trim() !== head || ++seen !== nth) continue;
    let end = at + 1;
    while (end < lines.length && !lines[end]?.trimStart().startsWith("[")) end += 1;
    return [at + 1, end];
  }
  return null;
};

const LINE = (key: string): RegExp => new RegExp(`^(\\s*${key}\\s*=\\s*)("[^"]*"|[^#]*?)(\\s*(?:#.*)?)$`);
const INLINE = (key: string): RegExp => new RegExp(`(\\b${key}\\s*=\\s*)("[^"]*"|[\\w.]+)`);

const bare = (value: string): string => value.trim().replace(/^"(.*)"$/, "$1");

/** A place in a scenario: a section, the nth of its name, a key, and a key of an inline table in it. */
export interface Place {
  head: string;
  nth?: number;
  key: string;
  inside?: string;
}

const found = (lines: string[], place: Place): { at: number; value: string } | null => {
  const where = section(lines, place.head, place.nth ?? 0);
  if (!where) return null;
  for (let at = where[0]; at < where[1]; at += 1) {
    const line = LINE(place.key).exec(lines[at] ?? "");
    if (line) return { at, value: line[2] ?? "" };
  }
  return null;
};

/** The value at a place, without quotes; none if it is not written. */
export const read = (text: string, place: Place): string | null => {
  const there = found(text.split("\n"), place);
  if (!there) return null;
  const table = there.value.startsWith("{");
  if (place.inside === undefined) return table ? null : bare(there.value);
  const value = table ? INLINE(place.inside).exec(there.value)?.[2] : undefined;
  return value === undefined ? null : bare(value);
};

/** The text with another value at a place; the same text if there is no such section. */
export const write = (text: string, place: Place, value: string): string => {
  const lines = text.split("\n");
  const there = found(lines, place);
  const said = JSON.stringify(value);
  if (there) {
    const line = lines[there.at] ?? "";
    const inside = place.inside === undefined || !there.value.startsWith("{") ? null : INLINE(place.inside);
    if (inside && !inside.test(line)) return text;
    lines[there.at] = inside ? line.replace(inside, (_, before: string) => before + said) : line.replace(LINE(place.key), (_, before: string, __, after: string) => before + said + after);
    return lines.join("\n");
  }
  const where = section(lines, place.head, place.nth ?? 0);
  if (!where || place.inside !== undefined) return text;
  lines.splice(where[0], 0, `${place.key} = ${said}`);
  return lines.join("\n");
};

/** How many sections have a head. */
export const count = (text: string, head: string): number => text.split("\n").filter((line) => line.trim() === head).length;
