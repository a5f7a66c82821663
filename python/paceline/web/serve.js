"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const SIDE = 64;
  const HEIGHT = 250;
  const state = { entries: [], quantities: {}, chosen: [], drawn: new Set(["throughput_bps", "rtt_ns", "queue_delay_ns"]), job: null };
  const plots = new Map();

  const ask = async (path, order) => {
    const options = order && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(order) };
    const answer = await fetch(path, options);
    const value = await answer.json();
    if (!answer.ok) throw new Error(value.error);
    return value;
  };
  const tell = (error) => {
    $("failed").hidden = !error;
    $("failed").textContent = error ? error.message || String(error) : "";
  };
  const make = (tag, text, inside) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (inside) inside.append(element);
    return element;
  };
  const shown = (v) => (v == null ? "–" : Number(v.toPrecision(4)).toLocaleString("en"));
  const units = { _ns: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]], _bps: [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]], _bytes: [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "bytes"]] };
  const quantity = (name, value) => {
    if (value == null) return "–";
    for (const [end, scales] of Object.entries(units)) {
      if (!name.endsWith(end)) continue;
      const [size, unit] = scales.find(([size]) => Math.abs(value) >= size) || scales[scales.length - 1];
      return `${shown(value / size)} ${unit}`;
    }
    return shown(value);
  };

  // What is chosen stands in the address, so that a page can be gone back to and passed on.
  const remember = () => {
    const parts = state.chosen.map((id) => `run=${encodeURIComponent(id)}`);
    parts.push(...[...state.drawn].map((name) => `show=${name}`));
    history.replaceState(null, "", `#${parts.join("&")}`);
  };
  const recall = () => {
    const said = new URLSearchParams(location.hash.slice(1));
    const known = new Set(state.entries.map((entry) => entry.id));
    state.chosen = said.getAll("run").filter((id) => known.has(id));
    const drawn = said.getAll("show").filter((name) => name in state.quantities);
    if (drawn.length) state.drawn = new Set(drawn);
  };

  const entry = (id) => state.entries.find((found) => found.id === id);
  const runs = () => state.chosen.filter((id) => id.startsWith("job:") || entry(id)?.kind === "run");

  const list = () => {
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = state.entries.filter((found) => {
      const text = [found.id, found.scenario, ...found.controllers, `seed ${found.seed}`, found.kind].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    $("count").textContent = `${kept.length} of ${state.entries.length}`;
    $("runs").replaceChildren(
      ...kept.map((found) => {
        const row = make("li");
        row.classList.toggle("chosen", state.chosen.includes(found.id));
        const tick = make("input", undefined, row);
        tick.type = "checkbox";
        tick.checked = state.chosen.includes(found.id);
        tick.setAttribute("aria-label", `lay over: ${found.id}`);
        tick.addEventListener("change", () => choose(tick.checked ? [...state.chosen, found.id] : state.chosen.filter((id) => id !== found.id)));
        const button = make("button", undefined, row);
        make("b", found.id, button);
        const about = found.kind === "run" ? `${found.controllers.join(", ")} · ${found.flows} flow${found.flows > 1 ? "s" : ""} · seed ${found.seed}` : `sweep of ${found.runs} runs over ${found.axes.join(" and ")}`;
        make("span", about, button);
        button.addEventListener("click", () => choose([found.id]));
        return row;
      }),
    );
  };

  const table = async () => {
    const ids = runs().filter((id) => !id.startsWith("job:"));
    $("metrics").hidden = !ids.length;
    const told = ids.map(entry);
    const names = [...new Set(told.flatMap((found) => Object.keys(found.metrics)))].filter((name) => told.some((found) => found.metrics[name] != null));
    const head = make("tr");
    make("th", "metric", head);
    for (const id of ids) {
      const link = make("a", id, make("th", undefined, head));
      link.href = `/report?id=${encodeURIComponent(id)}`;
      link.title = "open the report";
      link.target = "_blank";
    }
    const rows = names.map((name) => {
      const row = make("tr");
      make("td", name, row);
      for (const found of told) make("td", quantity(name, found.metrics[name]), row);
      return row;
    });
    $("table").replaceChildren(head, ...rows);
  };

  const pictures = () => {
    const sweeps = state.chosen.map(entry).filter((found) => found?.kind === "sweep");
    $("pictures").hidden = !sweeps.length;
    $("pictures").replaceChildren();
    for (const found of sweeps) {
      make("h2", found.id, $("pictures"));
      for (const name of found.pictures) {
        const image = make("img", undefined, $("pictures"));
        image.alt = name;
        image.src = `/picture?id=${encodeURIComponent(found.id)}&name=${encodeURIComponent(name)}`;
      }
    }
  };

  let window_ = null;
  let asked = 0;
  const draw = async () => {
    const ids = runs();
    $("plots").hidden = !ids.length;
    const turn = ++asked;
    const names = ids.length ? Object.keys(state.quantities).filter((name) => state.drawn.has(name)) : [];
    for (const [name, plot] of plots) if (!names.includes(name)) drop(name, plot);
    await Promise.all(
      names.map(async (name) => {
        const which = ids.map((id) => `id=${encodeURIComponent(id)}`).join("&");
        const span = window_ ? `&from=${window_[0]}&to=${window_[1]}` : "";
        const data = await ask(`/api/series?quantity=${name}&${which}${span}`);
        // An answer to what was asked before is no news.
        if (turn === asked) put(name, data);
      }),
    );
    document.body.dataset.drawn = String(turn);
  };
  const redraw = () => draw().catch(tell);
  let later;
  const soon = () => {
    clearTimeout(later);
    later = setTimeout(redraw, 120);
  };

  const drop = (name, plot) => {
    plot.uplot.destroy();
    plot.box.remove();
    plots.delete(name);
  };

  let busy = false;
  const move = (min, max, from) => {
    busy = true;
    for (const { uplot } of plots.values()) if (uplot !== from) uplot.setScale("x", { min, max });
    busy = false;
    window_ = [min, max];
    soon();
  };

  const hands = (u) => {
    const end = () => plots.get(u.quantity).end;
    u.over.addEventListener("wheel", (event) => {
      event.preventDefault();
      const at = u.posToVal(event.offsetX, "x");
      const { min, max } = u.scales.x;
      const factor = event.deltaY < 0 ? 0.8 : 1.25;
      move(Math.max(at - (at - min) * factor, 0), Math.min(at + (max - at) * factor, end()));
    }, { passive: false });
    u.over.addEventListener("mousedown", (event) => {
      if (!event.shiftKey) return;
      event.stopImmediatePropagation();
      const { min, max } = u.scales.x;
      const each = (max - min) / u.over.clientWidth;
      const drag = (moved) => {
        const by = Math.min(Math.max((event.clientX - moved.clientX) * each, -min), Math.max(end() - max, 0));
        move(min + by, max + by);
      };
      const done = () => {
        removeEventListener("mousemove", drag);
        removeEventListener("mouseup", done);
      };
      addEventListener("mousemove", drag);
      addEventListener("mouseup", done);
    }, { capture: true });
    u.over.addEventListener("dblclick", () => {
      window_ = null;
      busy = true;
      for (const { uplot, end: last } of plots.values()) uplot.setScale("x", { min: 0, max: last });
      busy = false;
      soon();
    });
  };

  const put = (name, data) => {
    const several = new Set(data.lines.map((line) => line.run)).size > 1;
    const label = (line) => (several ? `${line.run}: ${line.label}` : line.label);
    const key = JSON.stringify([data.unit, data.lines.map((line) => [line.run, line.label])]);
    const columns = [data.times, ...data.lines.map((line) => line.values)];
    const known = plots.get(name);
    const [min, max] = window_ || [0, data.end];
    if (known && known.key === key) {
      known.end = data.end;
      busy = true;
      known.uplot.setData(columns, false);
      known.uplot.setScale("x", { min, max });
      busy = false;
      return;
    }
    const box = known ? known.box : make("div");
    if (known) known.uplot.destroy();
    box.className = "plot";
    // Plots stand in the order of their quantities.
    if (!known) {
      const order = Object.keys(state.quantities);
      const after = order.slice(order.indexOf(name) + 1).find((other) => plots.has(other));
      $("drawn").insertBefore(box, after ? plots.get(after).box : null);
    }
    const font = '12px system-ui, "DejaVu Sans", sans-serif';
    const axis = { stroke: "#333", grid: { stroke: "#e8e8e8", width: 1 }, ticks: { stroke: "#bbb", width: 1, size: 5 }, font, labelFont: font, labelSize: 18 };
    // Of many lines nobody tells dashes apart, and they are slow to draw.
    const many = data.lines.length > 20;
    const uplot = new uPlot(
      {
        title: data.title,
        width: $("drawn").clientWidth,
        height: HEIGHT,
        scales: { x: { time: false }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
        axes: [{ ...axis, label: "time (s)", size: 34 }, { ...axis, label: data.unit, size: SIDE - 18 }],
        series: [
          { label: "time", value: (u, v) => (v == null ? "–" : `${v.toFixed(3)} s`) },
          ...data.lines.map((line) => ({ label: label(line), stroke: line.colour, dash: many ? undefined : line.dash.map((d) => d * 1.5), width: many ? 1 / devicePixelRatio : 1.25, points: { show: false }, value: (u, v) => shown(v) })),
        ],
        legend: { show: data.lines.length <= 40 },
        cursor: { drag: { x: true, y: false }, sync: { key: "time", setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } } },
        hooks: {
          setScale: [(u, scale) => {
            if (scale === "x" && !busy) move(u.scales.x.min, u.scales.x.max, u);
          }],
        },
      },
      undefined,
      box,
    );
    uplot.quantity = name;
    plots.set(name, { uplot, box, key, end: data.end });
    busy = true;
    uplot.setData(columns, false);
    uplot.setScale("x", { min, max });
    busy = false;
    hands(uplot);
  };

  const form = () => {
    const ids = runs().filter((id) => !id.startsWith("job:"));
    $("change").hidden = !ids.length && !state.job;
    const before = $("base").value;
    $("base").replaceChildren(...ids.map((id) => make("option", id)));
    if (ids.includes(before)) $("base").value = before;
  };

  const choose = (ids) => {
    state.chosen = [...new Set(ids)];
    window_ = null;
    $("hint").hidden = state.chosen.length > 0;
    tell();
    remember();
    list();
    form();
    pictures();
    return Promise.all([table(), draw()]).catch(tell);
  };

  const refresh = async () => {
    const found = await ask("/api/runs");
    state.entries = found.runs;
    state.quantities = found.quantities;
  };

  const follow = (job) => {
    state.job = job.job;
    const name = `job:${job.job}`;
    const before = state.chosen.filter((id) => !id.startsWith("job:"));
    let version = 0;
    $("progress").hidden = $("stop").hidden = false;
    $("start").disabled = true;
    const events = new EventSource(`/api/jobs/${job.job}/events`);
    const end = () => {
      events.close();
      state.job = null;
      $("progress").hidden = $("stop").hidden = true;
      $("start").disabled = false;
    };
    events.onmessage = async (message) => {
      const said = JSON.parse(message.data);
      $("progress").value = said.simulated_ns / said.total_ns;
      $("state").textContent = said.state === "running" ? `${(said.simulated_ns / 1e9).toFixed(1)} of ${said.total_ns / 1e9} s` : said.state;
      document.body.dataset.job = said.state;
      if (said.state !== "running") end();
      try {
        if (said.state === "done") {
          await refresh();
          await choose([...before, said.id]);
        } else if (said.state === "failed") {
          tell(new Error(said.message));
        } else if (said.version > version) {
          version = said.version;
          state.chosen = [...before, name];
          await draw();
        }
      } catch (error) {
        tell(error);
      }
    };
    events.onerror = () => {
      if (state.job !== null) tell(new Error("the server has gone"));
      end();
    };
  };

  $("again").addEventListener("submit", async (event) => {
    event.preventDefault();
    tell();
    try {
      const set = $("set").value.split("\n").filter((line) => line.trim()).map((line) => {
        const at = line.indexOf("=");
        if (at < 1) throw new Error(`KEY = VALUE, not: ${line}`);
        return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      });
      const seed = $("seed").value === "" ? null : Number($("seed").value);
      follow(await ask("/api/run", { id: $("base").value, set, seed }));
    } catch (error) {
      tell(error);
    }
  });
  $("stop").addEventListener("click", () => ask(`/api/jobs/${state.job}/stop`, {}).catch(tell));
  $("filter").addEventListener("input", list);
  let pending;
  addEventListener("resize", () => {
    clearTimeout(pending);
    pending = setTimeout(() => plots.forEach(({ uplot }) => uplot.setSize({ width: $("drawn").clientWidth, height: HEIGHT })), 100);
  });

  (async () => {
    try {
      await refresh();
      recall();
      for (const [name, title] of Object.entries(state.quantities)) {
        const label = make("label", undefined, $("quantities"));
        const tick = make("input", undefined, label);
        tick.type = "checkbox";
        tick.checked = state.drawn.has(name);
        label.append(` ${title}`);
        tick.addEventListener("change", () => {
          state.drawn[tick.checked ? "add" : "delete"](name);
          remember();
          redraw();
        });
      }
      $("hint").textContent = state.entries.length ? $("hint").textContent : "There are no runs here yet: `paceline run FILE` makes one.";
      await choose(state.chosen);
      document.body.dataset.ready = "yes";
    } catch (error) {
      tell(error);
    }
  })();
})();
