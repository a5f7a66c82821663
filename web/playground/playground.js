// Built from web/ by `make web`. Sources: sha256 3fd8b211ce8f10481060de27bddff4264bb20d32e6c23f963e0a85fd56e9866a
"use strict";
(() => {
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
  var grouped = (items, key) => {
    const found2 = /* @__PURE__ */ new Map();
    for (const item of items) {
      const group = found2.get(key(item));
      if (group) group.push(item);
      else found2.set(key(item), [item]);
    }
    return found2;
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
    const before = text.slice(0, at);
    const line = before.slice(before.lastIndexOf("\n") + 1);
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
    const section2 = [...before.matchAll(/^\s*\[\[?([\w.]+)\]\]?/gm)].at(-1)?.[1];
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
    const suggest = () => {
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
      if (key === " " && ctrlKey) suggest();
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
    return suggest;
  };

  // src/quantity.ts
  var shown = (value) => value == null ? "–" : Number(value.toPrecision(4)).toLocaleString("en");
  var seconds = (value) => value == null ? "–" : `${value.toFixed(3)} s`;

  // src/toml.ts
  var section = (lines, head, nth) => {
    let seen = -1;
    for (let at = 0; at < lines.length; at += 1) {
      if (lines[at]?.trim() !== head || ++seen !== nth) continue;
      let end = at + 1;
      while (end < lines.length && !lines[end]?.trimStart().startsWith("[")) end += 1;
      return [at + 1, end];
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
      lines[there.at] = inside ? line.replace(inside, (_, before) => before + said) : line.replace(LINE(place.key), (_, before, __, after) => before + said + after);
      return lines.join("\n");
    }
    const where = section(lines, place.head, place.nth ?? 0);
    if (!where || place.inside !== void 0) return text;
    lines.splice(where[0], 0, `${place.key} = ${said}`);
    return lines.join("\n");
  };
  var count = (text, head) => text.split("\n").filter((line) => line.trim() === head).length;

  // src/editor.ts
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
  var GROUPS = 6;
  var PROBLEMS = 20;
  var nearest = (steps, value) => {
    const far = steps.map((step) => Math.abs(Math.log((step + 1e-3) / (value + 1e-3))));
    return far.indexOf(Math.min(...far));
  };
  var controllerOf = (text, nth = 0) => {
    const simple = { head: "[[flows]]", nth, key: "cc" };
    return read(text, simple) === null ? { ...simple, inside: "name" } : simple;
  };
  var Editor = class {
    #text = byId("toml", HTMLTextAreaElement);
    #problems = byId("problems", HTMLElement);
    #hands;
    #suggest;
    /** Problems in addition to the text's own, until it is edited. */
    #notice = [];
    #checked = 0;
    /** Whether a run has reported the text's problems. */
    #judged = false;
    constructor(hands) {
      this.#hands = hands;
      for (const [name, slider] of Object.entries(SLIDERS)) {
        const input = byId(`slide-${name}`, HTMLInputElement);
        input.addEventListener("input", () => this.edit(write(this.text, slider.place, `${slider.steps[Number(input.value)] ?? 0} ${slider.unit}`)));
      }
      this.#text.addEventListener("input", () => {
        this.#notice = [];
        this.#suggest();
        this.#follow();
        this.check();
      });
      this.#text.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) hands.run();
      });
      this.#suggest = attach(this.#text, byId("completions", HTMLElement), () => complete(this.text, this.#text.selectionStart, hands.schema, hands.controllers));
    }
    get text() {
      return this.#text.value;
    }
    /** Puts another text in its place. */
    edit(text) {
      this.#notice = [];
      this.#text.value = text;
      this.#follow();
      this.check();
    }
    /** Looks for problems, when typing has stopped. */
    check() {
      this.#judged = false;
      this.#look();
    }
    #look = settled(() => {
      if (this.#judged) return;
      const turn = ++this.#checked;
      void this.#hands.check(this.text).then((found2) => {
        if (turn === this.#checked) this.#put(found2);
      }).catch(() => void 0);
    }, 250);
    /** Says something that is not about the text. */
    warn(message) {
      this.#notice = [{ message }];
      this.show([]);
    }
    /** Shows problems of a run, instead of those that a check may still find. */
    show(found2) {
      this.#checked += 1;
      this.#judged = true;
      this.#put(found2);
    }
    /** A click on a problem goes to its line. */
    #put(checked) {
      const found2 = [...this.#notice, ...checked];
      this.#problems.replaceChildren();
      this.#problems.hidden = !found2.length;
      document.body.dataset["problems"] = String(found2.length);
      for (const { message, line, hint } of found2.slice(0, PROBLEMS)) {
        const item = make("li", void 0, this.#problems);
        const told = `${line ? `line ${line}: ` : ""}${message}${hint ? `. Help: ${hint}` : ""}`;
        if (!line) {
          item.textContent = told;
          continue;
        }
        const button = make("button", told, item);
        button.type = "button";
        button.addEventListener("click", () => this.#select(line));
      }
    }
    #select(line) {
      const lines = this.text.split("\n");
      const at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
      this.#text.focus();
      this.#text.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0));
    }
    /** Shows the values of the text in sliders and menus. */
    #follow() {
      for (const [name, slider] of Object.entries(SLIDERS)) {
        const input = byId(`slide-${name}`, HTMLInputElement);
        const label = byId(`value-${name}`, HTMLOutputElement);
        const value = this.#value(slider);
        input.disabled = value === null;
        input.max = String(slider.steps.length - 1);
        if (value !== null) input.value = String(nearest(slider.steps, value));
        label.textContent = value === null ? read(this.text, slider.place) ?? "see the text" : `${shown(value)} ${slider.unit}`;
        input.setAttribute("aria-valuetext", label.textContent);
      }
      const box = byId("controllers", HTMLElement);
      const groups = Array.from({ length: Math.min(count(this.text, "[[flows]]"), GROUPS) }, (_, nth) => nth);
      box.replaceChildren();
      for (const nth of groups) {
        const place = controllerOf(this.text, nth);
        const label = make("label", `flow${groups.length > 1 ? ` ${nth + 1}` : ""}`, box);
        const choice = make("select", void 0, label);
        for (const name of this.#hands.controllers) make("option", name, choice);
        choice.value = read(this.text, place) ?? "";
        choice.addEventListener("change", () => this.edit(write(this.text, place, choice.value)));
      }
    }
    #value(slider) {
      const said = read(this.text, slider.place);
      if (said === null) return slider.unit === "%" ? 0 : null;
      const parts = /^([\d.]+)\s*(\S*)$/.exec(said);
      const factor = slider.factors[parts?.[2] ?? ""];
      return parts && factor !== void 0 ? Number(parts[1]) * factor : null;
    }
  };

  // src/engine.ts
  var Refused = class extends Error {
    constructor(problems) {
      super(problems[0]?.message ?? "the scenario cannot run");
      this.problems = problems;
    }
    problems;
  };
  var Stopped = class extends Error {
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
    const binary = Array.from(octets, (octet) => String.fromCharCode(octet)).join("");
    return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  };
  var unpacked = async (said) => {
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

  // src/chart.ts
  var SIDE = 64;
  var FAMILY = 'system-ui, "DejaVu Sans", sans-serif';
  var FONT = `12px ${FAMILY}`;
  var dark = matchMedia("screen and (prefers-color-scheme: dark)");
  var onTone = (act) => dark.addEventListener("change", act);
  var styled = (name, light) => getComputedStyle(document.documentElement).getPropertyValue(name) || light;
  var tone = (colour) => () => {
    if (!dark.matches) return colour;
    return colour.replace("#000000", "#ffffff").replace("#666666", "#a8a8a8");
  };
  var axis = (label, size, more = {}) => ({
    stroke: () => styled("--ink", "#333"),
    grid: { stroke: () => styled("--grid", "#e8e8e8"), width: 1 },
    ticks: { stroke: () => styled("--tick", "#bbb"), width: 1, size: 5 },
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
  var legend = {
    markers: {
      dash: (u, nth) => {
        const [first] = u.series[nth]?.dash ?? [];
        return first === void 0 ? "solid" : first > 4 ? "dashed" : "dotted";
      }
    }
  };
  var dashed = (dash) => dash.map((length) => length * 1.5);

  // src/plots.ts
  var HEIGHT = 250;
  var MANY = 20;
  var Plots = class {
    #drawn = /* @__PURE__ */ new Map();
    /** The highest value of each quantity: plots side by side have one scale. */
    #high = /* @__PURE__ */ new Map();
    #box = byId("drawn", HTMLElement);
    #order;
    #engine;
    #tell;
    #called;
    /** Whether each run has plots of its own, beside those of the others. */
    apart = false;
    #runs = [];
    #names = [];
    /** The visible span; null for the entire run. */
    #view = null;
    /** The span with data at the resolution of the view. */
    #loaded = null;
    #end = 1;
    #turn = 0;
    #loading = false;
    constructor(order, engine2, tell2, called = (run2) => run2) {
      this.#order = order;
      this.#engine = engine2;
      this.#tell = tell2;
      this.#called = called;
      onTone(() => this.#drawn.forEach((plots2) => plots2.forEach(({ chart }) => chart.redraw(false))));
      addEventListener("resize", settled(() => this.#drawn.forEach((plots2) => this.#fit(plots2)), 100));
    }
    /** Draws quantities of runs; of other runs than before, all of the time. */
    show(runs, names, again = false) {
      if (!again) this.#view = null;
      this.#runs = runs;
      this.#names = runs.length ? names : [];
      for (const [name, plots2] of this.#drawn) {
        if (this.#names.includes(name)) continue;
        plots2[0]?.box.parentElement?.remove();
        this.#drop(plots2);
        this.#drawn.delete(name);
      }
      return this.#load();
    }
    /** The visible span in seconds; null for the entire run. */
    get view() {
      return this.#view;
    }
    set view(view) {
      this.#view = view;
    }
    /** Fetches the view with half of it more on both sides, so that moving shows no gap at once. */
    async #load() {
      const turn = ++this.#turn;
      this.#loaded = null;
      if (this.#view) {
        const [min, max] = this.#view;
        const more = (max - min) / 2;
        this.#loaded = [Math.max(min - more, 0), Math.min(max + more, this.#end)];
      }
      await Promise.all(
        this.#names.map(async (name) => {
          const data = await this.#engine.series(name, this.#runs, this.#loaded);
          if (turn === this.#turn) this.#put(name, data);
        })
      );
      document.body.dataset["drawn"] = String(turn);
    }
    /** Fetches until there is data for the current view. */
    async #refine() {
      if (this.#loading) return;
      this.#loading = true;
      try {
        while (this.#wanting()) await this.#load();
      } catch (error) {
        this.#tell(error);
      }
      this.#loading = false;
    }
    #wanting() {
      if (!this.#view) return this.#loaded !== null;
      const [min, max] = this.#view;
      const [from, to] = this.#loaded ?? [0, this.#end];
      const near = (max - min) / 4;
      const short = from > 0 && min - from < near || to < this.#end && to - max < near;
      return short || to - from > 3 * (max - min) || this.#loaded === null && (min > 0 || max < this.#end);
    }
    #span() {
      return this.#view ?? [0, this.#end];
    }
    #move(min, max) {
      this.#view = min <= 0 && max >= this.#end ? null : [min, max];
      for (const { chart } of [...this.#drawn.values()].flat()) chart.setScale("x", { min, max });
      void this.#refine();
    }
    #put(name, data) {
      this.#end = data.end;
      const runs = grouped(data.lines, ({ run: run2 }) => run2);
      const parts = this.apart ? [...runs].map(([run2, lines]) => ({ ...data, title: `${data.title}, ${this.#called(run2)}`, lines })) : [data];
      this.#high.set(name, data.lines.reduce((most, { values }) => values.reduce((high, value) => Math.max(high, value ?? 0), most), 0));
      const plots2 = this.#drawn.get(name) ?? [];
      const row = plots2[0]?.box.parentElement ?? this.#place(name);
      this.#drawn.set(name, plots2);
      this.#drop(plots2.splice(parts.length));
      for (const [nth, part] of parts.entries()) {
        const box = plots2[nth]?.box ?? make("figure", void 0, row);
        box.className = "plot";
        plots2[nth] = this.#plot(name, part, box, plots2[nth]);
      }
      this.#fit(plots2);
    }
    #plot(name, data, box, known) {
      const columns = [data.times, ...data.lines.map(({ values }) => values)];
      const key = JSON.stringify([data.title, data.unit, data.lines.map(({ run: run2, label }) => [run2, label])]);
      const [min, max] = this.#span();
      if (known?.key === key) {
        known.chart.setData(columns, false);
        known.chart.setScale("x", { min, max });
        return known;
      }
      known?.chart.destroy();
      box.setAttribute("aria-label", `${data.title} over time, in ${data.unit}`);
      const chart = new uPlot(this.#options(name, data, box), void 0, box);
      chart.setData(columns, false);
      chart.setScale("x", { min, max });
      this.#listen(chart);
      return { chart, box, key };
    }
    #drop(plots2) {
      for (const { chart, box } of plots2) {
        chart.destroy();
        box.remove();
      }
    }
    #fit(plots2) {
      for (const { chart, box } of plots2) if (chart.width !== box.clientWidth) chart.setSize({ width: box.clientWidth, height: HEIGHT });
    }
    /** Plots keep the order of their quantities. */
    #place(name) {
      const row = make("div");
      row.className = "row";
      const after = this.#order.slice(this.#order.indexOf(name) + 1).find((other) => this.#drawn.has(other));
      this.#box.insertBefore(row, after && this.#drawn.get(after)?.[0]?.box.parentElement || null);
      return row;
    }
    #options(name, data, box) {
      const several = new Set(data.lines.map(({ run: run2 }) => run2)).size > 1;
      const many = data.lines.length > MANY;
      const lines = data.lines.map(
        ({ run: run2, label, colour, dash }) => ({
          label: several ? `${this.#called(run2)}: ${label}` : label,
          stroke: tone(colour),
          ...many ? {} : { dash: dashed(dash) },
          width: many ? 1 / devicePixelRatio : 1.25,
          points: { show: false },
          spanGaps: true,
          value: (_, value) => value == null ? "" : shown(value)
        })
      );
      return {
        title: data.title,
        width: box.clientWidth,
        height: HEIGHT,
        scales: { x: { time: false }, y: { range: (plot, low, high) => fromZero(plot, low, this.apart && this.#high.get(name) || high) } },
        axes: [timeAxis(), axis(data.unit, SIDE - 18)],
        series: [{ label: "time", value: (_, value) => value == null ? "" : seconds(value) }, ...lines],
        legend: { ...legend, show: !many },
        cursor: cursor(),
        hooks: {
          setScale: [
            (chart, scale) => {
              const { min, max } = chart.scales["x"] ?? {};
              const [from, to] = this.#span();
              if (scale === "x" && min != null && max != null && (min !== from || max !== to)) this.#move(min, max);
            }
          ]
        }
      };
    }
    #listen(chart) {
      chart.over.addEventListener(
        "wheel",
        (event) => {
          event.preventDefault();
          const at = chart.posToVal(event.offsetX, "x");
          const [min, max] = this.#span();
          const factor = event.deltaY < 0 ? 0.8 : 1.25;
          this.#move(Math.max(at - (at - min) * factor, 0), Math.min(at + (max - at) * factor, this.#end));
        },
        { passive: false }
      );
      chart.over.addEventListener(
        "mousedown",
        (event) => {
          if (!event.shiftKey) return;
          event.stopImmediatePropagation();
          const [min, max] = this.#span();
          const each2 = (max - min) / chart.over.clientWidth;
          const drag = (moved) => {
            const by = Math.min(Math.max((event.clientX - moved.clientX) * each2, -min), Math.max(this.#end - max, 0));
            this.#move(min + by, max + by);
          };
          const done = () => {
            removeEventListener("mousemove", drag);
            removeEventListener("mouseup", done);
          };
          addEventListener("mousemove", drag);
          addEventListener("mouseup", done);
        },
        { capture: true }
      );
      chart.over.addEventListener("dblclick", () => this.#move(0, this.#end));
    }
  };

  // src/lines.ts
  var envelopes = (keys2, times, values, { from, to, buckets }) => {
    const lines = /* @__PURE__ */ new Map();
    const seen = /* @__PURE__ */ new Map();
    const flush = (key) => {
      const one = seen.get(key);
      const line = lines.get(key);
      if (!one || !line) return;
      line[2 * one.bucket] = one.rising ? one.low : one.high;
      line[2 * one.bucket + 1] = one.rising ? one.high : one.low;
    };
    for (let row = 0; row < values.length; row += 1) {
      const [value, at] = [values[row], times[row]];
      if (Number.isNaN(value) || at < from || at > to) continue;
      const key = keys2[row];
      const bucket = Math.min(Math.floor((at - from) / (to - from) * buckets), buckets - 1);
      if (!lines.has(key)) lines.set(key, Array(2 * buckets).fill(null));
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
  var rates = (keys2, times, totals, { from, to, buckets }, least) => {
    const bins = Math.min(buckets, Math.max(Math.floor((to - from) / least), 1));
    const lines = /* @__PURE__ */ new Map();
    const done = /* @__PURE__ */ new Map();
    for (let row = 0; row < totals.length; row += 1) {
      const [key, at, total] = [keys2[row], times[row], totals[row]];
      const bin = at < from ? -1 : Math.floor((at - from) / (to - from) * bins);
      if (!lines.has(key)) lines.set(key, Array(2 * buckets).fill(null));
      const since = done.get(key) ?? { at: 0, total: 0, bin: Math.min(bin, 0) };
      if (bin > since.bin || !done.has(key)) {
        if (at > since.at && since.bin >= 0 && since.bin < bins) {
          const line = lines.get(key) ?? [];
          const [first, last] = [since.bin * 2 * buckets / bins, Math.min(bin, bins) * 2 * buckets / bins];
          for (let slot = Math.floor(first); slot < last; slot += 1) line[slot] = (total - since.total) * 8e9 / (at - since.at);
        }
        done.set(key, { at, total, bin });
      } else if (bin < 0) done.set(key, { at, total, bin });
    }
    return lines;
  };

  // src/wasm.ts
  var NOW = "this run";
  var BEFORE = "previous run";
  var COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000"];
  var DASHES = [[], [8, 3], [2, 2], [8, 3, 2, 3]];
  var COLUMNS = ["samples.flow", "samples.t_ns", "samples.delivered_bytes", "samples.rtt_ns", "samples.in_flight_bytes", "queue.link", "queue.t_ns", "queue.delay_ns"];
  var BUCKETS = 500;
  var LEAST_BIN = 2e7;
  var MANY2 = 20;
  var QUANTITIES = {
    throughput_bps: { title: "Throughput", table: "samples", of: "delivered_bytes", unit: "Mbit/s", factor: 1e-6 },
    rtt_ns: { title: "Round-trip time", table: "samples", of: "rtt_ns", unit: "ms", factor: 1e-6 },
    queue_delay_ns: { title: "Queue delay", table: "queue", of: "delay_ns", unit: "ms", factor: 1e-6 },
    in_flight_bytes: { title: "Bytes in flight", table: "samples", of: "in_flight_bytes", unit: "kB", factor: 1e-3 }
  };
  var inflated = async (wasm2) => {
    const octets = Uint8Array.from(atob(wasm2), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([octets]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  };
  var Wasm = class {
    #source;
    #binary;
    /** The page's own controller, for a scenario that names it. */
    #controller;
    #worker = null;
    #ready = null;
    #waiting = null;
    #checks = [];
    #growing = {};
    #total = 0;
    last = null;
    before = null;
    constructor(wasm2, source, controller2) {
      this.#source = source;
      this.#binary = inflated(wasm2);
      this.#controller = controller2;
    }
    /** Starts the worker, if none is there. */
    start() {
      return this.#ready ??= this.#begin();
    }
    async check(text) {
      if (this.#waiting) return [];
      await this.start();
      return new Promise((resolve) => {
        this.#checks.push(resolve);
        this.#send({ check: text, controller: this.#controller(text) });
      });
    }
    run(text, watch) {
      this.#growing = {};
      return new Promise((resolve, reject) => {
        const waiting = { watch, text, resolve, reject };
        this.#waiting = waiting;
        this.start().then(
          () => {
            if (this.#waiting === waiting) this.#send({ run: text, controller: this.#controller(text), columns: COLUMNS });
          },
          (error) => this.#settle()?.reject(error)
        );
      });
    }
    stop() {
      this.#renew();
      this.#settle()?.reject(new Stopped("stopped"));
    }
    /** Gives up the results so far. */
    forget() {
      this.last = this.before = null;
    }
    async series(name, runs, span) {
      const quantity = QUANTITIES[name];
      if (!quantity) throw new Error(`there is no quantity ${name}`);
      const results = [BEFORE, NOW].filter((run2) => runs.includes(run2)).map((run2) => [run2, this.#result(run2)]);
      const end = results.reduce((most, [, result]) => Math.max(most, result?.end_ns ?? 1), 1);
      const [from, to] = span ? [span[0] * 1e9, span[1] * 1e9] : [0, end];
      const cut = { from, to, buckets: span ? 2 * BUCKETS : BUCKETS };
      const drawn = results.flatMap(([run2, result]) => result ? this.#lines(quantity, run2, result, cut) : []);
      return {
        title: quantity.title,
        unit: quantity.unit,
        end: end / 1e9,
        times: Array.from({ length: 2 * cut.buckets }, (_, nth) => (from + (nth + 0.5) * (to - from) / (2 * cut.buckets)) / 1e9),
        lines: drawn.map((line) => ({ ...line, values: line.values.map((value) => value === null ? null : value * quantity.factor) }))
      };
    }
    #result(run2) {
      if (run2 === BEFORE) return this.#waiting ? this.last : this.before;
      if (!this.#waiting) return this.last;
      const columns = Object.fromEntries(COLUMNS.map((name) => [name, Float64Array.from(this.#growing[name] ?? [])]));
      return { text: this.#waiting.text, digest: "", columns, end_ns: this.#total };
    }
    #lines({ table, of }, run2, { columns, summary }, cut) {
      const key = columns[table === "queue" ? "queue.link" : "samples.flow"];
      const [times, values] = [columns[`${table}.t_ns`], columns[`${table}.${of}`]];
      if (!key || !times || !values) return [];
      const found2 = of === "delivered_bytes" ? rates(key, times, values, cut, LEAST_BIN) : envelopes(key, times, values, cut);
      const old = run2 === BEFORE;
      const sorted = [...found2].sort(([a], [b]) => a - b).slice(0, MANY2);
      return sorted.map(([number, line]) => ({
        run: run2,
        label: table === "queue" ? number ? `link ${number}` : "bottleneck" : summary?.flows.find(({ flow }) => flow === number)?.label ?? `flow ${number}`,
        colour: (COLOURS[number % COLOURS.length] ?? "#000000") + (old ? "80" : ""),
        dash: old ? [3, 4] : DASHES[number % DASHES.length] ?? [],
        values: line
      }));
    }
    #send(order) {
      this.#worker?.postMessage(order);
    }
    #begin() {
      const made = new Worker(URL.createObjectURL(new Blob([this.#source], { type: "text/javascript" })));
      this.#worker = made;
      return new Promise((resolve, reject) => {
        made.addEventListener("message", ({ data }) => {
          if ("ready" in data) resolve();
          else this.#hear(data);
        });
        made.addEventListener("error", () => {
          const error = new Error("the simulator cannot start: this browser must support WebAssembly");
          reject(error);
          this.#settle()?.reject(error);
        });
        this.#binary.then((binary) => this.#send({ wasm: binary })).catch(reject);
      });
    }
    /** Replaces a worker that may be busy for ever. */
    #renew() {
      this.#worker?.terminate();
      this.#checks.length = 0;
      this.#ready = this.#begin();
    }
    #settle() {
      const waiting = this.#waiting;
      this.#waiting = null;
      return waiting;
    }
    #hear(told) {
      if ("checked" in told) this.#checks.shift()?.(told.checked.problems);
      else if ("simulated_ns" in told) {
        for (const [name, rows] of Object.entries(told.grown)) {
          const column = this.#growing[name] ??= [];
          for (const row of rows) column.push(row);
        }
        this.#total = told.total_ns;
        this.#waiting?.watch.progress(told);
        this.#waiting?.watch.more(NOW);
      } else if ("failed" in told) {
        this.#renew();
        this.#settle()?.reject(new Refused([{ message: told.failed }]));
      } else if ("ran" in told) {
        const { ran, columns, digest, took_ms } = told;
        const waiting = this.#settle();
        if (!waiting) return;
        if (!ran.summary) return waiting.reject(new Refused(ran.problems));
        this.before = this.last;
        const end_ns = (columns["queue.t_ns"] ?? new Float64Array()).reduce((most, at) => Math.max(most, at), 1);
        this.last = { text: waiting.text, summary: ran.summary, digest, columns, end_ns };
        waiting.resolve({ run: NOW, said: `done in ${(took_ms / 1e3).toFixed(2)} s: ${(ran.packets ?? 0).toLocaleString("en")} packets` });
      }
    }
  };

  // src/playground.ts
  var { wasm, worker, built } = window.paceline;
  var own = byId("own", HTMLTextAreaElement);
  var state = byId("state", HTMLOutputElement);
  var progress = byId("progress", HTMLProgressElement);
  var start = byId("run", HTMLButtonElement);
  var stop = byId("stop", HTMLButtonElement);
  var compared = byId("compare", HTMLInputElement);
  var controller = (text) => text.includes('"mine"') ? own.value : "";
  var engine = new Wasm(wasm, worker, controller);
  var editor = new Editor({
    schema: built.schema,
    controllers: [...built.controllers, "mine"],
    check: (text) => engine.check(text),
    run: () => {
      if (!start.disabled) void run();
    }
  });
  var tell = (error) => editor.warn(error instanceof Error ? error.message : String(error));
  var plots = new Plots(Object.keys(QUANTITIES), engine, tell);
  var busy = (now) => {
    start.disabled = now;
    stop.hidden = progress.hidden = !now;
  };
  var say = (said) => {
    state.textContent = said;
    document.body.dataset["state"] = said.split(" ")[0] ?? "";
  };
  var draw = () => {
    const shows = compared.checked ? [BEFORE, NOW] : [NOW];
    return plots.show(engine.last || start.disabled ? shows : [], Object.keys(QUANTITIES), true);
  };
  var next = 0;
  var grow = async () => {
    const began = performance.now();
    if (began < next) return;
    next = Infinity;
    await draw();
    const ended = performance.now();
    next = ended + Math.max(80, 3 * (ended - began));
    document.body.dataset["grown"] = String(Number(document.body.dataset["grown"] ?? 0) + 1);
  };
  var compare = (text, digest) => {
    const native = built.lessons.flatMap(({ toml, changed, digests }) => [[toml, digests[0]], [changed, digests[1]]]).find(([of]) => of === text)?.[1];
    document.body.dataset["native"] = native === void 0 ? "unknown" : native === digest ? "equal" : "different";
    if (native !== void 0 && native !== digest) editor.warn("this browser's results differ from the native simulator's. Do not rely on them, and report the browser and its version");
  };
  var run = async () => {
    const text = editor.text;
    busy(true);
    progress.value = 0;
    next = 0;
    say("running");
    state.textContent = "starting";
    try {
      const { said } = await engine.run(text, {
        progress: ({ simulated_ns, total_ns }) => {
          progress.value = simulated_ns / total_ns;
          state.textContent = `${(simulated_ns / 1e9).toFixed(1)} of ${total_ns / 1e9} s`;
        },
        more: () => void grow().catch(tell)
      });
      editor.show([]);
      busy(false);
      const digest = engine.last?.digest ?? "";
      document.body.dataset["digest"] = digest;
      compare(text, digest);
      await draw();
      numbers();
      say(said);
    } catch (error) {
      busy(false);
      if (error instanceof Stopped) return say("stopped");
      editor.show(error instanceof Refused ? error.problems : [{ message: error instanceof Error ? error.message : String(error) }]);
      say("failed");
    }
  };
  start.addEventListener("click", () => void run());
  stop.addEventListener("click", () => engine.stop());
  compared.addEventListener("change", () => {
    numbers();
    draw().catch(tell);
  });
  var NUMBERS = [
    ["goodput_bps", "Mbit/s", 1e-6],
    ["utilisation_ratio", "%", 100],
    ["rtt_p50_ns", "ms", 1e-6],
    ["queue_p95_ns", "ms", 1e-6],
    ["retransmit_ratio", "%", 100],
    ["jain_last_half_ratio", "", 1]
  ];
  var numbers = () => {
    const body = byId("numbers", HTMLTableElement);
    body.replaceChildren();
    const results = [engine.last, compared.checked ? engine.before : null].flatMap((result) => result?.summary ?? []);
    if (!results.length) return;
    const head = make("tr", void 0, body);
    for (const title of ["metric", NOW, BEFORE].slice(0, results.length + 1)) make("th", title, head).scope = "col";
    for (const [name, unit, factor] of NUMBERS) {
      const values = results.map(({ metrics }) => metrics[name]);
      const alone = name.startsWith("jain") && results.every(({ flows }) => flows.length < 2);
      if (alone || values.every((value) => value == null)) continue;
      const row = make("tr", void 0, body);
      make("th", built.labels[name] ?? name, row).scope = "row";
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
    const ask = (text, label, toml) => {
      const button = make("button", label, make("li", `${text} `, steps));
      button.addEventListener("click", () => {
        editor.edit(toml);
        void run();
      });
    };
    ask("Run the scenario.", "Run it", chosen.toml);
    const question = make("li", `${chosen.question} `, steps);
    const verdict = make("p");
    verdict.setAttribute("role", "status");
    chosen.answers.forEach((answer, nth) => {
      const button = make("button", answer, question);
      button.addEventListener("click", () => {
        verdict.textContent = `${nth === chosen.right ? "Right." : `No: ${chosen.answers[chosen.right] ?? ""}.`} ${chosen.why} Run the change to see it.`;
      });
    });
    ask(chosen.do, "Change it and run", chosen.changed);
    box.append(verdict);
    editor.edit(chosen.toml);
  };
  var menu = byId("lessons", HTMLElement);
  built.lessons.forEach((one, nth) => {
    const button = make("button", `${nth + 1}. ${one.title}`, make("li", void 0, menu));
    button.type = "button";
    button.addEventListener("click", () => {
      for (const other of menu.querySelectorAll("button")) other.removeAttribute("aria-current");
      button.setAttribute("aria-current", "true");
      if (!start.disabled) engine.forget();
      plots.view = null;
      draw().catch(tell);
      numbers();
      lesson(one);
    });
  });
  own.value = built.template;
  own.addEventListener("input", () => editor.check());
  own.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !start.disabled) void run();
  });
  byId("use", HTMLButtonElement).addEventListener("click", () => {
    editor.edit(write(editor.text, controllerOf(editor.text), "mine"));
    state.textContent = "The first flow uses this controller. Press Run to start it.";
  });
  byId("share", HTMLButtonElement).addEventListener("click", () => {
    void (async () => {
      const parts = [`scenario=${await packed(editor.text)}`];
      const code = controller(editor.text);
      if (code) parts.push(`controller=${await packed(code)}`);
      if (plots.view) parts.push(`zoom=${plots.view.map((at) => at.toFixed(3)).join("-")}`);
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
    link.href = URL.createObjectURL(new Blob([editor.text], { type: "application/toml" }));
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
      plots.view = zoom ? [Number(zoom[1]), Number(zoom[2])] : null;
      editor.edit(text);
      state.textContent = "Scenario loaded from the link. Press Run to start it.";
    } catch (error) {
      tell(error);
    }
  };
  addEventListener("hashchange", () => void recall());
  menu.querySelector("button")?.click();
  void recall();
  engine.start().then(() => document.body.dataset["ready"] = "true").catch(tell);
})();
