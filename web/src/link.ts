/** A text as the fragment of an address, compressed. Browsers do not send fragments to servers. */

/** The longest text that a link may hold, in characters: a link may come from anyone. */
const LONGEST = 200_000;

const through = async (octets: Uint8Array<ArrayBuffer>, change: CompressionStream | DecompressionStream, most: number): Promise<Uint8Array<ArrayBuffer>> => {
  const stream = new Blob([octets]).stream().pipeThrough(change);
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > most) throw new Error("the link is larger than a scenario can be");
    parts.push(value);
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};

export const packed = async (text: string): Promise<string> => {
  const octets = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"), Infinity);
  const binary = Array.from(octets, (octet) => String.fromCharCode(octet)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
};

/** The text of a link. Throws an error for people if it is truncated or damaged. */
export const unpacked = async (said: string): Promise<string> => {
  try {
    const binary = atob(said.replaceAll("-", "+").replaceAll("_", "/"));
    const octets = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
    const text = await through(octets, new DecompressionStream("deflate-raw"), LONGEST);
    return new TextDecoder("utf-8", { fatal: true }).decode(text);
  } catch (error) {
    const why = error instanceof Error && error.message.startsWith("the link") ? error.message : "it is truncated or damaged";
    throw new Error(`The link cannot be read: ${why}. Copy it again, or start with a lesson.`);
  }
};
