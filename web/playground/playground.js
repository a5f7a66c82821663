// Built from web/ by `make web`. Sources: sha256 a5c2e5a5ccc76480ab18d52d32d5ff3709c1fb74af9d65f3b0a87c701f4f69ea
"use strict";
(() => {
  // src/chart.ts
  var SIDE = 64;
  var FONT = '12px system-ui, "DejaVu Sans", sans-serif';
  var axis = (label, size, more = {}) => ({
    stroke: "#333",
    grid: { stroke: "#e8e8e8", width: 1 },
    ticks: { stroke: "#bbb", width: 1, size: 5 },
    font: FONT,
    labelFont: FONT,
    labelSize: 18,
    label,
    size,
    ...more
  });
  var timeAxis = () => axis("time (s)", 34);
  var fromZero = (_, __, high) => [0, high > 0 ? high * 1.08 : 1];
  var cursor = () => ({
    drag: { x: true, y: false },
    sync: { key: "time", setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } }
  });
  var dashed = (dash) => dash.map((length) => length * 1.5);

  // src/dom.ts
  var byId = (id, kind) => {
    const found2 = document.getElementById(id);
    if (!(found2 instanceof kind)) throw new Error(`the page has no ${kind.name} ${id}`);
    return found2;
  };
  var make = (tag, text, inside) => {
    const element = document.createElement(tag);
    if (text !== void 0) element.textContent = text;
    inside?.append(element);
    return element;
  };
  var settled = (act, milliseconds) => {
    let pending;
    return () => {
      clearTimeout(pending);
      pending = setTimeout(act, milliseconds);
    };
  };

  // src/complete.ts
  var forms = (schema, root) => {
    if (schema.$ref) return forms(root.$defs?.[schema.$ref.split("/").at(-1) ?? ""] ?? {}, root);
    const inner = [...schema.anyOf ?? [], ...schema.oneOf ?? []];
    return [schema, ...inner.flatMap((one) => forms(one, root))];
  };
  var below = (schemas, key, root) => schemas.flatMap((schema) => {
    const found2 = schema.properties?.[key] ?? schema.items?.properties?.[key];
    return found2 ? forms(found2, root) : [];
  });
  var each = (schemas, root) => schemas.flatMap((schema) => schema.items ? forms(schema.items, root) : [schema]);
  var keys = (schemas) => schemas.flatMap((schema) => Object.entries(schema.properties ?? {}).map(([text, { description }]) => ({ text, about: description ?? "" })));
  var words = (schemas) => schemas.flatMap((schema) => [...schema.enum ?? [], ...schema.const === void 0 ? [] : [schema.const]].map((word) => ({ text: word, about: schema.description ?? "" }))).filter((one) => typeof one.text === "string");
  var complete = (text, at, root, controllers) => {
    const before2 = text.slice(0, at);
    const line = before2.slice(before2.lastIndexOf("\n") + 1);
    if (line.includes("#")) return null;
    const head = /^\s*\[\[?([\w.]*)$/.exec(line);
    const top = forms(root, root);
    const narrow = (written2, options) => {
      const fitting = options.filter((option, nth) => option.text.startsWith(written2) && option.text !== written2 && options.findIndex(({ text: same }) => same === option.text) === nth);
      return fitting.length ? { from: at - written2.length, options: fitting } : null;
    };
    if (head) {
      const path = (head[1] ?? "").split(".");
      const written2 = path.pop() ?? "";
      const inside = path.reduce((schemas2, key2) => each(below(schemas2, key2, root), root), top);
      return narrow(written2, keys(inside).filter(({ text: key2 }) => each(below(inside, key2, root), root).some(({ properties }) => properties)));
    }
    const section2 = [...before2.matchAll(/^\s*\[\[?([\w.]+)\]\]?/gm)].at(-1)?.[1];
    let schemas = (section2?.split(".") ?? []).reduce((inner, key2) => each(below(inner, key2, root), root), top);
    let rest = line;
    let key = "";
    for (; ; ) {
      const opened = /^\s*(?:[^{]*,\s*)?([\w.]+)\s*=\s*\{/.exec(rest);
      if (!opened) break;
      key = opened[1] ?? "";
      schemas = each(below(schemas, key, root), root);
      rest = rest.slice(opened[0].length);
    }
    if (rest.includes("}")) return null;
    const part = rest.split(",").at(-1) ?? "";
    const value = /^\s*([\w.]+)\s*=\s*"([^"]*)$/.exec(part);
    if (value) {
      const [, of = "", written2 = ""] = value;
      const named = of === "cc" || key === "cc" && of === "name";
      return narrow(written2, named ? controllers.map((name) => ({ text: name, about: "" })) : words(below(schemas, of, root)));
    }
    const written = /^\s*(\w*)$/.exec(part)?.[1];
    if (written === void 0 || !written && !key) return null;
    return narrow(written, keys(schemas));
  };
  var MOST = 12;
  var attach = (editor2, list, find) => {
    let open = null;
    let chosen = 0;
    const mark = () => {
      [...list.children].forEach((item, nth) => item.setAttribute("aria-selected", String(nth === chosen)));
      list.hidden = open === null;
      if (open) editor2.setAttribute("aria-activedescendant", `completion-${chosen}`);
      else editor2.removeAttribute("aria-activedescendant");
    };
    const dismiss = () => {
      open = null;
      mark();
    };
    const take = (nth) => {
      const option = open?.options[nth];
      if (!open || !option) return;
      editor2.setRangeText(option.text, open.from, editor2.selectionStart, "end");
      editor2.dispatchEvent(new Event("input"));
      dismiss();
    };
    const suggest2 = () => {
      open = editor2.selectionStart === editor2.selectionEnd ? find() : null;
      chosen = 0;
      list.replaceChildren();
      open?.options.slice(0, MOST).forEach(({ text, about }, nth) => {
        const item = make("li", void 0, list);
        item.id = `completion-${nth}`;
        item.setAttribute("role", "option");
        make("b", text, item);
        item.append(` ${about}`);
        item.addEventListener("pointerdown", (event) => {
          event.preventDefault();
          take(nth);
        });
      });
      mark();
    };
    editor2.addEventListener("blur", dismiss);
    editor2.addEventListener("click", dismiss);
    editor2.addEventListener("keydown", (event) => {
      const { key, ctrlKey, metaKey } = event;
      if (key === " " && ctrlKey) suggest2();
      else if (!open) return;
      else if (key === "ArrowDown" || key === "ArrowUp") {
        const count2 = list.children.length;
        chosen = (chosen + (key === "ArrowDown" ? 1 : count2 - 1)) % count2;
        mark();
      } else if (key === "Enter" && !ctrlKey && !metaKey || key === "Tab") take(chosen);
      else if (key === "Escape") dismiss();
      else return;
      event.preventDefault();
    });
    return suggest2;
  };

  // src/link.ts
  var LONGEST = 2e5;
  var through = async (octets, change, most) => {
    const stream = new Blob([octets]).stream().pipeThrough(change);
    const parts = [];
    let size = 0;
    const reader = stream.getReader();
    for (; ; ) {
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
  var packed = async (text) => {
    const octets = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"), Infinity);
    const binary2 = Array.from(octets, (octet) => String.fromCharCode(octet)).join("");
    return btoa(binary2).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  };
  var unpacked = async (said) => {
    try {
      const binary2 = atob(said.replaceAll("-", "+").replaceAll("_", "/"));
      const octets = Uint8Array.from(binary2, (letter) => letter.charCodeAt(0));
      const text = await through(octets, new DecompressionStream("deflate-raw"), LONGEST);
      return new TextDecoder("utf-8", { fatal: true }).decode(text);
    } catch (error) {
      const why = error instanceof Error && error.message.startsWith("the link") ? error.message : "it is truncated or damaged";
      throw new Error(`The link cannot be read: ${why}. Copy it again, or start with a lesson.`);
    }
  };

  // src/quantity.ts
  var shown = (value) => value == null ? "–" : Number(value.toPrecision(4)).toLocaleString("en");
  var seconds = (value) => value == null ? "–" : `${value.toFixed(3)} s`;

  // src/toml.ts
  var section = (lines, head, nth) => {
    let seen = -1;
    for (let at = 0; at < lines.length; at += 1) {
      if (lines[at]?.trim() !== head || ++seen !== nth) continue;
      let end2 = at + 1;
      while (end2 < lines.length && !lines[end2]?.trimStart().startsWith("[")) end2 += 1;
      return [at + 1, end2];
    }
    return null;
  };
  var LINE = (key) => new RegExp(`^(\\s*${key}\\s*=\\s*)("[^"]*"|[^#]*?)(\\s*(?:#.*)?)$`);
  var INLINE = (key) => new RegExp(`(\\b${key}\\s*=\\s*)("[^"]*"|[\\w.]+)`);
  var bare = (value) => value.trim().replace(/^"(.*)"$/, "$1");
  var found = (lines, place) => {
    const where = section(lines, place.head, place.nth ?? 0);
    if (!where) return null;
    for (let at = where[0]; at < where[1]; at += 1) {
      const line = LINE(place.key).exec(lines[at] ?? "");
      if (line) return { at, value: line[2] ?? "" };
    }
    return null;
  };
  var read = (text, place) => {
    const there = found(text.split("\n"), place);
    if (!there) return null;
    const table = there.value.startsWith("{");
    if (place.inside === void 0) return table ? null : bare(there.value);
    const value = table ? INLINE(place.inside).exec(there.value)?.[2] : void 0;
    return value === void 0 ? null : bare(value);
  };
  var write = (text, place, value) => {
    const lines = text.split("\n");
    const there = found(lines, place);
    const said = JSON.stringify(value);
    if (there) {
      const line = lines[there.at] ?? "";
      const inside = place.inside === void 0 || !there.value.startsWith("{") ? null : INLINE(place.inside);
      if (inside && !inside.test(line)) return text;
      lines[there.at] = inside ? line.replace(inside, (_, before2) => before2 + said) : line.replace(LINE(place.key), (_, before2, __, after) => before2 + said + after);
      return lines.join("\n");
    }
    const where = section(lines, place.head, place.nth ?? 0);
    if (!where || place.inside !== void 0) return text;
    lines.splice(where[0], 0, `${place.key} = ${said}`);
    return lines.join("\n");
  };
  var count = (text, head) => text.split("\n").filter((line) => line.trim() === head).length;

  // src/playground.ts
  var { wasm, worker: source, built } = window.paceline;
  var editor = byId("toml", HTMLTextAreaElement);
  var own = byId("own", HTMLTextAreaElement);
  var problems = byId("problems", HTMLElement);
  var state = byId("state", HTMLOutputElement);
  var progress = byId("progress", HTMLProgressElement);
  var start = byId("run", HTMLButtonElement);
  var stop = byId("stop", HTMLButtonElement);
  var plots = byId("plots", HTMLElement);
  var COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000"];
  var DASHES = [[], [8, 3], [2, 2], [8, 3, 2, 3]];
  var COLUMNS = ["samples.flow", "samples.t_ns", "samples.goodput_bytes", "samples.rtt_ns", "samples.in_flight_bytes", "queue.link", "queue.t_ns", "queue.delay_ns"];
  var BUCKETS = 500;
  var MANY = 20;
  var HEIGHT = 220;
  var engine = null;
  var binary = null;
  var ready = null;
  var running = "";
  var last = null;
  var before = null;
  var inflated = async () => {
    const octets = Uint8Array.from(atob(wasm), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([octets]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  };
  var send = (order) => engine?.postMessage(order);
  var controller = () => editor.value.includes('"mine"') ? own.value : "";
  var begin = () => {
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const made = new Worker(address);
    engine = made;
    return new Promise((resolve, reject) => {
      made.addEventListener("message", ({ data }) => {
        if ("ready" in data) resolve();
        else hear(data);
      });
      made.addEventListener("error", () => {
        reject(new Error("the simulator cannot start: this browser must support WebAssembly"));
        idle("failed");
      });
      void (async () => {
        binary ??= await inflated();
        send({ wasm: binary });
      })().catch(reject);
    });
  };
  var idle = (said) => {
    start.disabled = false;
    stop.hidden = progress.hidden = true;
    state.textContent = said;
    running = "";
    document.body.dataset["state"] = said.split(" ")[0] ?? "";
  };
  var hear = (told) => {
    if ("checked" in told) return show(told.checked.problems);
    if ("simulated_ns" in told) {
      progress.value = told.simulated_ns / told.total_ns;
      state.textContent = `${(told.simulated_ns / 1e9).toFixed(1)} of ${told.total_ns / 1e9} s`;
      return;
    }
    if ("failed" in told) {
      show([{ message: told.failed }]);
      engine?.terminate();
      ready = begin();
      return idle("failed");
    }
    if ("ran" in told) end(told.ran, told.tables, told.took_ms);
  };
  var compare = (text, digest) => {
    const native = built.lessons.flatMap(({ toml, changed, digests }) => [[toml, digests[0]], [changed, digests[1]]]).find(([of]) => of === text)?.[1];
    document.body.dataset["native"] = native === void 0 ? "unknown" : native === digest ? "equal" : "different";
    if (native !== void 0 && native !== digest) show([{ message: "this browser's results differ from the native simulator's", hint: "do not rely on them, and report the browser and its version" }]);
  };
  var end = (ran, tables, took) => {
    const text = running;
    show(ran.problems);
    if (!ran.summary || !tables) return idle("not run");
    before = last;
    last = { text, summary: ran.summary, tables };
    idle(`done in ${(took / 1e3).toFixed(2)} s: ${(ran.packets ?? 0).toLocaleString("en")} packets`);
    document.body.dataset["digest"] = tables.digest;
    compare(text, tables.digest);
    draw();
  };
  var run = async () => {
    running = editor.value;
    start.disabled = true;
    stop.hidden = progress.hidden = false;
    progress.value = 0;
    state.textContent = "starting";
    document.body.dataset["state"] = "running";
    try {
      await (ready ??= begin());
      send({ run: running, controller: controller(), columns: COLUMNS });
    } catch (error) {
      show([{ message: String(error instanceof Error ? error.message : error) }]);
      idle("failed");
    }
  };
  start.addEventListener("click", () => void run());
  stop.addEventListener("click", () => {
    engine?.terminate();
    ready = begin();
    idle("stopped");
  });
  var PLACES = {
    rate: { head: "[path]", key: "rate" },
    rtt: { head: "[path]", key: "rtt" },
    buffer: { head: "[path]", key: "queue", inside: "size" },
    loss: { head: "[path]", key: "loss" }
  };
  var SLIDERS = {
    rate: { place: PLACES["rate"], steps: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3], unit: "Mbit/s", factors: { "kbit/s": 1e-3, "Mbit/s": 1, "Gbit/s": 1e3 } },
    rtt: { place: PLACES["rtt"], steps: [1, 2, 5, 10, 20, 40, 80, 100, 200, 400], unit: "ms", factors: { us: 1e-3, ms: 1, s: 1e3 } },
    buffer: { place: PLACES["buffer"], steps: [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 100], unit: "bdp", factors: { bdp: 1 } },
    loss: { place: PLACES["loss"], steps: [0, 0.01, 0.1, 0.5, 1, 2, 5, 10], unit: "%", factors: { "%": 1 } }
  };
  var valueOf = (slider) => {
    const said = read(editor.value, slider.place);
    if (said === null) return slider.unit === "%" ? 0 : null;
    const parts = /^([\d.]+)\s*(\S*)$/.exec(said);
    const factor = slider.factors[parts?.[2] ?? ""];
    return parts && factor !== void 0 ? Number(parts[1]) * factor : null;
  };
  var nearest = (steps, value) => {
    const far = steps.map((step) => Math.abs(Math.log((step + 1e-3) / (value + 1e-3))));
    return far.indexOf(Math.min(...far));
  };
  var follow = () => {
    for (const [name, slider] of Object.entries(SLIDERS)) {
      const input = byId(`slide-${name}`, HTMLInputElement);
      const label = byId(`value-${name}`, HTMLOutputElement);
      const value = valueOf(slider);
      input.disabled = value === null;
      input.max = String(slider.steps.length - 1);
      if (value !== null) input.value = String(nearest(slider.steps, value));
      label.textContent = value === null ? read(editor.value, slider.place) ?? "see the text" : `${shown(value)} ${slider.unit}`;
      input.setAttribute("aria-valuetext", label.textContent);
    }
    const box = byId("controllers", HTMLElement);
    const groups = Array.from({ length: Math.min(count(editor.value, "[[flows]]"), 6) }, (_, nth) => nth);
    box.replaceChildren();
    for (const nth of groups) {
      const simple = { head: "[[flows]]", nth, key: "cc" };
      const named = { ...simple, inside: "name" };
      const place = read(editor.value, simple) === null ? named : simple;
      const label = make("label", `flow${groups.length > 1 ? ` ${nth + 1}` : ""}`, box);
      const choice = make("select", void 0, label);
      for (const name of [...built.controllers, "mine"]) make("option", name, choice);
      choice.value = read(editor.value, place) ?? "";
      choice.addEventListener("change", () => edit(write(editor.value, place, choice.value)));
    }
  };
  var check = settled(() => {
    if (!running) void (ready ??= begin()).then(() => send({ check: editor.value, controller: controller() })).catch(() => void 0);
  }, 250);
  var edit = (text) => {
    notice = [];
    editor.value = text;
    follow();
    check();
  };
  for (const [name, slider] of Object.entries(SLIDERS)) {
    const input = byId(`slide-${name}`, HTMLInputElement);
    input.addEventListener("input", () => edit(write(editor.value, slider.place, `${slider.steps[Number(input.value)] ?? 0} ${slider.unit}`)));
  }
  editor.addEventListener("input", () => {
    notice = [];
    suggest();
    follow();
    check();
  });
  var suggest = attach(
    editor,
    byId("completions", HTMLElement),
    () => complete(editor.value, editor.selectionStart, built.schema, [...built.controllers, "mine"])
  );
  var runs = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !start.disabled) void run();
  };
  editor.addEventListener("keydown", runs);
  var notice = [];
  var show = (checked) => {
    const found2 = [...notice, ...checked];
    problems.replaceChildren();
    problems.hidden = !found2.length;
    document.body.dataset["problems"] = String(found2.length);
    for (const { message, line, hint } of found2.slice(0, 20)) {
      const item = make("li", void 0, problems);
      const told = `${line ? `line ${line}: ` : ""}${message}${hint ? `. Help: ${hint}` : ""}`;
      if (!line) {
        item.textContent = told;
        continue;
      }
      const button = make("button", told, item);
      button.type = "button";
      button.addEventListener("click", () => {
        const lines = editor.value.split("\n");
        const at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
        editor.focus();
        editor.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0));
      });
    }
  };
  var envelopes = (keys2, times, values, end2, scale) => {
    const lines = /* @__PURE__ */ new Map();
    const seen = /* @__PURE__ */ new Map();
    const flush = (key) => {
      const one = seen.get(key);
      const line = lines.get(key);
      if (!one || !line) return;
      line[2 * one.bucket] = (one.rising ? one.low : one.high) * scale;
      line[2 * one.bucket + 1] = (one.rising ? one.high : one.low) * scale;
    };
    for (let row = 0; row < values.length; row += 1) {
      const value = values[row];
      if (Number.isNaN(value)) continue;
      const key = keys2[row];
      const bucket = Math.min(Math.floor(times[row] / end2 * BUCKETS), BUCKETS - 1);
      if (!lines.has(key)) lines.set(key, Array(2 * BUCKETS).fill(null));
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
  var rates = (keys2, times, totals, end2) => {
    const bins = Math.min(BUCKETS, Math.max(Math.floor(end2 / 2e7), 1));
    const lines = /* @__PURE__ */ new Map();
    const done = /* @__PURE__ */ new Map();
    for (let row = 0; row < totals.length; row += 1) {
      const [key, at, total] = [keys2[row], times[row], totals[row]];
      const bin = Math.floor(at / end2 * bins);
      if (!lines.has(key)) lines.set(key, Array(2 * BUCKETS).fill(null));
      const since = done.get(key) ?? { at: 0, total: 0, bin: 0 };
      if (bin > since.bin || !done.has(key)) {
        if (at > since.at) {
          const rate = (total - since.total) * 8e3 / (at - since.at);
          const line = lines.get(key) ?? [];
          const [from, to] = [since.bin * 2 * BUCKETS / bins, Math.min(bin, bins) * 2 * BUCKETS / bins];
          for (let slot = Math.floor(from); slot < to; slot += 1) line[slot] = rate;
        }
        done.set(key, { at, total, bin });
      }
    }
    return lines;
  };
  var QUANTITIES = [
    { title: "Goodput", unit: "Mbit/s", lines: ({ columns: c }, end2) => rates(c["samples.flow"], c["samples.t_ns"], c["samples.goodput_bytes"], end2) },
    { title: "Round-trip time", unit: "ms", lines: ({ columns: c }, end2) => envelopes(c["samples.flow"], c["samples.t_ns"], c["samples.rtt_ns"], end2, 1e-6) },
    { title: "Queue delay", unit: "ms", lines: ({ columns: c }, end2) => envelopes(c["queue.link"], c["queue.t_ns"], c["queue.delay_ns"], end2, 1e-6) },
    { title: "Bytes in flight", unit: "kB", lines: ({ columns: c }, end2) => envelopes(c["samples.flow"], c["samples.t_ns"], c["samples.in_flight_bytes"], end2, 1e-3) }
  ];
  var charts = [];
  var view = null;
  var zoomTo = (from, to, end2) => {
    const whole = from <= 0 && to >= end2;
    if (whole ? view === null : view?.[0] === from && view[1] === to) return;
    view = whole ? null : [from, to];
    for (const chart of charts) chart.setScale("x", { min: from, max: to });
  };
  var ends = ({ tables }) => tables.columns["queue.t_ns"]?.reduce((most, at) => Math.max(most, at), 1) ?? 1;
  var draw = () => {
    charts.forEach((chart) => chart.destroy());
    charts = [];
    plots.replaceChildren();
    if (!last) return;
    const compared = byId("compare", HTMLInputElement).checked ? before : null;
    const end2 = Math.max(ends(last), compared ? ends(compared) : 0);
    const times = Array.from({ length: 2 * BUCKETS }, (_, nth) => (nth + 0.5) * end2 / (2 * BUCKETS) / 1e9);
    for (const { title, unit, lines } of QUANTITIES) {
      const series = [{ label: "time", value: (_, value) => seconds(value) }];
      const data = [];
      for (const [result, old] of [[compared, true], [last, false]]) {
        if (!result) continue;
        const found2 = [...lines(result.tables, end2)].sort(([a], [b]) => a - b).slice(0, MANY);
        for (const [key, values] of found2) {
          const flow = result.summary.flows.find(({ flow: number }) => number === key);
          const label = title.startsWith("Queue") ? "queue" : flow?.label ?? `flow ${key}`;
          series.push({
            label: old ? `previous: ${label}` : label,
            stroke: (COLOURS[key % COLOURS.length] ?? "#000") + (old ? "70" : ""),
            dash: dashed(old ? [3, 4] : DASHES[key % DASHES.length] ?? []),
            width: old ? 1 : 1.5,
            points: { show: false },
            spanGaps: true,
            value: (_, value) => shown(value)
          });
          data.push(values);
        }
      }
      const box = make("figure", void 0, plots);
      box.setAttribute("aria-label", `${title} over time, in ${unit}`);
      const options = {
        title,
        width: box.clientWidth,
        height: HEIGHT,
        scales: { x: { time: false, min: view?.[0] ?? 0, max: view?.[1] ?? end2 / 1e9 }, y: { range: fromZero } },
        axes: [timeAxis(), axis(unit, SIDE - 18)],
        series,
        cursor: cursor(),
        legend: { show: series.length <= 13 },
        hooks: {
          setScale: [
            (chart, scale) => {
              const { min, max } = chart.scales["x"] ?? {};
              if (scale === "x" && min != null && max != null && charts.includes(chart)) zoomTo(min, max, end2 / 1e9);
            }
          ]
        }
      };
      charts.push(new uPlot(options, [times, ...data], box));
    }
    numbers(compared);
  };
  byId("compare", HTMLInputElement).addEventListener("change", draw);
  addEventListener("resize", settled(() => charts.forEach((chart) => chart.setSize({ width: plots.clientWidth, height: HEIGHT })), 100));
  var NUMBERS = [
    ["goodput_bps", "Goodput", "Mbit/s", 1e-6],
    ["utilisation_ratio", "Link used", "%", 100],
    ["rtt_p50_ns", "Median RTT", "ms", 1e-6],
    ["queue_p95_ns", "Queue, 95th percentile", "ms", 1e-6],
    ["retransmit_ratio", "Retransmitted", "%", 100],
    ["jain_last_half_ratio", "Jain's index, second half", "", 1]
  ];
  var numbers = (compared) => {
    const body = byId("numbers", HTMLTableElement);
    body.replaceChildren();
    const head = make("tr", void 0, body);
    for (const title of ["metric", "this run", ...compared ? ["previous run"] : []]) make("th", title, head).scope = "col";
    for (const [name, label, unit, factor] of NUMBERS) {
      const values = [last, compared].filter((result) => result !== null).map(({ summary }) => summary.metrics[name]);
      if (values.every((value) => value == null)) continue;
      const row = make("tr", void 0, body);
      make("th", label, row).scope = "row";
      for (const value of values) make("td", value == null ? "–" : `${shown(value * factor)} ${unit}`, row);
    }
  };
  var lesson = (chosen) => {
    const box = byId("lesson", HTMLElement);
    box.hidden = false;
    box.replaceChildren();
    make("h2", chosen.title, box);
    make("p", chosen.text, box);
    const steps = make("ol", void 0, box);
    const first = make("li", "Run the scenario. ", steps);
    const one = make("button", "Run it", first);
    one.addEventListener("click", () => {
      edit(chosen.toml);
      void run();
    });
    const second = make("li", `${chosen.question} `, steps);
    const verdict = make("p", void 0, box);
    verdict.setAttribute("role", "status");
    chosen.answers.forEach((answer, nth) => {
      const button = make("button", answer, second);
      button.addEventListener("click", () => {
        verdict.textContent = `${nth === chosen.right ? "Right." : `No: ${chosen.answers[chosen.right] ?? ""}.`} ${chosen.why} Run the change to see it.`;
      });
    });
    const third = make("li", `${chosen.do} `, steps);
    const two = make("button", "Change it and run", third);
    two.addEventListener("click", () => {
      edit(chosen.changed);
      void run();
    });
    box.append(verdict);
    edit(chosen.toml);
  };
  own.value = built.template;
  own.addEventListener("input", () => check());
  own.addEventListener("keydown", runs);
  byId("use", HTMLButtonElement).addEventListener("click", () => {
    const simple = { head: "[[flows]]", key: "cc" };
    edit(write(editor.value, read(editor.value, simple) === null ? { ...simple, inside: "name" } : simple, "mine"));
    state.textContent = "The first flow uses this controller. Press Run to start it.";
  });
  var menu = byId("lessons", HTMLElement);
  built.lessons.forEach((one, nth) => {
    const button = make("button", `${nth + 1}. ${one.title}`, make("li", void 0, menu));
    button.type = "button";
    button.addEventListener("click", () => {
      for (const other of menu.querySelectorAll("button")) other.removeAttribute("aria-current");
      button.setAttribute("aria-current", "true");
      [last, before] = [null, null];
      draw();
      byId("numbers", HTMLTableElement).replaceChildren();
      lesson(one);
    });
  });
  byId("share", HTMLButtonElement).addEventListener("click", () => {
    void (async () => {
      const parts = [`scenario=${await packed(editor.value)}`];
      if (controller()) parts.push(`controller=${await packed(controller())}`);
      if (view) parts.push(`zoom=${view.map((at) => at.toFixed(3)).join("-")}`);
      history.replaceState(null, "", `#${parts.join("&")}`);
      const copied = await navigator.clipboard?.writeText(location.href).then(
        () => true,
        () => false
      );
      state.textContent = copied ? "Link copied to the clipboard." : "The link is the address of this page.";
    })();
  });
  byId("save", HTMLButtonElement).addEventListener("click", () => {
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([editor.value], { type: "application/toml" }));
    link.download = "scenario.toml";
    link.click();
    URL.revokeObjectURL(link.href);
    state.textContent = "On the command line: paceline run scenario.toml --report";
  });
  var recall = async () => {
    const said = new URLSearchParams(location.hash.slice(1));
    const scenario = said.get("scenario");
    if (!scenario) return;
    try {
      const text = await unpacked(scenario);
      const code = said.get("controller");
      own.value = code ? await unpacked(code) : built.template;
      byId("code", HTMLDetailsElement).open = code !== null;
      const zoom = /^(\d+\.\d+)-(\d+\.\d+)$/.exec(said.get("zoom") ?? "");
      view = zoom ? [Number(zoom[1]), Number(zoom[2])] : null;
      edit(text);
      state.textContent = "Scenario loaded from the link. Press Run to start it.";
    } catch (error) {
      notice = [{ message: error instanceof Error ? error.message : String(error) }];
      show([]);
    }
  };
  addEventListener("hashchange", () => void recall());
  menu.querySelector("button")?.click();
  void recall();
  ready = begin();
  void ready.then(() => document.body.dataset["ready"] = "true").catch((error) => show([{ message: error instanceof Error ? error.message : String(error) }]));
})();
