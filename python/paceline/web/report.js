// Built from web/ by `make web`. Sources: sha256 3fd8b211ce8f10481060de27bddff4264bb20d32e6c23f963e0a85fd56e9866a
"use strict";
(() => {
  // src/chart.ts
  var SIDE = 64;
  var FAMILY = 'system-ui, "DejaVu Sans", sans-serif';
  var FONT = `12px ${FAMILY}`;
  var small = (ratio) => `${11 * ratio}px ${FAMILY}`;
  var dark = matchMedia("screen and (prefers-color-scheme: dark)");
  var isDark = () => dark.matches;
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

  // src/dom.ts
  var byId = (id, kind) => {
    const found = document.getElementById(id);
    if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} ${id}`);
    return found;
  };
  var make = (tag, text, inside2) => {
    const element = document.createElement(tag);
    if (text !== void 0) element.textContent = text;
    inside2?.append(element);
    return element;
  };
  var settled = (act, milliseconds) => {
    let pending;
    return () => {
      clearTimeout(pending);
      pending = setTimeout(act, milliseconds);
    };
  };

  // src/quantity.ts
  var shown = (value2) => value2 == null ? "–" : Number(value2.toPrecision(4)).toLocaleString("en");
  var seconds = (value2) => value2 == null ? "–" : `${value2.toFixed(3)} s`;

  // src/packets.ts
  var MANY = 3e3;
  var APART = 3;
  var MB = 1e6;
  var BLUE = "#0072B2";
  var GREEN = "#009E73";
  var ORANGE = "#D55E00";
  var PURPLE = "#CC79A7";
  var unpacked = ({ kinds, t_us, kind, seq_bytes, len_bytes }) => {
    const count = t_us.length;
    const rows = { kinds, times: new Float64Array(count), kind: Uint8Array.from(kind), from: new Float64Array(count), to: new Float64Array(count) };
    const last = kinds.map(() => 0);
    let now = 0;
    for (let row = 0; row < count; row += 1) {
      now += t_us[row] ?? 0;
      const which = kind[row] ?? 0;
      const start2 = (last[which] ?? 0) + (seq_bytes[row] ?? 0);
      last[which] = start2;
      rows.times[row] = now / 1e6;
      rows.from[row] = start2;
      rows.to[row] = start2 + (len_bytes[row] ?? 0);
    }
    return rows;
  };
  var at = (times, t) => {
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = low + high >> 1;
      if ((times[middle] ?? Infinity) < t) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  var outline = (rows) => {
    const [ack, sends] = [rows.kinds.indexOf("ack"), rows.kinds.indexOf("send")];
    let [sent, acknowledged] = [0, 0];
    const lines = [[], []];
    rows.times.forEach((_, row) => {
      if (rows.kind[row] === sends) sent = Math.max(sent, rows.to[row] ?? 0);
      if (rows.kind[row] === ack) acknowledged = Math.max(acknowledged, rows.from[row] ?? 0);
      lines[0].push(sent / MB);
      lines[1].push(acknowledged / MB);
    });
    return lines;
  };
  var bar = (colour, width2) => (ctx, x, low, high, ratio) => {
    ctx.fillStyle = tone(colour)();
    ctx.fillRect(x - width2 * ratio / 2, high, width2 * ratio, Math.max(low - high, ratio));
  };
  var cross = (ctx, x, low, high, ratio) => {
    const [middle, arm] = [(low + high) / 2, 4 * ratio];
    ctx.strokeStyle = styled("--bad", "#b00020");
    ctx.lineWidth = 1.5 * ratio;
    ctx.beginPath();
    for (const side of [-1, 1]) {
      ctx.moveTo(x - arm, middle - side * arm);
      ctx.lineTo(x + arm, middle + side * arm);
    }
    ctx.stroke();
  };
  var ring = (ctx, x, low, high, ratio) => {
    ctx.strokeStyle = tone("#000000")();
    ctx.lineWidth = 1.25 * ratio;
    ctx.beginPath();
    ctx.arc(x, (low + high) / 2, 3.5 * ratio, 0, 7);
    ctx.stroke();
  };
  var dot = (ctx, x, low, _, ratio) => {
    ctx.fillStyle = tone(GREEN)();
    ctx.fillRect(x - 1.5 * ratio, low - 1.5 * ratio, 3 * ratio, 3 * ratio);
  };
  var LOOKS = {
    send: ["sent", "❘", bar(BLUE, 2)],
    retransmit: ["retransmitted", "▮", bar(ORANGE, 5)],
    sack: ["SACK", "▯", bar(PURPLE, 3)],
    ack: ["ACK", "▪", dot],
    drop: ["dropped", "×", cross],
    mark: ["CE mark", "○", ring]
  };
  var COLOURS = { send: BLUE, retransmit: ORANGE, sack: PURPLE, ack: GREEN };
  var RARE = /* @__PURE__ */ new Set(["retransmit", "drop", "mark"]);
  var each = (rows, told) => (u) => {
    const { ctx, bbox } = u;
    const { min, max } = u.scales["x"] ?? {};
    if (min == null || max == null) return;
    const [first, end] = [at(rows.times, min), at(rows.times, max)];
    const few = end - first <= MANY;
    told(end - first);
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const free = rows.kinds.map(() => -Infinity);
    for (let row = first; row < end; row += 1) {
      const which = rows.kind[row] ?? 0;
      const kind = rows.kinds[which] ?? "";
      const look = LOOKS[kind]?.[2];
      if (!look || !(few || RARE.has(kind))) continue;
      const x = u.valToPos(rows.times[row] ?? 0, "x", true);
      if (!few && x < (free[which] ?? 0)) continue;
      free[which] = x + APART * ratio;
      look(ctx, x, u.valToPos((rows.from[row] ?? 0) / MB, "y", true), u.valToPos((rows.to[row] ?? 0) / MB, "y", true), ratio);
    }
    ctx.restore();
  };
  var sequence = (label, packets, width2, height, margin2, box, follow) => {
    const rows = unpacked(packets);
    const [sent, acknowledged] = outline(rows);
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    const line2 = (name, colour) => ({
      label: name,
      stroke: tone(colour),
      width: 1,
      points: { show: false },
      value: (_, value2) => value2 == null ? "" : shown(value2),
      ...stepped ? { paths: stepped } : {}
    });
    const key = make("p");
    key.className = "note packets";
    const said = make("span", void 0, key);
    for (const [kind, [word, sign]] of Object.entries(LOOKS)) {
      if (!rows.kind.includes(rows.kinds.indexOf(kind))) continue;
      const entry = make("span", void 0, key);
      const mark = make("i", sign, entry);
      mark.setAttribute("aria-hidden", "true");
      mark.style.color = COLOURS[kind] ?? (kind === "drop" ? "var(--bad)" : "var(--ink)");
      entry.append(` ${word}`);
    }
    const left = packets.until === null ? "" : ` Packets after ${packets.until.toFixed(2)} s are not in this page: \`paceline sequence --from\` draws them.`;
    const told = (visible) => {
      box.dataset["visible"] = String(visible);
      said.textContent = visible > MANY ? `${visible.toLocaleString("en")} packets are in view, drawn as their outline; at ${MANY.toLocaleString("en")} or fewer, each is drawn.${left}` : `Each of ${visible.toLocaleString("en")} packets in view is drawn.${left}`;
    };
    const plot = new uPlot(
      {
        title: `Packets of ${label}, by sequence number`,
        width: width2,
        height,
        padding: [null, margin2, null, 0],
        scales: { x: { time: false }, y: { range: (_, low, high) => low == null || high == null ? [0, 1] : [low - (high - low) * 0.06 - 2e-3, high + (high - low) * 0.06 + 2e-3] } },
        axes: [timeAxis(), axis("MB", SIDE - 18)],
        series: [{ label: "time", value: (_, t) => t == null ? "" : seconds(t) }, line2("sent", BLUE), line2("acknowledged", GREEN)],
        cursor: cursor(),
        hooks: { setScale: [follow], draw: [each(rows, told)] }
      },
      [Array.from(rows.times), sent, acknowledged],
      box
    );
    box.append(key);
    return plot;
  };

  // src/strips.ts
  var ROW = 24;
  var AXIS = 60;
  var paint = (details, tints) => (u) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio || 1;
    const height = bbox.height / details.length;
    ctx.save();
    ctx.font = small(ratio);
    ctx.textBaseline = "middle";
    details.forEach(({ label, bands }, nth) => {
      const top = bbox.top + nth * height;
      ctx.textAlign = "right";
      ctx.fillStyle = styled("--ink", "#333");
      ctx.fillText(label.length > 9 ? `${label.slice(0, 8)}…` : label, bbox.left - 6 * ratio, top + height / 2);
      ctx.textAlign = "left";
      for (const { start: start2, end, state } of bands) {
        const left = Math.max(u.valToPos(start2, "x", true), bbox.left);
        const right = Math.min(u.valToPos(end, "x", true), bbox.left + bbox.width);
        if (right <= left) continue;
        ctx.fillStyle = tints[state] ?? "#ddd";
        ctx.fillRect(left, top + 2 * ratio, Math.max(right - left, 0.5), height - 4 * ratio);
        if (ctx.measureText(state).width + 8 * ratio > right - left) continue;
        ctx.fillStyle = "#1b1b1b";
        ctx.fillText(state, left + 4 * ratio, top + height / 2);
      }
    });
    ctx.restore();
  };
  var strips = (details, tints, width2, margin2, box, follow) => new uPlot(
    {
      title: "States of each flow",
      width: width2,
      height: ROW * details.length + AXIS,
      padding: [null, margin2, null, 0],
      scales: { x: { time: false }, y: { range: [0, 1] } },
      axes: [timeAxis(), { size: SIDE, values: () => [], grid: { show: false }, ticks: { show: false } }],
      series: [{}, { show: true, stroke: "transparent", points: { show: false } }],
      cursor: cursor(),
      legend: { show: false },
      hooks: { setScale: [follow], draw: [paint(details, tints)] }
    },
    [
      [0, 1],
      [0, 0]
    ],
    box
  );

  // src/why.ts
  var BEFORE_S = 1;
  var EVENTS = 5;
  var NEAR = 10;
  var after = (times, t) => {
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = low + high >> 1;
      if ((times[middle] ?? Infinity) <= t) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  var within = (bands, t) => bands.find(({ start: start2, end }) => start2 <= t && t < end)?.state ?? "–";
  var value = (panel, nth, t) => {
    const values = panel?.series[nth]?.values;
    if (!panel || !values) return "–";
    const last = after(panel.times, t) - 1;
    for (let at2 = last; at2 >= Math.max(last - NEAR, 0); at2 -= 1) {
      if (values[at2] != null) return `${shown(values[at2])} ${panel.unit}`;
    }
    return "–";
  };
  var lost = ({ lost: counts, panels }, t) => {
    const times = panels[0]?.times ?? [];
    const at2 = (moment) => counts[Math.max(after(times, moment) - 1, 0)] ?? 0;
    return at2(t) - at2(t - BEFORE_S);
  };
  var explain = (box, data, t) => {
    box.hidden = false;
    box.replaceChildren();
    make("h3", `At ${seconds(t)}`, box);
    const rtt = data.overview.find(({ title }) => title.startsWith("Round-trip"));
    const queue = data.overview.find(({ title }) => title.startsWith("Queue"));
    const of = queue?.series.findIndex(({ right }) => right) ?? -1;
    const waiting = queue?.series[of]?.values[Math.max(after(queue.times, t) - 1, 0)];
    if (waiting != null) make("p", `A packet arriving at the bottleneck waits ${shown(waiting)} ${queue?.unitRight ?? ""}.`, box);
    const table = make("table", void 0, box);
    const head = make("tr", void 0, make("thead", void 0, table));
    for (const title of ["Flow", "State", "Limited by", "In flight", "Window", "RTT", "Rate", `Lost in ${BEFORE_S} s`, "Last events"]) make("th", title, head).scope = "col";
    const body = make("tbody", void 0, table);
    data.details.forEach((detail, nth) => {
      const row = make("tr", void 0, body);
      make("th", detail.label, row).scope = "row";
      const [windows, rates] = detail.panels;
      const cells = [within(detail.bands, t), within(detail.limits, t), value(windows, 0, t), value(windows, 1, t), value(rtt, nth, t), value(rates, 0, t), detail.lost.length ? String(lost(detail, t)) : "–"];
      for (const cell of cells) make("td", cell, row);
      const events = make("ul", void 0, make("td", void 0, row));
      const known = data.happenings.filter(({ flow, t: at2 }) => at2 <= t && (flow === null || flow === detail.flow));
      for (const { t: at2, text } of known.slice(-EVENTS)) make("li", `${seconds(at2)} ${text}`, events);
    });
  };

  // src/zoom.ts
  var KEY = /(?:^|[#&])zoom=(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)/;
  var NEAR2 = 300;
  var Zoom = class {
    #plots = /* @__PURE__ */ new Set();
    /** Plots near the visible part of the page, and those still to be updated: a page has dozens. */
    #near = /* @__PURE__ */ new Set();
    #behind = /* @__PURE__ */ new Set();
    #watch;
    #moved;
    end;
    #view;
    constructor(end, moved) {
      this.end = end;
      this.#moved = moved;
      const said = KEY.exec(location.hash);
      const [from, to] = [Number(said?.[1]), Number(said?.[2])];
      this.#view = said && from < to && from < end ? [from, Math.min(to, end)] : [0, end];
      this.#watch = new IntersectionObserver((seen) => this.#moveTo(seen), { rootMargin: `${NEAR2}px` });
      addEventListener("beforeprint", () => this.#catchUp(this.#behind));
    }
    #moveTo(seen) {
      for (const { target, isIntersecting } of seen) {
        const plot = [...this.#plots].find(({ root }) => root === target);
        if (plot) this.#near[isIntersecting ? "add" : "delete"](plot);
      }
      this.#catchUp(this.#near);
    }
    /** Shows the window in those of these plots that have not followed it. */
    #catchUp(plots) {
      const [min, max] = this.#view;
      for (const plot of [...plots]) if (this.#behind.delete(plot)) plot.setScale("x", { min, max });
    }
    get view() {
      return this.#view;
    }
    /** Shows this span in all plots. */
    to(from, to) {
      const length = Math.min(Math.max(to - from, 1e-4), this.end);
      const start2 = Math.min(Math.max(from, 0), this.end - length);
      if (start2 === this.#view[0] && start2 + length === this.#view[1]) return;
      this.#view = [start2, start2 + length];
      for (const plot of this.#plots) this.#behind.add(plot);
      this.#catchUp(this.#near);
      const whole = start2 === 0 && length === this.end;
      const zoom = whole ? "" : `#zoom=${start2.toFixed(4)}-${(start2 + length).toFixed(4)}`;
      if (zoom || KEY.test(location.hash)) history.replaceState(null, "", zoom || location.pathname + location.search);
      this.#moved(this.#view);
    }
    /** Zooms by a factor round the middle. */
    by(factor) {
      const [from, to] = this.#view;
      const [middle, half] = [(from + to) / 2, (to - from) / 2 * factor];
      this.to(middle - half, middle + half);
    }
    /** Moves by a fraction of the visible span. */
    shift(part) {
      const [from, to] = this.#view;
      const by = Math.min(Math.max((to - from) * part, -from), this.end - to);
      this.to(from + by, to + by);
    }
    whole() {
      this.to(0, this.end);
    }
    /** Adds a plot that follows the window. */
    add(plot) {
      this.#plots.add(plot);
      const [min, max] = this.#view;
      plot.setScale("x", { min, max });
      this.#watch.observe(plot.root);
      plot.over.addEventListener("dblclick", () => this.whole());
    }
    drop(plot) {
      for (const plots of [this.#plots, this.#near, this.#behind]) plots.delete(plot);
      this.#watch.unobserve(plot.root);
      plot.destroy();
    }
    /** The hook for a plot's changes of scale. */
    follow = (plot, key) => {
      const { min, max } = plot.scales[key] ?? {};
      if (key === "x" && this.#plots.has(plot) && !this.#behind.has(plot) && min != null && max != null) this.to(min, max);
    };
    redraw() {
      for (const plot of this.#plots) plot.redraw(false);
    }
    resize(width2) {
      for (const plot of this.#plots) plot.setSize({ width: width2(plot), height: plot.height });
    }
    /** Keys for all of it, while the focus is in `box`. */
    keys(box) {
      const acts = {
        "+": () => this.by(0.5),
        "=": () => this.by(0.5),
        "-": () => this.by(2),
        "0": () => this.whole(),
        ArrowLeft: () => this.shift(-0.25),
        ArrowRight: () => this.shift(0.25)
      };
      box.addEventListener("keydown", (event) => {
        const act = acts[event.key];
        const typing = event.target instanceof HTMLSelectElement || event.target instanceof HTMLInputElement;
        if (!act || event.ctrlKey || event.metaKey || event.altKey || typing) return;
        event.preventDefault();
        act();
      });
    }
  };

  // src/report.ts
  var HEIGHT = 230;
  var SMALL = 110;
  var FAIR = "fair share";
  var MARKED = 12;
  var unpack = async () => {
    const packed = atob(byId("data", HTMLScriptElement).text.trim());
    const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  var width = () => byId("plots", HTMLElement).clientWidth;
  var margin = () => width() < 560 ? 8 : SIDE;
  var columns = (panel) => {
    if (!panel.stacked) return panel.series.map((shape) => shape.values);
    let below = panel.times.map(() => 0);
    return panel.series.map((shape) => below = below.map((value2, i) => value2 + (shape.values[i] ?? 0)));
  };
  var inside = (u, act) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    act(ctx, bbox, devicePixelRatio || 1);
    ctx.restore();
  };
  var behind = (bands, tints) => (u) => inside(u, (ctx, box) => {
    ctx.globalAlpha = isDark() ? 0.16 : 0.3;
    for (const { start: start2, end, state } of bands) {
      const left = Math.max(u.valToPos(start2, "x", true), box.left);
      const right = Math.min(u.valToPos(end, "x", true), box.left + box.width);
      ctx.fillStyle = tints[state] ?? "#fff";
      if (right > left) ctx.fillRect(left, box.top, right - left, box.height);
    }
  });
  var marked = (marks, named) => (u) => inside(u, (ctx, box, ratio) => {
    ctx.strokeStyle = ctx.fillStyle = styled("--bad", "#b00020");
    ctx.font = small(ratio);
    ctx.textBaseline = "top";
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    const { min, max } = u.scales["x"] ?? {};
    const visible = marks.filter(({ t }) => t >= (min ?? 0) && t <= (max ?? Infinity));
    let free = [0, 0, 0];
    for (const { t, text } of visible) {
      const at2 = Math.round(u.valToPos(t, "x", true));
      ctx.beginPath();
      ctx.moveTo(at2, box.top);
      ctx.lineTo(at2, box.top + box.height);
      ctx.stroke();
      if (!named || visible.length > MARKED) continue;
      const long = ctx.measureText(text).width + 8 * ratio;
      const row = free.findIndex((end) => end <= at2);
      if (row < 0) continue;
      const turned = at2 + long > box.left + box.width;
      ctx.textAlign = turned ? "right" : "left";
      ctx.fillText(text, at2 + (turned ? -4 : 4) * ratio, box.top + (2 + 13 * row) * ratio);
      free = free.map((end, nth) => nth === row ? at2 + (turned ? 0 : long) : end);
    }
  });
  var line = (panel, shape) => ({
    label: shape.label,
    scale: shape.right ? "right" : "y",
    stroke: panel.stacked ? () => styled("--page", "#fff") : tone(shape.colour),
    ...panel.stacked ? { fill: tone(shape.colour) } : { dash: dashed(shape.dash) },
    width: panel.stacked ? 0.5 : 1.25,
    points: { show: false },
    spanGaps: false,
    value: (_, __, ___, at2) => at2 == null ? "" : shown(shape.values[at2])
  });
  var reference = (shape) => ({
    label: shape.label,
    stroke: tone(shape.colour),
    dash: dashed(shape.dash),
    width: 1,
    points: { show: false },
    spanGaps: true,
    value: (_, __, ___, at2) => at2 == null ? "" : shown(shape.values[at2])
  });
  var Page = class {
    #data;
    #zoom;
    /** Those of the flow in detail. */
    #own = [];
    #wide = /* @__PURE__ */ new Set();
    constructor(data) {
      this.#data = data;
      const shows = byId("window", HTMLOutputElement);
      const tell = ([from, to]) => {
        shows.textContent = `${seconds(from)} to ${seconds(to)}`;
      };
      this.#zoom = new Zoom(data.end, tell);
      tell(this.#zoom.view);
    }
    start() {
      const { overview, details, tints, marks } = this.#data;
      overview.forEach((panel, nth) => this.#draw(panel, byId("overview", HTMLElement), [], marked(marks, nth === 0)));
      const zoom = this.#zoom;
      const acts = { "zoom-in": () => zoom.by(0.5), "zoom-out": () => zoom.by(2), earlier: () => zoom.shift(-0.25), later: () => zoom.shift(0.25), whole: () => zoom.whole() };
      for (const [id, act] of Object.entries(acts)) byId(id, HTMLButtonElement).addEventListener("click", act);
      zoom.keys(byId("plots", HTMLElement));
      onTone(() => zoom.redraw());
      addEventListener(
        "resize",
        settled(() => zoom.resize((plot) => this.#wide.has(plot) ? width() : plot.root.parentElement?.clientWidth ?? 280), 100)
      );
      if (!details.length) return;
      this.#states();
      if (details.some(({ bands }) => bands.length)) {
        const box = make("div", void 0, byId("strips", HTMLElement));
        box.className = "plot";
        this.#take(strips(details, tints, width(), margin(), box, zoom.follow), true);
      }
      this.#each();
      this.#moment().addEventListener("change", ({ target }) => {
        const t = target.valueAsNumber;
        if (Number.isFinite(t)) this.#explain(t);
      });
      const choice = byId("flow", HTMLSelectElement);
      choice.addEventListener("change", () => this.#detail(choice.selectedIndex));
      this.#detail(0);
    }
    #take(plot, wide) {
      if (wide) this.#wide.add(plot);
      this.#zoom.add(plot);
      let down = 0;
      plot.over.addEventListener("mousedown", ({ clientX }) => down = clientX);
      plot.over.addEventListener("click", ({ clientX, offsetX }) => {
        if (Math.abs(clientX - down) < 4 && this.#data.details.length) this.#explain(plot.posToVal(offsetX, "x"));
      });
      return plot;
    }
    #moment() {
      return byId("moment", HTMLInputElement);
    }
    #explain(moment) {
      const t = Math.min(Math.max(moment, 0), this.#data.end);
      this.#moment().value = t.toFixed(3);
      explain(byId("why", HTMLElement), this.#data, t);
    }
    /** The key to the colours of states. */
    #states() {
      for (const [state, tint] of Object.entries(this.#data.tints)) {
        const entry = make("span", void 0, byId("states", HTMLElement));
        make("i", void 0, entry).style.background = tint;
        entry.append(state);
      }
    }
    #draw(panel, into, below, above) {
      const drawn = panel.series.map((shape, i) => ({ series: line(panel, shape), values: columns(panel)[i] ?? [] }));
      if (panel.stacked) drawn.reverse();
      const references = panel.references.filter(({ label }) => !panel.stacked || label !== FAIR);
      drawn.push(...references.map((shape) => ({ series: reference(shape), values: shape.values })));
      const axes = [timeAxis(), axis(panel.unit, SIDE - 18)];
      if (panel.unitRight) axes.push(axis(panel.unitRight, SIDE - 18, { scale: "right", side: 1, grid: { show: false } }));
      const box = make("div", void 0, into);
      box.className = "plot";
      box.setAttribute("role", "img");
      box.setAttribute("aria-label", `${panel.title}, in ${panel.unit}, over time`);
      const plot = new uPlot(
        {
          title: panel.title,
          width: width(),
          height: HEIGHT,
          // Room for the right axis everywhere, so that the time axes align.
          padding: [null, panel.unitRight ? 0 : margin(), null, 0],
          scales: { x: { time: false }, y: { range: fromZero }, right: { range: fromZero } },
          axes,
          series: [{ label: "time", value: (_, at2) => at2 == null ? "" : seconds(at2) }, ...drawn.map(({ series }) => series)],
          cursor: cursor(),
          legend,
          hooks: { setScale: [this.#zoom.follow], drawClear: below, draw: [above] }
        },
        [panel.times, ...drawn.map(({ values }) => values)],
        box
      );
      return this.#take(plot, true);
    }
    /** Throughput of each flow with its fair share, because flows hide each other in one plot. */
    #each() {
      const [throughput] = this.#data.overview;
      const { details } = this.#data;
      if (details.length < 2 || !throughput?.stacked) return;
      const into = byId("each", HTMLElement);
      const fair = throughput.references.find(({ label }) => label === FAIR);
      const most = throughput.series.reduce((top, { values }) => values.reduce((high, value2) => Math.max(high, value2 ?? 0), top), 0);
      for (const shape of throughput.series) {
        const box = make("div", void 0, into);
        box.setAttribute("role", "img");
        box.setAttribute("aria-label", `Throughput of ${shape.label} and its fair share over time`);
        const series = [{ label: "time" }, { stroke: tone(shape.colour), width: 1.25, points: { show: false } }];
        if (fair) series.push(reference(fair));
        const plot = new uPlot(
          {
            title: `${shape.label}, ${throughput.unit}`,
            width: box.clientWidth,
            height: SMALL,
            padding: [null, 8, null, 0],
            scales: { x: { time: false }, y: { range: [0, most * 1.05 || 1] } },
            axes: [{ ...timeAxis(), label: "", labelSize: 0, size: 22, space: 60 }, { ...axis("", 44), labelSize: 0, space: 26 }],
            series,
            cursor: cursor(),
            legend: { show: false },
            hooks: { setScale: [this.#zoom.follow] }
          },
          [throughput.times, shape.values, ...fair ? [fair.values] : []],
          box
        );
        this.#take(plot, false);
      }
    }
    #detail(nth) {
      const chosen = this.#data.details[nth];
      if (!chosen) return;
      for (const plot of this.#own) this.#zoom.drop(plot);
      const box = byId("detail", HTMLElement);
      box.replaceChildren();
      const [below, above] = [behind(chosen.bands, this.#data.tints), marked(this.#data.marks, false)];
      this.#own = chosen.panels.map((panel) => this.#draw(panel, box, [below], above));
      if (!chosen.packets) return;
      const place = make("div", void 0, box);
      place.className = "plot";
      place.id = "packets";
      place.setAttribute("role", "group");
      place.setAttribute("aria-label", `Packets of ${chosen.label} by sequence number, over time`);
      this.#own.push(this.#take(sequence(chosen.label, chosen.packets, width(), HEIGHT + 100, margin(), place, this.#zoom.follow), true));
    }
  };
  var start = async () => {
    new Page(await unpack()).start();
    document.body.dataset["drawn"] = "yes";
  };
  start().catch((error) => {
    const failed = byId("failed", HTMLElement);
    failed.hidden = false;
    failed.textContent = `The plots could not be drawn (${error}). The tables do not need them.`;
  });
})();
