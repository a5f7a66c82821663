// Built from web/ by `make web`. Sources: sha256 83a2d7f998aeab927ab849916c18e5c263ac4b44f1b7be890d34936b771df452
"use strict";
(() => {
  // src/worker.ts
  var tell = (told) => postMessage(told);
  var engine;
  var call = (act, text) => {
    if (!engine) throw new Error("the simulator is not loaded");
    const octets = new TextEncoder().encode(text);
    const at = engine.paceline_input(octets.length);
    new Uint8Array(engine.memory.buffer, at, octets.length).set(octets);
    engine[act]();
    return new Uint8Array(engine.memory.buffer, engine.paceline_output(), engine.paceline_output_len()).slice();
  };
  var words = (octets) => new TextDecoder().decode(octets);
  var run = (text, columns) => {
    const began = performance.now();
    const ran = JSON.parse(words(call("paceline_run", text)));
    const took_ms = performance.now() - began;
    let tables = null;
    if (!ran.problems.length) {
      const read = columns.map((name) => [name, new Float64Array(call("paceline_column", name).buffer)]);
      tables = { columns: Object.fromEntries(read), digest: words(call("paceline_digest", "")) };
    }
    tell({ ran, tables, took_ms });
  };
  var obey = async (order) => {
    if ("wasm" in order) {
      const heard = (simulated_ns, total_ns, packets) => tell({ simulated_ns, total_ns, packets });
      const { instance } = await WebAssembly.instantiate(order.wasm, { page: { heard } });
      engine = instance.exports;
      tell({ ready: true });
    } else if ("check" in order) tell({ checked: JSON.parse(words(call("paceline_check", order.check))) });
    else run(order.run, order.columns);
  };
  addEventListener("message", ({ data }) => {
    obey(data).catch((error) => tell({ failed: error instanceof Error ? error.message : String(error) }));
  });
})();
