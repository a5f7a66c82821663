// Built from web/ by `make web`. Sources: sha256 a5c2e5a5ccc76480ab18d52d32d5ff3709c1fb74af9d65f3b0a87c701f4f69ea
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
    const found = document.getElementById(id);
    if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} ${id}`);
    return found;
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

  // src/job.ts
  var progress = byId("progress", HTMLProgressElement);
  var stop = byId("stop", HTMLButtonElement);
  var start = byId("start", HTMLButtonElement);
  var state = byId("state", HTMLOutputElement);
  var say = (said) => {
    if (said.state !== "running") return said.state;
    const far = `${(said.simulated_ns / 1e9).toFixed(1)} of ${said.total_ns / 1e9} s`;
    return said.backend === "emu" ? `${far}, emulated in real time; plots come at its end` : far;
  };
  var follow = (job, hands) => {
    let version = 0;
    let over = false;
    const events = new EventSource(`/api/jobs/${job.job}/events`);
    const wish = () => void ask(`/api/jobs/${job.job}/stop`, {}).catch(hands.tell);
    stop.addEventListener("click", wish);
    const busy = (now) => {
      progress.hidden = stop.hidden = !now;
      start.disabled = now;
    };
    const end = () => {
      over = true;
      events.close();
      stop.removeEventListener("click", wish);
      busy(false);
    };
    busy(true);
    const show = async (said) => {
      try {
        if (said.state === "done" && said.id) await hands.done(said.id);
        else if (said.state === "failed") hands.tell(new Error(said.message));
        else if (said.version > version) {
          version = said.version;
          await hands.more(`job:${said.job}`);
        }
      } catch (error) {
        hands.tell(error);
      }
      document.body.dataset["job"] = said.state;
    };
    let shown3 = Promise.resolve();
    events.onmessage = (message) => {
      const said = JSON.parse(message.data);
      progress.value = said.simulated_ns / said.total_ns;
      state.textContent = say(said);
      if (said.state !== "running") end();
      shown3 = shown3.then(() => show(said));
    };
    events.onerror = () => {
      if (!over) hands.tell(new Error("the server has gone"));
      end();
    };
  };

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

  // src/quantity.ts
  var shown = (value) => value == null ? "–" : Number(value.toPrecision(4)).toLocaleString("en");
  var seconds = (value) => value == null ? "–" : `${value.toFixed(3)} s`;

  // src/plots.ts
  var HEIGHT = 250;
  var MANY = 20;
  var LEGEND = 40;
  var Plots = class {
    #drawn = /* @__PURE__ */ new Map();
    #box = byId("drawn", HTMLElement);
    #order;
    #tell;
    #runs = [];
    #names = [];
    /** What is shown; all of the time if nothing is said. */
    #view = null;
    /** What there is data for at the fineness of the view. */
    #loaded = null;
    #end = 1;
    #turn = 0;
    #loading = false;
    constructor(order, tell2) {
      this.#order = order;
      this.#tell = tell2;
      addEventListener("resize", settled(() => this.#drawn.forEach(({ chart }) => chart.setSize({ width: this.#box.clientWidth, height: HEIGHT })), 100));
    }
    /** Draws quantities of runs; of other runs than before, all of the time. */
    show(runs, names, again2 = false) {
      if (!again2) this.#view = null;
      this.#runs = runs;
      this.#names = runs.length ? names : [];
      for (const [name, plot] of this.#drawn) {
        if (this.#names.includes(name)) continue;
        plot.chart.destroy();
        plot.box.remove();
        this.#drawn.delete(name);
      }
      return this.#load();
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
      const which = this.#runs.map((id) => `id=${encodeURIComponent(id)}`);
      if (this.#loaded) which.push(`from=${this.#loaded[0]}`, `to=${this.#loaded[1]}`);
      await Promise.all(
        this.#names.map(async (name) => {
          const data = await ask(`/api/series?quantity=${name}&${which.join("&")}`);
          if (turn === this.#turn) this.#put(name, data);
        })
      );
      document.body.dataset["drawn"] = String(turn);
    }
    /** Fetches until there is data for what is shown by then. */
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
      for (const { chart } of this.#drawn.values()) chart.setScale("x", { min, max });
      void this.#refine();
    }
    #put(name, data) {
      this.#end = data.end;
      const columns = [data.times, ...data.lines.map(({ values }) => values)];
      const key = JSON.stringify([data.unit, data.lines.map(({ run, label }) => [run, label])]);
      const known = this.#drawn.get(name);
      const [min, max] = this.#span();
      if (known?.key === key) {
        known.chart.setData(columns, false);
        known.chart.setScale("x", { min, max });
        return;
      }
      known?.chart.destroy();
      const box = known?.box ?? this.#place(name);
      const chart = new uPlot(this.#options(data), void 0, box);
      this.#drawn.set(name, { chart, box, key });
      chart.setData(columns, false);
      chart.setScale("x", { min, max });
      this.#listen(chart);
    }
    /** Plots stand in the order of their quantities. */
    #place(name) {
      const box = make("div");
      box.className = "plot";
      const after = this.#order.slice(this.#order.indexOf(name) + 1).find((other) => this.#drawn.has(other));
      this.#box.insertBefore(box, after && this.#drawn.get(after)?.box || null);
      return box;
    }
    #options(data) {
      const several = new Set(data.lines.map(({ run }) => run)).size > 1;
      const many = data.lines.length > MANY;
      const lines = data.lines.map(
        ({ run, label, colour, dash }) => ({
          label: several ? `${run}: ${label}` : label,
          stroke: colour,
          ...many ? {} : { dash: dashed(dash) },
          width: many ? 1 / devicePixelRatio : 1.25,
          points: { show: false },
          value: (_, value) => shown(value)
        })
      );
      return {
        title: data.title,
        width: this.#box.clientWidth,
        height: HEIGHT,
        scales: { x: { time: false }, y: { range: fromZero } },
        axes: [timeAxis(), axis(data.unit, SIDE - 18)],
        series: [{ label: "time", value: (_, value) => seconds(value) }, ...lines],
        legend: { show: data.lines.length <= LEGEND },
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
          const each = (max - min) / chart.over.clientWidth;
          const drag = (moved) => {
            const by = Math.min(Math.max((event.clientX - moved.clientX) * each, -min), Math.max(this.#end - max, 0));
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

  // src/serve.ts
  var filter = byId("filter", HTMLInputElement);
  var base = byId("base", HTMLSelectElement);
  var failed = byId("failed", HTMLElement);
  var entries = [];
  var quantities = {};
  var chosen = [];
  var drawn = /* @__PURE__ */ new Set(["throughput_bps", "rtt_ns", "queue_delay_ns"]);
  var plots;
  var tell = (error) => {
    failed.hidden = !error;
    failed.textContent = error instanceof Error ? error.message : String(error ?? "");
  };
  var entry = (id) => entries.find((found) => found.id === id);
  var isJob = (id) => id.startsWith("job:");
  var kept = () => chosen.map(entry).filter((found) => found?.kind === "run");
  var shown2 = () => [...drawn];
  var remember = () => {
    const parts = chosen.filter((id) => !isJob(id)).map((id) => `run=${encodeURIComponent(id)}`);
    parts.push(...shown2().map((name) => `show=${name}`));
    history.replaceState(null, "", `#${parts.join("&")}`);
  };
  var recall = () => {
    const said = new URLSearchParams(location.hash.slice(1));
    chosen = said.getAll("run").filter(entry);
    const names = said.getAll("show").filter((name) => name in quantities);
    if (names.length) drawn = new Set(names);
  };
  var warning = (found, inside) => {
    if (!found.beyond.length) return;
    const mark = make("em", "not to be trusted", inside);
    mark.title = found.beyond.join("\n");
  };
  var about = (found) => found.kind === "run" ? `${found.controllers.join(", ")} · ${found.flows} flow${found.flows > 1 ? "s" : ""} · seed ${found.seed}${found.backend === "emu" ? " · emulated" : ""}` : `sweep of ${found.runs} runs over ${found.axes.join(" and ")}`;
  var row = (found) => {
    const item = make("li");
    item.classList.toggle("chosen", chosen.includes(found.id));
    const tick = make("input", void 0, item);
    tick.type = "checkbox";
    tick.checked = chosen.includes(found.id);
    tick.setAttribute("aria-label", `lay over: ${found.id}`);
    tick.addEventListener("change", () => choose(tick.checked ? [...chosen, found.id] : chosen.filter((id) => id !== found.id)));
    const button = make("button", void 0, item);
    make("b", found.id, button);
    make("span", about(found), button);
    if (found.kind === "run") warning(found, button);
    button.addEventListener("click", () => choose([found.id]));
    return item;
  };
  var list = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const left = entries.filter((found) => {
      const own = found.kind === "run" ? [...found.controllers, `seed ${found.seed}`, found.backend] : [];
      const text = [found.id, found.scenario, found.kind, ...own].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    byId("count", HTMLElement).textContent = `${left.length} of ${entries.length}`;
    byId("runs", HTMLElement).replaceChildren(...left.map(row));
  };
  var table = () => {
    const told = kept();
    byId("metrics", HTMLElement).hidden = !told.length;
    const untrusted = told.filter(({ beyond }) => beyond.length);
    const banner = byId("untrusted", HTMLElement);
    banner.hidden = !untrusted.length;
    banner.querySelector("ul")?.replaceChildren(...untrusted.flatMap(({ id, beyond }) => beyond.map((reason) => make("li", `${id}: ${reason}`))));
    const head = make("tr");
    make("th", "metric", head);
    for (const found of told) {
      const cell = make("th", void 0, head);
      const link = make("a", found.id, cell);
      link.href = `/report?id=${encodeURIComponent(found.id)}`;
      link.title = "open the report";
      link.target = "_blank";
      warning(found, cell);
    }
    const names = new Set(told.flatMap(({ metrics }) => Object.keys(metrics)));
    const rows = [...names].map((name) => {
      const line = make("tr");
      make("td", name, line);
      for (const { metrics } of told) make("td", metrics[name] ?? "–", line);
      return line;
    });
    byId("table", HTMLElement).replaceChildren(head, ...rows);
  };
  var pictures = () => {
    const box = byId("pictures", HTMLElement);
    const sweeps = chosen.map(entry).filter((found) => found?.kind === "sweep");
    box.hidden = !sweeps.length;
    box.replaceChildren();
    for (const found of sweeps) {
      make("h2", found.id, box);
      for (const name of found.pictures) {
        const image = make("img", void 0, box);
        image.alt = name;
        image.src = `/picture?id=${encodeURIComponent(found.id)}&name=${encodeURIComponent(name)}`;
      }
    }
  };
  var draw = (again2 = false) => {
    const runs = chosen.filter((id) => isJob(id) || entry(id)?.kind === "run");
    byId("plots", HTMLElement).hidden = !runs.length;
    return plots.show(runs, shown2(), again2);
  };
  var form = () => {
    const told = kept();
    byId("change", HTMLElement).hidden = !told.length;
    const before = base.value;
    base.replaceChildren(...told.map(({ id }) => make("option", id)));
    if (told.some(({ id }) => id === before)) base.value = before;
  };
  var choose = (ids) => {
    chosen = [...new Set(ids)];
    byId("hint", HTMLElement).hidden = chosen.length > 0;
    tell();
    remember();
    list();
    form();
    pictures();
    table();
    return draw().catch(tell);
  };
  var refresh = async () => {
    const found = await ask("/api/runs");
    entries = found.runs;
    quantities = found.quantities;
  };
  var again = async () => {
    const set = byId("set", HTMLTextAreaElement).value.split("\n").filter((line) => line.trim()).map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`KEY = VALUE, not: ${line}`);
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    });
    const said = byId("seed", HTMLInputElement).value;
    const job = await ask("/api/run", { id: base.value, set, seed: said === "" ? null : Number(said) });
    const before = chosen.filter((id) => !isJob(id));
    follow(job, {
      tell,
      more: (run) => {
        chosen = [...before, run];
        return draw(true);
      },
      done: async (run) => {
        await refresh();
        await choose([...before, run]);
      }
    });
  };
  var start2 = async () => {
    await refresh();
    recall();
    plots = new Plots(Object.keys(quantities), tell);
    for (const [name, title] of Object.entries(quantities)) {
      const label = make("label", void 0, byId("quantities", HTMLElement));
      const tick = make("input", void 0, label);
      tick.type = "checkbox";
      tick.checked = drawn.has(name);
      label.append(` ${title}`);
      tick.addEventListener("change", () => {
        drawn[tick.checked ? "add" : "delete"](name);
        remember();
        draw(true).catch(tell);
      });
    }
    if (!entries.length) byId("hint", HTMLElement).textContent = "There are no runs here yet: `paceline run FILE` makes one.";
    await choose(chosen);
    document.body.dataset["ready"] = "yes";
  };
  byId("again", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    tell();
    again().catch(tell);
  });
  filter.addEventListener("input", list);
  start2().catch(tell);
})();
