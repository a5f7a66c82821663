// Built from web/ by `make web`. Sources: sha256 3fd8b211ce8f10481060de27bddff4264bb20d32e6c23f963e0a85fd56e9866a
"use strict";
(() => {
  // src/ask.ts
  var ask = async (path, order) => {
    const options = order && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(order) };
    const answer = await fetch(path, options);
    const value = await answer.json();
    if (!answer.ok) throw new Error(value.error);
    return value;
  };

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
  var settled = (act2, milliseconds) => {
    let pending;
    return () => {
      clearTimeout(pending);
      pending = setTimeout(act2, milliseconds);
    };
  };
  var grouped = (items, key) => {
    const found2 = /* @__PURE__ */ new Map();
    for (const item of items) {
      const group2 = found2.get(key(item));
      if (group2) group2.push(item);
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
  var attach = (editor2, list2, find) => {
    let open = null;
    let chosen2 = 0;
    const mark = () => {
      [...list2.children].forEach((item, nth) => item.setAttribute("aria-selected", String(nth === chosen2)));
      list2.hidden = open === null;
      if (open) editor2.setAttribute("aria-activedescendant", `completion-${chosen2}`);
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
      chosen2 = 0;
      list2.replaceChildren();
      open?.options.slice(0, MOST).forEach(({ text, about: about2 }, nth) => {
        const item = make("li", void 0, list2);
        item.id = `completion-${nth}`;
        item.setAttribute("role", "option");
        make("b", text, item);
        item.append(` ${about2}`);
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
        const count2 = list2.children.length;
        chosen2 = (chosen2 + (key === "ArrowDown" ? 1 : count2 - 1)) % count2;
        mark();
      } else if (key === "Enter" && !ctrlKey && !metaKey || key === "Tab") take(chosen2);
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
    const table2 = there.value.startsWith("{");
    if (place.inside === void 0) return table2 ? null : bare(there.value);
    const value = table2 ? INLINE(place.inside).exec(there.value)?.[2] : void 0;
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

  // src/http.ts
  var Http = class {
    #choice;
    #job = null;
    constructor(choice) {
      this.#choice = choice;
    }
    async check(text) {
      return (await ask("/api/check", { scenario: text })).problems;
    }
    async run(text, watch) {
      const problems = await this.check(text);
      const { backend: backend2, seed: seed2, name } = this.#choice();
      if (problems.length && backend2 === "sim") throw new Refused(problems);
      const job = await ask("/api/run", { scenario: text, backend: backend2, seed: seed2, name });
      this.#job = job.job;
      try {
        return await this.#follow(job, watch);
      } finally {
        this.#job = null;
      }
    }
    stop() {
      if (this.#job !== null) void ask(`/api/jobs/${this.#job}/stop`, {}).catch(() => void 0);
    }
    series(quantity, runs, span) {
      const which = runs.map((id) => `id=${encodeURIComponent(id)}`);
      if (span) which.push(`from=${span[0]}`, `to=${span[1]}`);
      return ask(`/api/series?quantity=${quantity}&${which.join("&")}`);
    }
    #follow(job, watch) {
      const events = new EventSource(`/api/jobs/${job.job}/events`);
      let version = 0;
      return new Promise((resolve, reject) => {
        events.onmessage = ({ data }) => {
          const said = JSON.parse(data);
          watch.progress(said);
          if (said.state === "done" && said.id) resolve({ run: said.id, said: "done" });
          else if (said.state === "failed") reject(new Error(said.message));
          else if (said.state === "stopped") reject(new Stopped("stopped"));
          else if (said.version > version) watch.more(`job:${said.job}`);
          version = said.version;
        };
        events.onerror = () => reject(new Error("the server has gone"));
      }).finally(() => events.close());
    }
  };

  // src/chart.ts
  var SIDE = 64;
  var FAMILY = 'system-ui, "DejaVu Sans", sans-serif';
  var FONT = `12px ${FAMILY}`;
  var dark = matchMedia("screen and (prefers-color-scheme: dark)");
  var onTone = (act2) => dark.addEventListener("change", act2);
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
    constructor(order, engine2, tell2, called2 = (run2) => run2) {
      this.#order = order;
      this.#engine = engine2;
      this.#tell = tell2;
      this.#called = called2;
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
      const short2 = from > 0 && min - from < near || to < this.#end && to - max < near;
      return short2 || to - from > 3 * (max - min) || this.#loaded === null && (min > 0 || max < this.#end);
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
      const row2 = plots2[0]?.box.parentElement ?? this.#place(name);
      this.#drawn.set(name, plots2);
      this.#drop(plots2.splice(parts.length));
      for (const [nth, part] of parts.entries()) {
        const box = plots2[nth]?.box ?? make("figure", void 0, row2);
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
      const row2 = make("div");
      row2.className = "row";
      const after = this.#order.slice(this.#order.indexOf(name) + 1).find((other) => this.#drawn.has(other));
      this.#box.insertBefore(row2, after && this.#drawn.get(after)?.[0]?.box.parentElement || null);
      return row2;
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
            (chart, scale2) => {
              const { min, max } = chart.scales["x"] ?? {};
              const [from, to] = this.#span();
              if (scale2 === "x" && min != null && max != null && (min !== from || max !== to)) this.#move(min, max);
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

  // src/picture.ts
  var SVG = "http://www.w3.org/2000/svg";
  var [WIDEST, NARROWEST, HEIGHT2] = [760, 320, 300];
  var [LEFT, RIGHT, TOP, BOTTOM] = [62, 14, 26, 46];
  var TICKS = 5;
  var ROOM = 44;
  var draw = (tag, attributes, inside, text) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    if (text !== void 0) element.textContent = text;
    inside.append(element);
    return element;
  };
  var round = (low, high) => {
    const raw = (high - low) / TICKS;
    const size = 10 ** Math.floor(Math.log10(raw));
    const step = ([1, 2, 5].find((factor) => factor * size >= raw) ?? 10) * size;
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, nth) => Number(((first + nth) * step).toPrecision(12)));
  };
  var scale = (low, high, from, to, log = false) => {
    const place = log ? Math.log : (value) => value;
    const [start2, end] = [place(low), place(high)];
    return (value) => start2 === end ? (from + to) / 2 : from + (place(value) - start2) / (end - start2) * (to - from);
  };
  var keys2 = (marks, chosen2) => {
    marks.forEach((mark, nth) => {
      mark.setAttribute("tabindex", nth === 0 ? "0" : "-1");
      mark.addEventListener("click", () => chosen2(nth));
      mark.addEventListener("keydown", ({ key }) => {
        const to = { ArrowLeft: nth - 1, ArrowDown: nth - 1, ArrowRight: nth + 1, ArrowUp: nth + 1, Home: 0, End: marks.length - 1 }[key];
        const next = marks[to ?? -1];
        if (next) {
          mark.setAttribute("tabindex", "-1");
          next.setAttribute("tabindex", "0");
          next.focus();
        }
        if (key === "Enter" || key === " ") chosen2(nth);
      });
      mark.addEventListener("keydown", (event) => {
        if (/^(Arrow|Home|End|Enter| )/.test(event.key)) event.preventDefault();
      });
    });
  };
  var picture = (box, { across, up, ticks, log, joined, lines, marks }, names, chosen2) => {
    const width = Math.max(Math.min(box.clientWidth, WIDEST), NARROWEST);
    const root = draw("svg", { class: "sweep", width, height: HEIGHT2, viewBox: `0 0 ${width} ${HEIGHT2}`, role: "group", "aria-label": `${up} over ${across}` }, box);
    const [right, bottom] = [width - RIGHT, HEIGHT2 - BOTTOM];
    const all = (of) => marks.flatMap(of).filter((value) => value !== null);
    const [xs, ys] = [ticks.length ? ticks.map(({ at }) => at) : all(({ x: x2 }) => [x2]), all(({ y: y2, low: low2, high: high2 }) => [y2, low2, high2])];
    const [low, high] = [Math.min(0, ...ys), 1.05 * Math.max(0, ...ys) || 1];
    const x = scale(Math.min(...xs), Math.max(...xs), LEFT + 12, right - 12, log);
    const y = scale(low, high, bottom, TOP);
    for (const value of round(low, high)) {
      draw("line", { class: "grid-line", x1: LEFT, x2: right, y1: y(value), y2: y(value) }, root);
      draw("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, root, shown(value));
    }
    let free = 0;
    const below2 = ticks.length ? [...ticks].sort((one, other) => one.at - other.at) : round(Math.min(...xs), Math.max(...xs)).map((at) => ({ at, text: shown(at) }));
    for (const { at, text } of below2) {
      draw("line", { class: "grid-line", x1: x(at), x2: x(at), y1: bottom, y2: bottom + 4 }, root);
      if (x(at) < free) continue;
      draw("text", { x: x(at), y: bottom + 17, "text-anchor": "middle" }, root, text);
      free = x(at) + Math.max(ROOM, 7 * text.length);
    }
    draw("text", { x: (LEFT + right) / 2, y: HEIGHT2 - 8, "text-anchor": "middle" }, root, across);
    draw("text", { x: 4, y: 14 }, root, up);
    lines.forEach(({ colour, dash }, nth) => {
      const line = marks.filter((mark) => mark.line === nth);
      const step = (mark, at) => `${at ? joined === "steps" ? `H${x(mark.x)}V${y(mark.y)}` : `L${x(mark.x)} ${y(mark.y)}` : `M${x(mark.x)} ${y(mark.y)}`}`;
      if (joined !== "no") draw("path", { class: "line", d: line.map(step).join(""), stroke: tone(colour)(), "stroke-dasharray": dash.join(" ") }, root);
      for (const { x: at, low: from, high: to } of line) if (from !== null && to !== null) draw("path", { class: "line", d: `M${x(at)} ${y(from)}V${y(to)}m-3 0h6M${x(at) - 3} ${y(from)}h6`, stroke: tone(colour)() }, root);
    });
    const buttons = marks.map((mark) => {
      const name = names[mark.point] ?? "";
      const button = draw("g", { class: "mark", role: "button", "aria-label": name }, root);
      draw("circle", { cx: x(mark.x), cy: y(mark.y), r: 12, class: "reach" }, button);
      draw("circle", { cx: x(mark.x), cy: y(mark.y), r: marks.length > 100 ? 2.5 : 4, fill: tone(lines[mark.line]?.colour ?? "#000000")() }, button);
      draw("title", {}, button, name);
      return button;
    });
    keys2(buttons, (nth) => chosen2(marks[nth]?.point ?? 0));
    const told = lines.filter(({ label }) => label);
    if (!told.length) return;
    const legend2 = make("p", void 0, box);
    legend2.className = "note";
    for (const { label, colour, dash } of told) {
      const key = draw("svg", { width: 26, height: 10, "aria-hidden": "true" }, legend2);
      draw("line", { class: "line", x1: 1, x2: 25, y1: 5, y2: 5, stroke: tone(colour)(), "stroke-dasharray": dash.join(" ") }, key);
      legend2.append(` ${label}  `);
    }
  };

  // src/sweep.ts
  var seeds = (box, id, data, point, lead2) => {
    box.replaceChildren();
    make("b", `${data.axes.map((axis2, nth) => `${axis2} = ${point.place[nth] ?? ""}`).join(", ")}: ${point.text}`, box);
    const bar = make("p", "Runs: ", box);
    bar.className = "bar";
    for (const seed2 of data.seeds) {
      const button = make("button", `seed ${seed2}`, bar);
      button.type = "button";
      button.addEventListener("click", () => lead2(id, point.point, seed2));
    }
  };
  var rows = (data, chosen2) => {
    const table2 = make("table");
    table2.className = "grid";
    const head = make("tr", void 0, make("thead", void 0, table2));
    for (const axis2 of [...data.axes, "Mean"]) make("th", axis2, head).scope = "col";
    const body = make("tbody", void 0, table2);
    for (const point of data.points) {
      const row2 = make("tr", void 0, body);
      for (const name of point.place) make("td", name, row2);
      const button = make("button", point.text, make("td", void 0, row2));
      button.type = "button";
      button.setAttribute("aria-label", `${point.place.join(", ")}: ${point.text}`);
      button.addEventListener("click", () => chosen2(point));
    }
    return table2;
  };
  var sweep = async (id, labels2, into, lead2, metric = "") => {
    const data = await ask(`/api/points?id=${encodeURIComponent(id)}&metric=${encodeURIComponent(metric)}`);
    into.replaceChildren();
    const label = make("label", "Metric ", make("p", void 0, into));
    const choice = make("select", void 0, label);
    for (const name of data.metrics) {
      const option = make("option", labels2[name] ?? name, choice);
      option.value = name;
      option.selected = name === data.metric;
    }
    choice.addEventListener("change", () => {
      void sweep(id, labels2, into, lead2, choice.value).then(() => into.querySelector("select")?.focus());
    });
    const many = data.seeds.length > 1;
    const few = data.points.length < data.total;
    const note = `${many ? `Mean of ${data.seeds.length} seeds. ` : ""}${few ? `The ${data.points.length} points of ${data.total.toLocaleString("en")} with the lowest and the highest values. ` : ""}Choose a ${data.picture ? "mark or a " : ""}value to see its runs.`;
    make("p", note, into).className = "note";
    const drawn2 = make("figure", void 0, into);
    drawn2.className = "wide";
    drawn2.hidden = !data.picture;
    const runs = make("div", void 0, into);
    runs.className = "seeds";
    runs.setAttribute("aria-live", "polite");
    const wide = make("div", void 0, into);
    wide.className = "wide all";
    wide.tabIndex = 0;
    wide.setAttribute("role", "region");
    wide.setAttribute("aria-label", `${labels2[data.metric] ?? data.metric} over the sweep`);
    const chosen2 = (point) => {
      seeds(runs, id, data, point, lead2);
      runs.scrollIntoView({ block: "nearest" });
    };
    const named = data.points.map(({ place, text }) => `${place.join(", ")}: ${text}`);
    if (data.picture) picture(drawn2, data.picture, named, (nth) => data.points[nth] && chosen2(data.points[nth]));
    wide.append(rows(data, chosen2));
  };

  // src/serve.ts
  var filter = byId("filter", HTMLInputElement);
  var failed = byId("failed", HTMLElement);
  var seed = byId("seed", HTMLInputElement);
  var backend = byId("backend", HTMLSelectElement);
  var basis = byId("basis", HTMLSelectElement);
  var progress = byId("progress", HTMLProgressElement);
  var startButton = byId("run", HTMLButtonElement);
  var stopButton = byId("stop", HTMLButtonElement);
  var state = byId("state", HTMLOutputElement);
  var edit = byId("edit", HTMLDetailsElement);
  var SHOWN = ["throughput_bps", "rtt_ns", "queue_delay_ns"];
  var SMALL = 5e-3;
  var VERDICTS = { unclear: "unclear: may be chance", same: "same, within 1 %", untested: "not tested: too few runs" };
  var entries = [];
  var quantities = {};
  var labels = {};
  var chosen = [];
  var drawn = new Set(SHOWN);
  var tell = (error) => {
    failed.hidden = !error;
    failed.textContent = error instanceof Error ? error.message : String(error ?? "");
  };
  var FEW = 6;
  var engine = new Http(() => ({ backend: backend.value, seed: seed.value === "" ? null : Number(seed.value), name: byId("name", HTMLInputElement).value }));
  var plots;
  var editor;
  var entry = (id) => entries.find((found2) => found2.id === id);
  var isJob = (id) => id.startsWith("job:");
  var kept = () => chosen.map(entry).filter((found2) => found2?.kind === "run");
  var wanted = () => [...drawn];
  var series = (id) => id.replace(/\/seed-\d+$/, "");
  var given = /* @__PURE__ */ new Map();
  var short = (name) => name.replace(/-(\d+(to\d+)?|sweep)-[0-9a-f]{6}(?=\/|$)/, "");
  var called = (id) => given.get(short(series(id)))?.size === 1 ? short(id) : id;
  var sides = () => {
    const found2 = /* @__PURE__ */ new Map();
    for (const one of kept()) {
      const all = entries.filter((other) => other.kind === "run" && series(other.id) === series(one.id));
      if (all.length > 1 && all.every(({ id }) => chosen.includes(id))) found2.set(series(one.id), all);
      else found2.set(one.id, [one]);
    }
    return [...found2].map(([name, runs]) => ({ name, runs }));
  };
  var remember = () => {
    const parts = chosen.filter((id) => !isJob(id)).map((id) => `run=${encodeURIComponent(id)}`);
    parts.push(...wanted().map((name) => `show=${name}`));
    history.replaceState(null, "", `#${parts.join("&")}`);
  };
  var recall = () => {
    const said = new URLSearchParams(location.hash.slice(1));
    chosen = said.getAll("run").filter(entry);
    const names = said.getAll("show").filter((name) => name in quantities);
    if (names.length) drawn = new Set(names);
  };
  var warning = (found2, inside) => {
    if (!found2.beyond.length) return;
    const mark = make("em", "not to be trusted", inside);
    mark.title = found2.beyond.join("\n");
  };
  var about = (found2) => found2.kind === "run" ? `${found2.controllers.join(", ")} · ${found2.flows} flow${found2.flows > 1 ? "s" : ""}${found2.backend === "emu" ? " · emulated" : found2.backend === "vm" ? " · Linux in virtual time" : ""}` : `sweep of ${found2.runs} runs over ${found2.axes.join(" and ")}`;
  var row = (name, said, found2) => {
    const ids = found2.map(({ id }) => id);
    const item = make("li");
    const all = ids.every((id) => chosen.includes(id));
    item.classList.toggle("chosen", all);
    const tick = make("input", void 0, item);
    tick.type = "checkbox";
    tick.checked = all;
    tick.setAttribute("aria-label", `lay over: ${name}`);
    tick.addEventListener("change", () => choose(tick.checked ? [...chosen, ...ids] : chosen.filter((id) => !ids.includes(id))));
    const button = make("button", void 0, item);
    if (all) button.setAttribute("aria-current", "true");
    make("b", name, button).title = name === ids[0] ? "" : series(ids[0] ?? "");
    make("span", said, button);
    for (const one of found2) if (one.kind === "run") warning(one, button);
    button.addEventListener("click", () => choose(ids));
    return item;
  };
  var group = (name, found2) => {
    const [first] = found2;
    const item = row(called(name), `${found2.length} repeats · ${about(first)}`, found2);
    const box = make("details", void 0, item);
    box.open = filter.value !== "" || !item.classList.contains("chosen") && found2.some(({ id }) => chosen.includes(id));
    make("summary", "Seeds", box);
    const one = [...found2].sort((one2, other) => one2.seed - other.seed).map((run2) => row(called(run2.id), `seed ${run2.seed}`, [run2]));
    make("ul", void 0, box).append(...one);
    return item;
  };
  var list = () => {
    const words2 = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const left = entries.filter((found2) => {
      const own = found2.kind === "run" ? [...found2.controllers, `seed ${found2.seed}`, found2.backend] : [];
      const text = [found2.id, found2.scenario, found2.kind, ...own].join(" ").toLowerCase();
      return words2.every((word) => text.includes(word));
    });
    byId("count", HTMLElement).textContent = entries.length ? `${left.length} of ${entries.length}` : "";
    const box = byId("runs", HTMLElement);
    const all = () => [...box.querySelectorAll("input, button")];
    const focus = all().indexOf(document.activeElement);
    const groups = grouped(left, ({ id }) => series(id));
    const single = (found2) => row(called(found2.id), `${about(found2)}${found2.kind === "run" ? ` · seed ${found2.seed}` : ""}`, [found2]);
    box.replaceChildren(...[...groups].map(([name, found2]) => found2[1] ? group(name, found2) : single(found2[0])));
    if (focus >= 0) all()[focus]?.focus();
  };
  var report = (link, [run2]) => {
    link.href = `/report?id=${encodeURIComponent(run2?.id ?? "")}`;
    link.title = "open the report";
    link.target = "_blank";
  };
  var table = (shown2, between) => {
    const box = byId("table", HTMLElement);
    byId("metrics", HTMLElement).hidden = byId("head", HTMLElement).hidden = !shown2.length;
    byId("manage", HTMLElement).hidden = shown2.length !== 1;
    byId("title", HTMLElement).textContent = shown2.length > 3 ? `${shown2.length} runs` : shown2.map(({ name, runs }) => called(name) + (runs[1] ? ` (${runs.length} repeats)` : "")).join(" and ");
    byId("delete", HTMLElement).hidden = byId("report", HTMLElement).hidden = shown2[0]?.runs.length !== 1;
    report(byId("report", HTMLAnchorElement), shown2[0]?.runs ?? []);
    const untrusted = kept().filter(({ beyond }) => beyond.length);
    const banner = byId("untrusted", HTMLElement);
    banner.hidden = !untrusted.length;
    banner.querySelector("ul")?.replaceChildren(...untrusted.flatMap(({ id, beyond }) => beyond.map((reason) => make("li", `${id}: ${reason}`))));
    box.classList.toggle("one", shown2.length === 1);
    const changes = new Map(between?.metrics.map((change) => [change.name, change]));
    const means = between?.runs.some((count2) => count2 > 1);
    const tested = between?.metrics.some(({ p }) => p !== null);
    const head = make("tr");
    make("th", "Metric", head).scope = "col";
    for (const [nth, { name, runs, told }] of shown2.entries()) {
      const cell = make("th", void 0, head);
      cell.scope = "col";
      if (runs.length === 1) report(make("a", called(name), cell), runs);
      else cell.append(called(name));
      const count2 = means ? between?.runs[nth] ?? 1 : told?.runs ?? 1;
      if (means || count2 > 1) make("span", `, mean of ${count2} runs`, cell);
      for (const run2 of runs) warning(run2, cell);
    }
    for (const title of between ? ["Change", ...tested ? ["Difference, 95 % interval", "p", "Verdict"] : []] : []) make("th", title, head).scope = "col";
    const titles = [...head.cells].map(({ textContent }) => textContent);
    const names = new Set(shown2.flatMap(({ runs }) => Object.keys(runs[0]?.metrics ?? {})));
    const rows2 = [...names].map((name) => {
      const line = make("tr");
      const title = make("th", labels[name] ?? name, line);
      title.scope = "row";
      title.title = name;
      const change = changes.get(name);
      const cells = shown2.map(({ runs, told }, nth) => (means ? change?.[nth ? "new" : "old"] : (told?.metrics ?? runs[0]?.metrics)?.[name]) ?? "–");
      if (between) cells.push(change?.change_ratio == null ? "–" : percent(change));
      if (tested) cells.push(change?.interval ?? "–", change?.p == null ? "–" : change.p < 1e-4 ? "< 0.0001" : change.p.toPrecision(2), VERDICTS[change?.verdict ?? ""] ?? change?.verdict ?? "–");
      for (const [nth, text] of cells.entries()) {
        const [mean, spread] = text.split(/ (?=\()/);
        const cell = make("td", mean, line);
        cell.dataset["title"] = titles[nth + 1];
        if (spread) make("span", ` ${spread}`, cell);
      }
      return line;
    });
    box.replaceChildren(head, ...rows2);
    byId("more", HTMLElement).hidden = rows2.length <= FEW;
    byId("more", HTMLElement).textContent = `All ${rows2.length} metrics`;
  };
  var percent = ({ change_ratio }) => `${(change_ratio ?? 0) > 0 ? "+" : ""}${shown((change_ratio ?? 0) * 100)} %`;
  byId("more", HTMLElement).addEventListener("click", ({ currentTarget }) => {
    const all = byId("table", HTMLElement).classList.toggle("all");
    currentTarget.setAttribute("aria-expanded", String(all));
  });
  var comparisons = 0;
  var results = async () => {
    const turn = ++comparisons;
    const found2 = sides();
    table(found2);
    const said = byId("verdict", HTMLElement);
    said.textContent = "";
    const [one, other] = found2;
    const wish = (path, side) => `${path}=${encodeURIComponent(side.runs[0]?.id ?? "")}`;
    await Promise.all(
      found2.filter(({ runs }) => found2.length === 1 || runs.length > 1).map(async (side) => side.told = await ask(`/api/side?${wish("id", side)}${side.runs.length > 1 ? "&repeats=yes" : ""}`))
    );
    const between = one && other && found2.length === 2 ? await ask(`/api/compare?${wish("old", one)}&${wish("new", other)}`) : void 0;
    if (turn !== comparisons) return;
    table(found2, between);
    said.classList.toggle("failed", !between && (one?.told?.failed ?? false));
    said.textContent = between && one && other ? compared(between, one, other) : found2.length === 1 ? one?.told?.verdict ?? "" : "";
  };
  var compared = ({ settings, metrics, runs }, old, now) => {
    const lone = runs.every((count2) => count2 === 1);
    const [one, other] = [old.runs[0], now.runs[0]];
    const set = settings.map(({ key, old: old2, new: now2 }) => `${key}: ${old2 || "not set"} to ${now2 || "not set"}`);
    if (one && other && one.seed !== other.seed && lone) set.push(`seed: ${one.seed} to ${other.seed}`);
    const changed = metrics.filter(({ change_ratio }) => Math.abs(change_ratio ?? 0) >= SMALL);
    const first = Object.keys(one?.metrics ?? {}).slice(0, FEW);
    const main = changed.filter(({ name }) => first.includes(name)).map((change) => `${labels[change.name] ?? change.name} ${percent(change)}${change.p === null ? "" : ` (${change.verdict})`}`);
    const how = metrics.every(({ p }) => p === null) ? "One run cannot tell an effect from chance: use repeats on both sides." : `Means of ${runs.join(" and ")} runs; seeds on both sides are compared in pairs, and p is corrected for the number of metrics (Holm).`;
    return `${set.length ? `Settings that differ: ${set.join("; ")}` : "The settings are the same"}. ${changed.length ? `${main.join(", ") || "None of the first six metrics changes by 0.5 % or more"}. ${how}` : "No metric differs by 0.5 % or more."}`;
  };
  var pictures = () => {
    const box = byId("pictures", HTMLElement);
    const sweeps = chosen.map(entry).filter((found2) => found2?.kind === "sweep");
    box.hidden = !sweeps.length;
    box.replaceChildren();
    for (const found2 of sweeps) {
      make("h2", called(found2.id), box);
      const files = make("p", void 0, box);
      const button = make("button", "Rename", files);
      button.addEventListener("click", () => void rename(found2.id).catch(tell));
      for (const name of found2.pictures) {
        files.append(" ");
        const link = make("a", name, files);
        link.href = `/picture?id=${encodeURIComponent(found2.id)}&name=${encodeURIComponent(name)}`;
        link.target = "_blank";
        if (found2.axes.length > 2 && !name.endsWith(".svg")) Object.assign(make("img", void 0, link), { src: link.href, alt: "" });
      }
      sweep(found2.id, labels, make("div", void 0, box), (id, point, nth) => void lead(id, point, nth).catch(tell)).catch(tell);
    }
  };
  var lead = async (id, point, nth) => {
    if (startButton.disabled) return;
    await load(`sweep=${encodeURIComponent(id)}&point=${point}&seed=${nth}`);
    edit.open = true;
    edit.scrollIntoView();
    chosen = [];
    await run();
  };
  var draw2 = (again = false) => {
    const runs = chosen.filter((id) => isJob(id) || entry(id)?.kind === "run");
    byId("plots", HTMLElement).hidden = !runs.length;
    byId("several", HTMLElement).hidden = runs.length < 2;
    plots.apart = byId("apart", HTMLInputElement).checked;
    return plots.show(runs, wanted(), again);
  };
  var choose = (ids) => {
    chosen = [...new Set(ids)];
    tell();
    remember();
    list();
    pictures();
    return Promise.all([draw2(), results()]).then(
      () => void 0,
      (error) => tell(error)
    );
  };
  var refresh = async () => {
    const found2 = await ask("/api/runs");
    entries = found2.runs;
    quantities = found2.quantities;
    labels = found2.labels;
    given.clear();
    for (const { id } of entries) given.set(short(series(id)), (given.get(short(series(id))) ?? /* @__PURE__ */ new Set()).add(series(id)));
  };
  var load = async (from) => {
    const found2 = await ask(`/api/scenario?${from}`);
    seed.value = found2.seed === null ? "" : String(found2.seed);
    backend.value = found2.backend;
    editor.edit(found2.text);
  };
  var busy = (now) => {
    startButton.disabled = now;
    progress.hidden = stopButton.hidden = !now;
  };
  var run = async () => {
    const before = chosen.filter((id) => !isJob(id));
    tell();
    busy(true);
    document.body.dataset["job"] = "running";
    let drawing = Promise.resolve();
    const ended = (said) => {
      busy(false);
      state.textContent = said;
      document.body.dataset["job"] = said.split(":")[0] ?? "";
    };
    try {
      const { run: id } = await engine.run(editor.text, {
        progress: ({ simulated_ns, total_ns }) => {
          progress.value = simulated_ns / total_ns;
          const far = `${(simulated_ns / 1e9).toFixed(1)} of ${total_ns / 1e9} s`;
          state.textContent = backend.value === "sim" ? far : `${far}; plots come at its end`;
        },
        more: (job) => {
          chosen = [...before, job];
          drawing = drawing.then(() => draw2(true)).catch(tell);
        }
      });
      await drawing;
      await refresh();
      await choose([...before, id]);
      ended(`done: ${id}`);
    } catch (error) {
      chosen = before;
      if (error instanceof Refused) editor.show(error.problems);
      else if (!(error instanceof Stopped)) tell(error);
      ended(error instanceof Stopped ? "stopped" : "failed");
    }
  };
  var form = async () => {
    const given2 = await ask("/api/basis");
    editor = new Editor({
      schema: given2.schema,
      controllers: given2.controllers,
      check: (text) => engine.check(text),
      run: () => {
        if (!startButton.disabled) void run();
      }
    });
    for (const { name, about: about2 } of given2.scenarios) make("option", name, basis).title = about2;
    await load("shipped=");
    startButton.disabled = false;
  };
  var start = async () => {
    await refresh();
    recall();
    plots = new Plots(Object.keys(quantities), engine, tell, called);
    for (const [name, title] of Object.entries(quantities)) {
      const label = make("label", void 0, byId("quantities", HTMLElement));
      const tick = make("input", void 0, label);
      tick.type = "checkbox";
      tick.checked = drawn.has(name);
      label.append(` ${title}`);
      tick.addEventListener("change", () => {
        drawn[tick.checked ? "add" : "delete"](name);
        remember();
        draw2(true).catch(tell);
      });
    }
    const latest = entries.find(({ kind }) => kind === "run") ?? entries[0];
    edit.open = !latest;
    await choose(chosen.length || !latest ? chosen : [latest.id]);
  };
  startButton.addEventListener("click", () => void run());
  stopButton.addEventListener("click", () => engine.stop());
  basis.addEventListener("change", () => void load(`shipped=${encodeURIComponent(basis.value)}`).catch(tell));
  var rename = async (name) => {
    const wish = prompt(`New name of ${name}`, called(name).split("/").at(-1));
    if (!wish) return;
    const now = await ask("/api/rename", { id: name, name: wish });
    await refresh();
    await choose(chosen.map((id) => series(id) === name || id === name ? now + id.slice(name.length) : id));
  };
  var act = (id, what) => byId(id, HTMLButtonElement).addEventListener("click", () => {
    const [only] = sides();
    if (only) what(only).catch(tell);
  });
  act("change", async ({ runs }) => {
    edit.open = true;
    edit.scrollIntoView();
    await formed;
    await load(`id=${encodeURIComponent(runs[0]?.id ?? "")}`);
  });
  act("rename", ({ name }) => rename(name));
  act("delete", async ({ name }) => {
    if (!confirm(`Delete the run ${name} and its folder?`)) return;
    await ask("/api/delete", { id: name });
    await refresh();
    await choose([]);
  });
  byId("apart", HTMLInputElement).addEventListener("change", () => draw2(true).catch(tell));
  byId("new", HTMLButtonElement).addEventListener("click", () => {
    edit.open = true;
    byId("toml", HTMLTextAreaElement).focus();
  });
  filter.addEventListener("input", list);
  var formed = form();
  Promise.all([start(), formed]).then(() => document.body.dataset["ready"] = "yes", tell);
})();
