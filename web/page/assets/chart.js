'use strict';
// Charts: a figure.chart with its declaration in data-chart becomes a uPlot
// chart, fed by /api/v1/query, kept up by /api/v1/live while it shows the
// present. Without data it says why: a gap has a name.
const charts = (() => {
  const all = [];
  const sync = uPlot.sync('page');
  const slots = ['--s1', '--s2', '--s3', '--s4', '--s5', '--s6', '--s7', '--s8'];
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let marks = [], gaps = [], busy = 0;
  const waiting = [];

  // api fetches JSON; the error is the server's own sentence.
  const api = async (path, params) => {
    const q = new URLSearchParams();
    for (const [k, v] of Object.entries(params || {})) for (const x of [].concat(v)) if (x !== undefined && x !== null && x !== '') q.append(k, x);
    const r = await fetch('/api/v1/' + path + '?' + q, { headers: { Accept: 'application/json' } });
    const body = await r.json().catch(() => ({}));
    if (!r.ok) throw new Error((body.error || r.status + ' ' + r.statusText) + (body.hint ? ' – ' + body.hint : ''));
    return body;
  };
  // inTurn bounds how many charts ask at the same time.
  const inTurn = f => new Promise((done, fail) => {
    const go = () => { busy++; f().then(done, fail).finally(() => { busy--; waiting.length && waiting.shift()(); }); };
    busy < 6 ? go() : waiting.push(go);
  });
  const named = (text, labels) => text.replace(/\{(\w+)\}/g, (_, k) => labels[k] ?? '');
  const labelOf = (line, labels) => line.label ? named(line.label, labels) : Object.entries(labels).filter(([k]) => k !== '__name__').map(([, v]) => v).join(' ') || 'value';

  class Chart {
    constructor(el) {
      this.el = el;
      this.spec = JSON.parse(el.dataset.chart);
      this.plotEl = el.querySelector('.plot');
      this.legend = el.querySelector('.legend');
      this.now = el.querySelector('.now');
      this.off = new Set();
      this.asked = 0;
    }
    step() { // what fits on the screen: one bucket for two pixels
      const w = range.window();
      const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
      const want = (w.to - w.from) / 1000 / Math.max(100, this.plotEl.clientWidth / 2);
      return steps.find(s => s >= Math.max(want, 10)) || 604800;
    }
    async ask(line, w, step) {
      const p = { match: line.match, from: new Date(w.from).toISOString(), to: new Date(w.to).toISOString(), step, func: line.func, by: line.by, agg: line.agg, top: line.top };
      const got = await api('query', p);
      if (!line.over) return got;
      const below = await api('query', { ...p, match: line.over, top: undefined });
      const key = l => JSON.stringify(Object.entries(l.labels).filter(([k]) => k !== '__name__').sort());
      const by = new Map(below.lines.map(l => [key(l), l.values]));
      for (const l of got.lines) {
        const d = by.get(key(l));
        l.values = l.values.map((v, i) => v === null || !d || !d[i] ? null : v / d[i]);
      }
      return got;
    }
    async load() {
      const turn = ++this.asked, w = range.window(), step = this.step();
      this.el.setAttribute('aria-busy', 'true');
      try {
        const frames = await inTurn(() => Promise.all(this.spec.lines.map(l => this.ask(l, w, step))));
        if (turn !== this.asked) return;
        this.take(frames, w, step);
      } catch (e) {
        if (turn === this.asked && !this.u) this.say('could not be read: ' + e.message);
        this.el.classList.add('stale');
      } finally {
        if (turn === this.asked) this.el.removeAttribute('aria-busy');
      }
    }
    // take joins the frames of all lines over one time axis.
    take(frames, w, step) {
      const at = [...new Set(frames.flatMap(f => f.at))].sort((a, b) => a - b);
      const place = new Map(at.map((t, i) => [t, i]));
      const lines = [];
      frames.forEach((f, n) => {
        const line = this.spec.lines[n];
        for (const l of f.lines) {
          const values = new Array(at.length).fill(null);
          l.values.forEach((v, i) => { if (v !== null) values[place.get(f.at[i])] = v * (line.scale || 1); });
          if (values.some(v => v !== null)) lines.push({ name: labelOf(line, l.labels), labels: l.labels, line, values });
        }
      });
      this.step_ = step;
      this.warn([...new Set(frames.flatMap(f => f.warnings || []))]);
      if (!lines.length) return this.empty();
      this.el.classList.remove('stale');
      this.lines = lines;
      this.data = [at.map(t => t / 1000), ...lines.map(l => l.values)];
      this.draw(w);
    }
    warn(texts) {
      let p = this.el.querySelector('.warning');
      if (!texts.length) return p && p.remove();
      if (!p) { p = document.createElement('p'); p.className = 'warning'; this.el.append(p); }
      p.textContent = texts.join('; ');
    }
    empty() {
      const names = this.spec.lines.map(l => l.match.split('{')[0]);
      const host = /host="([^"]*)"/.exec(this.spec.lines[0].match), server = /server="([^"]*)"/.exec(this.spec.lines[0].match);
      const g = gaps.find(g => (!g.metrics || !g.metrics.length || g.metrics.some(m => names.includes(m))) && (!server || !g.server || g.server === server[1]) && (!host || !g.host || g.host === host[1]) && (g.metrics || []).length);
      if (g) this.say('not collected: ' + g.because, g.hint);
      else this.say('no samples in this range', this.spec.empty || 'choose a longer range, or wait for the next round (10 s)', true);
    }
    say(text, hint, quiet) {
      if (this.u) { this.u.destroy(); this.u = null; }
      this.lines = null;
      this.legend.replaceChildren();
      this.now.textContent = '';
      const box = document.createElement('div');
      box.className = 'gap' + (quiet ? ' quiet' : '');
      box.append(text);
      if (hint) { const p = document.createElement('div'); p.className = 'dim'; p.textContent = hint; box.append(p); }
      this.plotEl.replaceChildren(box);
    }
    shown() { return this.lines.map((l, i) => this.off.has(l.name) ? null : i + 1).filter(Boolean); }
    stacked() {
      if (!this.spec.stack) return this.data;
      const sum = new Array(this.data[0].length).fill(0);
      return [this.data[0], ...this.lines.map((l, n) => this.off.has(l.name) ? l.values : this.data[n + 1].map((v, i) => v === null ? null : (sum[i] += v)))];
    }
    draw(w) {
      const same = this.u && this.u.series.length === this.data.length && this.lines.every((l, i) => this.u.series[i + 1].label === l.name);
      if (!same) { this.make(); this.key(); }
      this.lines.forEach((l, i) => this.u.setSeries(i + 1, { show: !this.off.has(l.name) }, false));
      this.u.setData(this.stacked(), false);
      this.u.setScale('x', { min: w.from / 1000, max: w.to / 1000 });
      this.tellNow();
    }
    make() {
      if (this.u) this.u.destroy();
      this.plotEl.replaceChildren();
      const ink = css('--dim'), grid = css('--grid'), u = this.spec.unit;
      const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid }, font: '12px system-ui' };
      const bands = this.spec.stack ? this.lines.slice(1).map((_, i) => ({ series: [i + 2, i + 1] })) : [];
      this.u = new uPlot({
        width: this.plotEl.clientWidth || 400, height: 170, legend: { show: false },
        cursor: { sync: { key: 'page', setSeries: false }, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => history.back() } },
        scales: { x: { time: true }, y: { range: (_, lo, hi) => this.span(lo, hi) } },
        axes: [axis, { ...axis, size: 68, values: (_, ticks) => ticks.map(t => unit.format(t, u)) }],
        series: [{}, ...this.lines.map((l, i) => {
          const c = css(slots[i % slots.length]);
          return { label: l.name, stroke: c, width: 1.5, fill: this.spec.stack ? c + '40' : undefined, spanGaps: false, points: { show: this.data[0].length < 3 } };
        })],
        bands,
        hooks: { setSelect: [s => this.select(s)], draw: [s => this.drawMarks(s)], setCursor: [s => this.tip(s)] },
      }, this.stacked(), this.plotEl);
    }
    span(lo, hi) {
      if (this.spec.min !== undefined) lo = Math.min(this.spec.min, lo ?? 0);
      if (this.spec.max !== undefined) hi = Math.max(this.spec.max, hi ?? 0);
      if (lo === null || hi === null) return [0, 1];
      if (lo >= 0) lo = 0;
      return hi > lo ? [lo, this.spec.max !== undefined && hi <= this.spec.max ? hi : hi + (hi - lo) * .08] : [lo, lo + (Math.abs(lo) || 1)];
    }
    select(s) {
      if (s.select.width < 5) return;
      const from = s.posToVal(s.select.left, 'x') * 1000, to = s.posToVal(s.select.left + s.select.width, 'x') * 1000;
      s.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      range.set(from, to);
    }
    drawMarks(s) {
      const ctx = s.ctx, top = s.bbox.top, h = s.bbox.height;
      ctx.save();
      ctx.strokeStyle = css('--mark');
      ctx.setLineDash([4, 3]);
      for (const m of this.near()) {
        const x = Math.round(s.valToPos(Date.parse(m.at) / 1000, 'x', true));
        if (x < s.bbox.left || x > s.bbox.left + s.bbox.width) continue;
        ctx.beginPath(); ctx.moveTo(x, top); ctx.lineTo(x, top + h); ctx.stroke();
      }
      ctx.restore();
    }
    near(at, within) {
      const host = /host="([^"]*)"/.exec(this.spec.lines[0].match);
      return marks.filter(m => (!host || !m.host || m.host === host[1]) && (at === undefined || Math.abs(Date.parse(m.at) / 1000 - at) <= within));
    }
    tip(s) {
      let box = this.el.querySelector('.tip');
      const i = s.cursor.idx;
      const x = s.cursor.left;
      if (i === null || i === undefined || x < 0) { box && box.classList.add('hidden'); return this.tellNow(); }
      this.tellNow(i);
      const hit = x >= 0 ? this.near(s.posToVal(x, 'x'), (s.scales.x.max - s.scales.x.min) * .01) : [];
      if (!hit.length) return box && box.classList.add('hidden');
      if (!box) { box = document.createElement('div'); box.className = 'tip'; this.el.append(box); }
      box.classList.remove('hidden');
      box.textContent = hit.slice(0, 4).map(m => new Date(m.at).toLocaleTimeString() + ' ' + m.kind + ': ' + m.text).join('\n');
      box.style.left = Math.min(x + 60, this.el.clientWidth - 200) + 'px';
      box.style.top = '2.2rem';
    }
    // tellNow writes the values under the cursor, or the last ones, into the legend.
    tellNow(i) {
      if (!this.lines) return;
      const last = this.data[0].length - 1;
      this.lines.forEach((l, n) => {
        let at = i;
        if (at === undefined) for (at = last; at > 0 && this.data[n + 1][at] === null; at--);
        const out = this.legend.children[n] && this.legend.children[n].querySelector('.num');
        if (out) out.textContent = unit.format(this.data[n + 1][at], this.spec.unit);
      });
      this.now.textContent = i === undefined ? '' : new Date(this.data[0][i] * 1000).toLocaleString();
    }
    key() {
      this.legend.replaceChildren(...this.lines.map((l, i) => {
        const li = document.createElement('li'), b = document.createElement('button'), sw = document.createElement('span'), v = document.createElement('span');
        sw.className = 'swatch'; sw.style.background = css(slots[i % slots.length]);
        v.className = 'num dim';
        b.type = 'button'; b.setAttribute('aria-pressed', !this.off.has(l.name));
        b.append(sw, l.name, ' ', v);
        b.onclick = e => this.toggle(l.name, e.shiftKey || e.ctrlKey);
        li.append(b);
        return li;
      }));
    }
    toggle(name, many) {
      if (many) this.off.has(name) ? this.off.delete(name) : this.off.add(name);
      else {
        const only = this.lines.every(l => l.name === name ? !this.off.has(l.name) : this.off.has(l.name));
        this.off = new Set(only ? [] : this.lines.map(l => l.name).filter(n => n !== name));
      }
      this.key();
      this.draw(range.window());
    }
    resize() { if (this.u && this.plotEl.clientWidth) this.u.setSize({ width: this.plotEl.clientWidth, height: 170 }); }
    recolour() { if (this.u) { this.make(); this.key(); this.draw(range.window()); } }
  }

  const seen = new IntersectionObserver(es => {
    for (const e of es) {
      const c = e.target.chart;
      c.visible = e.isIntersecting;
      if (c.visible && (!c.u || c.due)) { c.due = false; c.load(); }
    }
  }, { rootMargin: '300px' });
  const reload = () => { for (const c of all) c.visible ? c.load() : (c.due = true); };
  const context = async () => {
    const w = range.window();
    const [m, g] = await Promise.all([
      api('marks', { from: new Date(w.from).toISOString(), to: new Date(w.to).toISOString() }).catch(() => ({})),
      api('gaps').catch(() => ({}))]);
    marks = m.marks || []; gaps = g.gaps || [];
    for (const c of all) { if (c.u) c.u.redraw(false); else if (c.lines === null) c.empty(); }
  };
  const start = () => {
    for (const el of document.querySelectorAll('figure.chart')) { const c = el.chart = new Chart(el); all.push(c); seen.observe(el); }
    if (!all.length) return;
    context();
    range.onchange(() => { reload(); context(); });
    let width = innerWidth;
    addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; for (const c of all) c.resize(); } });
    setInterval(() => { if (!document.hidden && range.window().live && !live.paused()) reload(); }, 10e3);
    setInterval(() => { if (!document.hidden) context(); }, 30e3);
  };
  return { start, all, api, reload, recolour: () => { for (const c of all) c.recolour(); } };
})();
