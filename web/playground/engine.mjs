// Runs scenarios with the simulator of the playground: engine.mjs WASM FILE... prints a line of JSON for each.
import { readFile } from "node:fs/promises";

const [wasm, ...files] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(await readFile(wasm), { page: { heard: () => undefined, grown: () => undefined, called: () => 1 } });
const engine = instance.exports;

const call = (act, text) => {
  const octets = new TextEncoder().encode(text);
  const at = engine.paceline_input(octets.length);
  new Uint8Array(engine.memory.buffer, at, octets.length).set(octets);
  engine[act]();
  const answer = new Uint8Array(engine.memory.buffer, engine.paceline_output(), engine.paceline_output_len());
  return new TextDecoder().decode(answer);
};

for (const file of files) {
  const { problems } = JSON.parse(call("paceline_run", await readFile(file, "utf8")));
  console.log(JSON.stringify({ file, problems, digest: call("paceline_digest", "") }));
}
