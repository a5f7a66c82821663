// Built from web/ by `make web`. Sources: sha256 3fd8b211ce8f10481060de27bddff4264bb20d32e6c23f963e0a85fd56e9866a
"use strict";
(() => {
  // src/controller.ts
  var face;
  var own;
  var fields = [];
  var address = "";
  var instances = /* @__PURE__ */ new Map();
  var CODEPOINTS = [null, "ect0", "ect1"];
  var adopt = (told) => {
    face = told;
  };
  var place = (error) => {
    const [, after] = error instanceof Error && address ? (error.stack ?? "").split(`${address}:`) : [];
    const line = /^\d+/.exec(after ?? "")?.[0];
    return line ? ` (line ${line} of the controller)` : "";
  };
  var words = (error) => `${String(error)}${place(error)}`;
  var deterministic = () => {
    const refuse = (name) => () => {
      throw new Error(`${name} makes runs differ: take times from events and draws from config.seed`);
    };
    Math.random = refuse("Math.random()");
    globalThis.Date = refuse("Date");
    performance.now = refuse("performance.now()");
  };
  var load = async (source) => {
    instances.clear();
    own = void 0;
    deterministic();
    address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    let found;
    try {
      found = await import(address);
    } catch (error) {
      throw new Error(`the controller cannot be loaded: ${words(error)}`);
    } finally {
      URL.revokeObjectURL(address);
    }
    if (typeof found.default !== "function") throw new Error("the controller has no class: write `export default class { ... }`");
    own = found.default;
  };
  var read = (kind, value, states) => {
    if (kind === "flag") return value !== 0;
    if (kind === "state") return states[value];
    return Number.isNaN(value) ? null : value;
  };
  var written = (instance, name) => {
    const value = instance[name];
    if (name === "uses_prr") return value === false ? 0 : 1;
    if (value === void 0 || value === null) return name === "ecn" ? 0 : NaN;
    if (name === "ecn") {
      const codepoint = CODEPOINTS.indexOf(value);
      if (codepoint < 0) throw new Error(`ecn is ${JSON.stringify(value)}: "ect0", "ect1" or null`);
      return codepoint;
    }
    if (typeof value !== "number") throw new Error(`${name} is ${JSON.stringify(value)}: it takes a number`);
    return value;
  };
  var make = (config, text) => {
    if (!own) throw new Error("there is no controller");
    const instance = new own(config, JSON.parse(text));
    instance["cwnd_bytes"] ??= config["initial_window_bytes"];
    return instance;
  };
  var call = (nth, number, slots, text) => {
    const method = face?.calls[nth];
    if (!face || !method) throw new Error(`there is no call ${nth}`);
    const { states, outputs } = face;
    try {
      const event = method.object && Object.fromEntries(method.object.map(([name, kind], at) => [name, read(kind, slots[at] ?? NaN, states)]));
      const made = nth === 0 && event ? make(event, text) : instances.get(number);
      if (!made) throw new Error(`there is no instance ${number}`);
      if (method.name === "state") {
        const state2 = made.state();
        fields.forEach((name, at) => slots[at] = state2[name] == null ? NaN : Number(state2[name]));
        return null;
      }
      if (nth > 0) made[method.name](...event ? [event] : slots.subarray(0, method.count));
      outputs.forEach((name, at) => slots[at] = written(made, name));
      const phases = own?.phases ?? [];
      slots[outputs.length] = phases.indexOf(made["phase"] ?? phases[0] ?? "");
      if (nth > 0) return null;
      instances.set(number, made);
      const state = typeof made["state"] === "function" ? made.state() : {};
      fields = Object.keys(state);
      return JSON.stringify({
        methods: face.calls.map(({ name }) => name).filter((name) => name !== "constructor" && typeof made[name] === "function"),
        phases,
        fields: fields.map((name) => [name, typeof state[name] === "boolean"])
      });
    } catch (error) {
      throw new Error(words(error));
    }
  };

  // src/worker.ts
  var tell = (told) => postMessage(told);
  var engine;
  var loaded = () => {
    if (!engine) throw new Error("the simulator is not loaded");
    return engine;
  };
  var input = (text) => {
    const octets = new TextEncoder().encode(text);
    const at = loaded().paceline_input(octets.length);
    new Uint8Array(loaded().memory.buffer, at, octets.length).set(octets);
  };
  var call2 = (act, text) => {
    const engine2 = loaded();
    input(text);
    engine2[act]();
    return new Uint8Array(engine2.memory.buffer, engine2.paceline_output(), engine2.paceline_output_len()).slice();
  };
  var words2 = (octets) => new TextDecoder().decode(octets);
  var bring = (source, asleep) => {
    input(source);
    loaded().paceline_bring(Number(asleep));
  };
  var followed = [];
  var rows = {};
  var clock = performance.now.bind(performance);
  var run = async (text, controller, columns) => {
    if (controller) await load(controller);
    bring(controller, false);
    followed = columns;
    call2("paceline_follow", columns.join("\n"));
    const began = clock();
    const ran = JSON.parse(words2(call2("paceline_run", text)));
    const took_ms = clock() - began;
    const read2 = columns.map((name) => [name, new Float64Array(call2("paceline_column", name).buffer)]);
    tell({ ran, columns: Object.fromEntries(read2), digest: words2(call2("paceline_digest", "")), took_ms });
  };
  var called = (nth, instance, slots, text, bytes) => {
    const { memory } = loaded();
    try {
      const said = call(nth, instance, new Float64Array(memory.buffer, slots), words2(new Uint8Array(memory.buffer, text, bytes)));
      if (said !== null) input(said);
      return 0;
    } catch (error) {
      input(error instanceof Error ? error.message : String(error));
      return 1;
    }
  };
  var obey = async (order) => {
    if ("wasm" in order) {
      const grown = (column, at, count) => {
        rows[followed[column] ?? ""] = new Float64Array(loaded().memory.buffer, at, count).slice();
      };
      const heard = (simulated_ns, total_ns, packets) => {
        tell({ simulated_ns, total_ns, packets, grown: rows });
        rows = {};
      };
      const { instance } = await WebAssembly.instantiate(order.wasm, { page: { heard, grown, called } });
      engine = instance.exports;
      adopt(JSON.parse(words2(call2("paceline_interface", ""))));
      tell({ ready: true });
    } else if ("check" in order) {
      bring(order.controller, true);
      tell({ checked: JSON.parse(words2(call2("paceline_check", order.check))) });
    } else await run(order.run, order.controller, order.columns);
  };
  addEventListener("message", ({ data }) => {
    obey(data).catch((error) => {
      const said = error instanceof Error ? error.message : String(error);
      tell({ failed: error instanceof WebAssembly.RuntimeError ? `the simulator failed: ${said}; make the scenario smaller, or run it on the command line` : said });
    });
  });
})();
