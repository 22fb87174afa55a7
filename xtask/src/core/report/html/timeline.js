// SPDX-License-Identifier: MIT OR Apache-2.0
// Draws the timelines: every device a row, one variant above another on one scale of time.
// Where rows are too thin to be seen it draws how many of them are at work; zooming in it
// draws each. The data is core/report/timeline.rs's.
"use strict";
(() => {
  const FIELDS = 6;
  const THIN = 3; // Pixels: rows below this are drawn together.
  const NAMED = 11; // Pixels: rows from this on have their name beside them.

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  /** Nanoseconds for people: four significant digits, as the tables have them. */
  function time(ns) {
    const [scale, unit] = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "us"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
    const value = ns / scale;
    return `${value.toFixed(scale === 1 ? 0 : value < 10 ? 3 : value < 100 ? 2 : 1)} ${unit}`;
  }

  /** Round steps of a scale that has room for so many. */
  function ticks(from, to, most) {
    const rough = Math.max((to - from) / Math.max(most, 1), 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= rough);
    const [scale, unit] = to < 1e3 ? [1, "ns"] : to < 1e6 ? [1e3, "us"] : to < 1e9 ? [1e6, "ms"] : [1e9, "s"];
    const digits = clamp(Math.ceil(-Math.log10(step / scale) - 1e-9), 0, 9);
    const all = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      all.push([at, `${(at / scale).toFixed(digits)} ${unit}`]);
    }
    return all;
  }

  /** A lane's callbacks, as arrays with times from the phase's begin. */
  function unpack(lane) {
    const count = lane.spans.length / FIELDS;
    const make = () => new Float64Array(count);
    const out = {
      ...lane, count, row: new Uint32Array(count), from: make(), locked: make(), to: make(),
      task: new Uint32Array(count), cpu: new Uint32Array(count), open: new Uint8Array(count),
      critical: new Uint8Array(count), leg: new Map(), of: new Map(), lockOf: new Map(),
    };
    let at = 0;
    for (let i = 0; i < count; i++) {
      const [row, after, wait, took, task, cpu] = lane.spans.slice(i * FIELDS, (i + 1) * FIELDS);
      at += after;
      out.row[i] = row;
      out.from[i] = at;
      out.locked[i] = at + wait;
      out.open[i] = took < 0 ? 1 : 0;
      out.to[i] = took < 0 ? Math.max(lane.window, at + wait) : at + wait + took;
      out.task[i] = task;
      out.cpu[i] = cpu;
      if (!out.of.has(row)) out.of.set(row, []);
      out.of.get(row).push(i);
    }
    for (const leg of lane.path) {
      out.critical[leg[0]] = 1;
      out.leg.set(leg[0], leg);
    }
    for (const [lock, rows] of Object.entries(lane.locks)) for (const row of rows) out.lockOf.set(row, lock);
    return out;
  }

  class Timeline {
    constructor(figure, data) {
      this.figure = figure;
      this.data = data;
      this.rows = data.devices.length;
      this.canvas = figure.querySelector("canvas");
      this.viewText = figure.querySelector(".view");
      this.readout = figure.querySelector(".readout");
      this.use = Object.fromEntries([...figure.querySelectorAll("[data-use]")].map((e) => [e.dataset.use, e]));
      this.selected = null;
      this.pointers = new Map();
      this.lanes = new Map();
      this.starts = [];
      let start = 0;
      for (const [name, count] of data.groups) {
        this.starts.push([start, count, name]);
        start += count;
      }
      data.phases.forEach((phase, at) => this.use.phase.add(new Option(phase.name, at)));
      this.readout.textContent = "Point at a device for its times, or go from one to the next with \u2191 and \u2193.";
      this.choosePhase(0);
      this.listen();
    }

    choosePhase(at) {
      this.phase = this.data.phases[at];
      ["above", "below"].forEach((place, which) => {
        const select = this.use[place];
        select.replaceChildren(new Option("nothing", -1));
        this.phase.lanes.forEach((lane, index) => select.add(new Option(lane.variant, index)));
        select.value = this.phase.first[which] ?? -1;
      });
      this.chooseLanes();
    }

    chooseLanes() {
      this.shown = ["above", "below"].map((place) => +this.use[place].value).filter((l) => l >= 0).map((l) => {
        const key = `${this.phase.name}/${l}`;
        if (!this.lanes.has(key)) this.lanes.set(key, unpack(this.phase.lanes[l]));
        return this.lanes.get(key);
      });
      this.end = Math.max(1, ...this.shown.map((l) => Math.max(l.window, l.ideal ?? 0)));
      this.showAll();
    }

    showAll() {
      this.x0 = 0;
      this.x1 = this.end * 1.01;
      this.y0 = 0;
      this.y1 = this.rows;
      this.draw();
    }

    // ---- where things are

    layout() {
      const width = this.canvas.clientWidth;
      const small = width < 560;
      const longest = Math.max(...this.data.groups.map((g) => g[0].length + 4));
      const gutter = Math.min(small ? 84 : 150, longest * 7 + 10);
      const height = clamp(this.rows * 17, 34, small ? 210 : 290);
      const title = 22;
      const plots = this.shown.map((lane, at) => ({ lane, top: at * (height + title + 8) + title, height }));
      const bottom = plots.length ? plots[plots.length - 1].top + height : title;
      return { width, small, gutter, right: width - 8, plots, bottom, total: bottom + 26 };
    }

    x(at) {
      const { gutter, right } = this.at;
      return gutter + ((at - this.x0) / (this.x1 - this.x0)) * (right - gutter);
    }
    timeAt(x) {
      const { gutter, right } = this.at;
      return this.x0 + ((x - gutter) / (right - gutter)) * (this.x1 - this.x0);
    }
    y(plot, row) {
      return plot.top + ((row - this.y0) / (this.y1 - this.y0)) * plot.height;
    }
    rowAt(plot, y) {
      return this.y0 + ((y - plot.top) / plot.height) * (this.y1 - this.y0);
    }
    plotAt(y) {
      return this.at.plots.find((p) => y >= p.top - 22 && y < p.top + p.height + 8) ?? this.at.plots[0];
    }

    // ---- drawing

    draw() {
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.paint();
      });
    }

    paint() {
      const style = getComputedStyle(document.documentElement);
      const color = (name) => style.getPropertyValue(`--${name}`).trim();
      this.color = Object.fromEntries(
        ["page", "ink", "quiet", "rule", "ground", "own", "path", "wait", "link"].map((n) => [n, color(n)]));
      this.font = getComputedStyle(document.body).fontFamily;
      const at = (this.at = this.layout());
      const ratio = window.devicePixelRatio || 1;
      this.canvas.style.height = `${at.total}px`;
      this.canvas.width = Math.round(at.width * ratio);
      this.canvas.height = Math.round(at.total * ratio);
      this.ratio = ratio;
      const g = (this.g = this.canvas.getContext("2d"));
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.textBaseline = "middle";
      for (const plot of at.plots) this.panel(plot);
      this.axis();
      this.tell();
    }

    panel(plot) {
      const { g, color, at } = this;
      const { lane, top, height } = plot;
      const thick = height / (this.y1 - this.y0);
      g.font = `600 13px ${this.font}`;
      g.fillStyle = color.ink;
      g.textAlign = "left";
      const ideal = lane.ideal === null || at.small ? "" : `, ideal ${time(lane.ideal)}`;
      g.fillText(`${lane.variant}: ${time(lane.window)}${ideal}`, 0, top - 12, at.right);
      g.fillStyle = color.ground;
      g.fillRect(at.gutter, top, at.right - at.gutter, height);
      this.names(plot, thick);
      g.save();
      g.beginPath();
      g.rect(at.gutter, top, at.right - at.gutter, height);
      g.clip();
      if (thick >= THIN) this.bars(plot, thick);
      else this.density(plot);
      this.path(plot, thick);
      this.limits(plot);
      this.mark(plot, thick);
      g.restore();
    }

    names(plot, thick) {
      const { g, color, at } = this;
      g.font = `12px ${this.font}`;
      g.textAlign = "right";
      const write = (text, y) => {
        g.fillStyle = color.quiet;
        g.fillText(text, at.gutter - 8, y, at.gutter - 10);
      };
      if (thick >= NAMED) {
        for (let row = Math.floor(this.y0); row < Math.min(Math.ceil(this.y1), this.rows); row++) {
          const y = this.y(plot, row + 0.5);
          if (y > plot.top && y < plot.top + plot.height) write(this.data.devices[row], y);
        }
        return;
      }
      let free = plot.top;
      for (const [start, count, name] of this.starts) {
        const from = clamp(this.y(plot, start), plot.top, plot.top + plot.height);
        const to = clamp(this.y(plot, start + count), plot.top, plot.top + plot.height);
        if (to <= from) continue;
        if (start > this.y0) {
          g.fillStyle = color.rule;
          g.fillRect(at.gutter, Math.round(from), at.right - at.gutter, 1);
        }
        const y = (from + to) / 2;
        if (y - 7 >= free) {
          write(count > 1 ? `${name} (${count})` : name, y);
          free = y + 7;
        }
      }
    }

    bars(plot, thick) {
      const { g, color } = this;
      const { lane } = plot;
      const gap = thick > 8 ? 2 : thick > 5 ? 1 : 0;
      for (let i = 0; i < lane.count; i++) {
        const row = lane.row[i];
        if (row + 1 < this.y0 || row > this.y1 || lane.to[i] < this.x0 || lane.from[i] > this.x1) continue;
        const y = this.y(plot, row) + gap / 2;
        const [from, locked, to] = [this.x(lane.from[i]), this.x(lane.locked[i]), this.x(lane.to[i])];
        if (locked > from) {
          g.fillStyle = color.wait;
          g.fillRect(from, y, locked - from, thick - gap);
        }
        g.fillStyle = lane.critical[i] ? color.path : color.own;
        g.fillRect(locked, y, Math.max(to - locked, 1), thick - gap);
      }
    }

    /** How much of each pixel's rows is at work. */
    density(plot) {
      const { g, ratio, at } = this;
      const { lane } = plot;
      const left = Math.round(at.gutter * ratio);
      const wide = Math.max(Math.round(at.right * ratio) - left, 1);
      const high = Math.max(Math.round(plot.height * ratio), 1);
      const top = Math.round(plot.top * ratio);
      const sums = new Float32Array((wide + 1) * high);
      const column = (t) => ((t - this.x0) / (this.x1 - this.x0)) * wide;
      for (let i = 0; i < lane.count; i++) {
        const line = Math.floor(((lane.row[i] + 0.5 - this.y0) / (this.y1 - this.y0)) * high);
        if (line < 0 || line >= high) continue;
        const from = clamp(column(lane.from[i]), 0, wide);
        const to = clamp(Math.max(column(lane.to[i]), column(lane.from[i]) + 1), 0, wide);
        if (to <= from) continue;
        sums[line * (wide + 1) + Math.floor(from)] += 1;
        sums[line * (wide + 1) + Math.min(Math.ceil(to), wide)] -= 1;
      }
      const layer = new OffscreenCanvas(wide, high);
      const picture = new ImageData(wide, high);
      const color = this.rgb(this.color.own);
      const most = Math.max(1, (this.y1 - this.y0) / high);
      for (let line = 0; line < high; line++) {
        let sum = 0;
        for (let c = 0; c < wide; c++) {
          sum += sums[line * (wide + 1) + c];
          if (sum <= 0) continue;
          const alpha = 0.25 + 0.75 * Math.min(sum / most, 1);
          picture.data.set([...color, 255 * alpha], (line * wide + c) * 4);
        }
      }
      layer.getContext("2d").putImageData(picture, 0, 0);
      g.drawImage(layer, left / ratio, top / ratio, wide / ratio, high / ratio);
    }

    rgb(hex) {
      return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    }

    /** The critical path: its callbacks, and lines from each to the next. */
    path(plot, thick) {
      const { g, color } = this;
      const { lane } = plot;
      g.fillStyle = g.strokeStyle = color.path;
      g.lineWidth = 1;
      g.beginPath();
      // Lines between more callbacks than can be told apart would be one surface.
      const seen = lane.path.filter(([i]) => lane.to[i] >= this.x0 && lane.from[i] <= this.x1);
      const joined = seen.length <= 300;
      let before = null;
      for (const [i] of seen) {
        const middle = this.y(plot, lane.row[i] + 0.5);
        const from = this.x(lane.locked[i]);
        const to = this.x(lane.to[i]);
        if (thick < THIN) g.fillRect(from, middle - 1, Math.max(to - from, 1.5), 2);
        if (joined && before && Math.abs(before[1] - middle) > 2) {
          g.moveTo(before[0], before[1]);
          g.lineTo(from, middle);
        }
        before = [to, middle];
      }
      g.stroke();
    }

    /** The ideal, and the phase's end. */
    limits(plot) {
      const { g, color } = this;
      const line = (at, dash) => {
        const x = Math.round(this.x(at)) + 0.5;
        g.setLineDash(dash);
        g.beginPath();
        g.moveTo(x, plot.top);
        g.lineTo(x, plot.top + plot.height);
        g.stroke();
      };
      g.strokeStyle = color.quiet;
      g.lineWidth = 1;
      line(plot.lane.window, []);
      if (plot.lane.ideal !== null) {
        g.strokeStyle = color.ink;
        g.lineWidth = 1.5;
        line(plot.lane.ideal, [5, 4]);
      }
      g.setLineDash([]);
    }

    /** The selected device's row. */
    mark(plot, thick) {
      if (this.selected === null) return;
      const { g, color, at } = this;
      g.strokeStyle = color.ink;
      g.lineWidth = 1;
      const y = this.y(plot, this.selected);
      g.strokeRect(at.gutter + 0.5, Math.round(y) - 0.5, at.right - at.gutter - 1, Math.max(Math.round(thick), 3));
    }

    axis() {
      const { g, color, at } = this;
      g.font = `12px ${this.font}`;
      g.textAlign = "center";
      g.fillStyle = color.quiet;
      g.strokeStyle = color.quiet;
      g.lineWidth = 1;
      const room = (at.right - at.gutter) / (at.small ? 70 : 90);
      for (const [value, text] of ticks(Math.max(this.x0, 0), this.x1, room)) {
        const x = this.x(value);
        const half = g.measureText(text).width / 2;
        g.fillText(text, clamp(x, half, at.width - half), at.bottom + 15);
        g.beginPath();
        g.moveTo(Math.round(x) + 0.5, at.bottom);
        g.lineTo(Math.round(x) + 0.5, at.bottom + 5);
        g.stroke();
      }
    }

    // ---- words

    tell() {
      const from = Math.floor(Math.max(this.y0, 0)) + 1;
      const to = Math.min(Math.ceil(this.y1), this.rows);
      this.viewText.textContent =
        `${this.phase.name}, ${time(Math.max(this.x0, 0))} to ${time(this.x1)} after its begin; devices ${from} to ${to} of ${this.rows}`;
    }

    /** What is known of a device, in each lane that is shown. */
    describe(row) {
      const parts = this.shown.map((lane) => {
        const calls = (lane.of.get(row) ?? []).map((i) => {
          const wait = lane.locked[i] - lane.from[i];
          const bits = [lane.open[i] ? `from ${time(lane.from[i])}, never returned` :
            `from ${time(lane.from[i])} to ${time(lane.to[i])}, took ${time(lane.to[i] - lane.from[i])}`];
          if (wait > 0) bits.push(`waited ${time(wait)}${lane.lockOf.has(row) ? ` for lock ${lane.lockOf.get(row)}` : ""}`);
          bits.push(`task ${lane.task[i]}`, `CPU ${lane.cpu[i]}`);
          const leg = lane.leg.get(i);
          if (leg) bits.push(`on the critical path (${time(leg[2])} ${this.data.waits[leg[1]]})`);
          return bits.join(", ");
        });
        return `${lane.variant}: ${calls.join("; ") || "no callback"}`;
      });
      return `${this.data.devices[row]}. ${parts.join(". ")}.`;
    }

    /** What is known of a place where rows are too thin. */
    describePlace(plot, x, y) {
      const row = this.rowAt(plot, y);
      const now = this.timeAt(x);
      const found = this.starts.find(([start, count]) => row >= start && row < start + count);
      if (!found) return "";
      const [start, count, name] = found;
      let active = 0;
      for (let i = 0; i < plot.lane.count; i++) {
        const r = plot.lane.row[i];
        if (r >= start && r < start + count && plot.lane.from[i] <= now && plot.lane.to[i] > now) active++;
      }
      return `${name}, ${plot.lane.variant}: ${active} of ${count} devices at work ${time(Math.max(now, 0))} after the begin. Zoom in for single devices.`;
    }

    // ---- moving

    move(x0, x1, y0, y1) {
      const least = Math.min(100, this.end);
      const span = clamp(x1 - x0, least, this.end * 1.01);
      this.x0 = clamp(x0, 0, this.end * 1.01 - span);
      this.x1 = this.x0 + span;
      const rows = clamp(y1 - y0, Math.min(4, this.rows), this.rows);
      this.y0 = clamp(y0, 0, this.rows - rows);
      this.y1 = this.y0 + rows;
      this.draw();
    }

    /** Zooms about a place; rows only while they do not all have names. */
    zoom(factor, time, row, onlyTime) {
      const fits = this.rows * NAMED <= (this.at.plots[0]?.height ?? 0);
      const rows = onlyTime || fits ? 1 : factor;
      this.move(
        time - (time - this.x0) * factor, time + (this.x1 - time) * factor,
        row - (row - this.y0) * rows, row + (this.y1 - row) * rows);
    }

    /** The place that keys and buttons zoom about. */
    centre() {
      const lane = this.shown[0];
      const i = this.selected === null || !lane ? undefined : (lane.of.get(this.selected) ?? [])[0];
      const middle = [(this.x0 + this.x1) / 2, (this.y0 + this.y1) / 2];
      if (i === undefined) return middle;
      const time = (lane.from[i] + lane.to[i]) / 2;
      return [time >= this.x0 && time <= this.x1 ? time : middle[0], this.selected + 0.5];
    }

    act(what) {
      const width = this.x1 - this.x0;
      const [time, row] = this.centre();
      if (what === "in") this.zoom(0.5, time, row, false);
      if (what === "out") this.zoom(2, time, row, false);
      if (what === "left") this.move(this.x0 - width / 5, this.x1 - width / 5, this.y0, this.y1);
      if (what === "right") this.move(this.x0 + width / 5, this.x1 + width / 5, this.y0, this.y1);
      if (what === "all") this.showAll();
    }

    select(row) {
      this.selected = clamp(row, 0, this.rows - 1);
      const height = this.y1 - this.y0;
      if (this.selected < this.y0) this.move(this.x0, this.x1, this.selected, this.selected + height);
      if (this.selected + 1 > this.y1) this.move(this.x0, this.x1, this.selected + 1 - height, this.selected + 1);
      this.readout.textContent = this.describe(this.selected);
      this.draw();
    }

    /** Zooms to the selected device. */
    approach() {
      if (this.selected === null) return;
      const spans = this.shown.flatMap((lane) => (lane.of.get(this.selected) ?? []).map((i) => [lane.from[i], lane.to[i]]));
      const from = Math.min(...spans.map((s) => s[0]));
      const to = Math.max(...spans.map((s) => s[1]));
      const room = Math.max(to - from, 1000) * 0.2;
      const rows = Math.min(this.rows, 16);
      if (spans.length) this.move(from - room, to + room, this.selected + 0.5 - rows / 2, this.selected + 0.5 + rows / 2);
    }

    find(text) {
      const names = this.data.devices;
      const tests = [(n) => n === text, (n) => n.startsWith(text), (n) => n.includes(text)];
      const row = text ? tests.map((t) => names.findIndex(t)).find((r) => r >= 0) : undefined;
      if (row === undefined) {
        this.readout.textContent = `No device is called ${text}.`;
        return;
      }
      this.select(row);
      this.approach();
    }

    key(event) {
      const rows = (this.y1 - this.y0) / 5;
      const keys = {
        "+": () => this.act("in"), "=": () => this.act("in"), "-": () => this.act("out"), "0": () => this.act("all"),
        Home: () => this.act("all"), ArrowLeft: () => this.act("left"), ArrowRight: () => this.act("right"),
        Enter: () => this.approach(),
        ArrowUp: () => event.shiftKey ? this.move(this.x0, this.x1, this.y0 - rows, this.y1 - rows) : this.select((this.selected ?? this.rows) - 1),
        ArrowDown: () => event.shiftKey ? this.move(this.x0, this.x1, this.y0 + rows, this.y1 + rows) : this.select((this.selected ?? -1) + 1),
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    }

    hover(x, y) {
      const plot = this.plotAt(y);
      if (!plot || x < this.at.gutter) return;
      const row = Math.floor(this.rowAt(plot, y));
      const thick = plot.height / (this.y1 - this.y0);
      if (thick >= THIN && row >= 0 && row < this.rows) this.select(row);
      else this.readout.textContent = this.describePlace(plot, x, y);
    }

    // ---- hands

    place(event) {
      const box = this.canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    }

    listen() {
      const canvas = this.canvas;
      this.use.phase.addEventListener("change", () => this.choosePhase(+this.use.phase.value));
      for (const place of ["above", "below"]) this.use[place].addEventListener("change", () => this.chooseLanes());
      this.use.find.addEventListener("change", () => this.find(this.use.find.value.trim()));
      for (const button of this.figure.querySelectorAll("[data-do]")) {
        button.addEventListener("click", () => this.act(button.dataset.do));
      }
      canvas.addEventListener("keydown", (event) => this.key(event));
      canvas.addEventListener("wheel", (event) => {
        if (!(event.ctrlKey || event.metaKey || document.activeElement === canvas)) return;
        event.preventDefault();
        const [x, y] = this.place(event);
        const plot = this.plotAt(y);
        const lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 300 : 1;
        const factor = Math.exp(clamp(event.deltaY * lines, -500, 500) * 0.002);
        if (plot) this.zoom(factor, this.timeAt(x), this.rowAt(plot, y), event.shiftKey);
      }, { passive: false });
      canvas.addEventListener("dblclick", (event) => {
        const [x, y] = this.place(event);
        const plot = this.plotAt(y);
        if (plot) this.zoom(0.25, this.timeAt(x), this.rowAt(plot, y), event.shiftKey);
      });
      canvas.addEventListener("pointerdown", (event) => {
        canvas.setPointerCapture(event.pointerId);
        this.pointers.set(event.pointerId, this.place(event));
      });
      for (const end of ["pointerup", "pointercancel"]) {
        canvas.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
      }
      canvas.addEventListener("pointermove", (event) => this.pointer(event));
      new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
      window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    }

    pointer(event) {
      const [x, y] = this.place(event);
      const before = this.pointers.get(event.pointerId);
      if (!before) {
        this.hover(x, y);
        return;
      }
      const plot = this.plotAt(y);
      if (!plot) return;
      const others = [...this.pointers].filter(([id]) => id !== event.pointerId);
      if (others.length === 1) {
        const [ox, oy] = others[0][1];
        const far = (px, py) => Math.max(Math.hypot(px - ox, py - oy), 1);
        this.zoom(far(...before) / far(x, y), this.timeAt((x + ox) / 2), this.rowAt(plot, (y + oy) / 2), false);
      } else {
        const time = this.timeAt(before[0]) - this.timeAt(x);
        const row = this.rowAt(plot, before[1]) - this.rowAt(plot, y);
        this.move(this.x0 + time, this.x1 + time, this.y0 + row, this.y1 + row);
      }
      this.pointers.set(event.pointerId, [x, y]);
    }
  }

  const all = JSON.parse(document.getElementById("timelines").textContent);
  for (const figure of document.querySelectorAll("figure.timeline")) {
    new Timeline(figure, all[+figure.dataset.timeline]);
  }
})();
