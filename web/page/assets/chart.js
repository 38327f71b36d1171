'use strict';
// Charts: a figure.chart with its declaration in data-chart becomes a uPlot
// chart, fed by /api/v1/query, kept up by /api/v1/live while it shows the
// present. Without data it says why: a gap has a name.
const charts = (() => {
  const all = [];
  const slots = ['--s1', '--s2', '--s3', '--s4', '--s5', '--s6', '--s7', '--s8'];
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const height = 170;
  let marks = [], gaps = [], busy = 0;
  const waiting = [];

  // inTurn bounds how many charts ask at the same time.
  const inTurn = f => new Promise((done, fail) => {
    const go = () => { busy++; f().then(done, fail).finally(() => { busy--; waiting.length && waiting.shift()(); }); };
    busy < 4 ? go() : waiting.push(go);
  });
  const named = (text, labels) => text.replace(/\{(\w+)\}/g, (_, k) => labels[k] ?? '').trim();
  const labelOf = (line, labels) => line.label && named(line.label, labels) || Object.values(labels).join(' ') || 'value';
  const keyOf = labels => JSON.stringify(Object.entries(labels).sort());
  const valueOf = (selector, label) => { const m = new RegExp('[{,]' + label + '="((?:[^"\\\\]|\\\\.)*)"').exec(selector); return m && m[1].replace(/\\(.)/g, '$1'); };
  const namesOf = selector => {
    const plain = /^[^{]+/.exec(selector), re = /__name__=~"([^"]*)"/.exec(selector);
    return plain ? [plain[0]] : re ? [re[1]] : [];
  };

  class Chart {
    constructor(el) {
      this.el = el;
      this.spec = JSON.parse(el.dataset.chart);
      this.plotEl = el.querySelector('.plot');
      this.legend = el.querySelector('.legend');
      this.now = el.querySelector('.now');
      this.off = new Set();
      this.asked = 0;
      this.host = valueOf(this.spec.lines[0].match, 'host');
      this.server = valueOf(this.spec.lines[0].match, 'server');
      this.names = this.spec.lines.flatMap(l => namesOf(l.match));
      this.under = this.spec.lines.filter(l => l.over && l.over_func === 'avg').flatMap(l => namesOf(l.over));
    }
    step() { // what fits on the screen: one bucket for two pixels
      const w = range.window();
      const steps = [10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
      const want = (w.to - w.from) / 1000 / Math.max(100, this.plotEl.clientWidth / 2);
      return steps.find(s => s >= want) || 604800;
    }
    async ask(line, w, step) {
      const p = { match: line.match, from: Math.floor(w.from), to: Math.ceil(w.to), step, func: line.func, agg: line.agg, top: line.top };
      p.by = line.by ? line.by.join(',') : line.agg ? '' : undefined;
      if (!line.over) return api.get('query', p);
      const [got, below] = await Promise.all([api.get('query', p), api.get('query', { ...p, match: line.over, func: line.over_func, agg: 'sum', top: undefined, by: (line.over_by || []).join(',') })]);
      const by = new Map(below.lines.map(l => [keyOf(l.labels), l.values]));
      const only = below.lines.length === 1 && !Object.keys(below.lines[0].labels).length ? below.lines[0].values : null;
      line.divide = new Map();
      for (const l of got.lines) {
        const d = by.get(keyOf(l.labels)) || only;
        l.values = l.values.map((v, i) => v === null || !d || !d[i] ? null : v / d[i]);
        if (d) line.divide.set(keyOf(l.labels), [...d].reverse().find(x => x));
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
        if (turn !== this.asked) return;
        if (!this.u) { this.say('Could not be read: ' + e.message); this.orphan = true; live.recent(); }
        this.el.classList.add('stale');
        this.warn([this.u ? 'not renewed: ' + e.message : '']);
        setTimeout(() => { if (turn === this.asked && this.visible) this.load(); }, 4000);
      } finally {
        if (turn === this.asked) this.el.removeAttribute('aria-busy');
      }
    }
    // take joins the frames of all lines over one time axis; live points that
    // are newer than the answer stay.
    take(frames, w, step) {
      const at = [...new Set(frames.flatMap(f => f.at))].sort((a, b) => a - b);
      const place = new Map(at.map((t, i) => [t, i]));
      const lines = [];
      frames.forEach((f, n) => {
        const line = this.spec.lines[n];
        for (const l of f.lines) {
          const values = new Array(at.length).fill(null);
          l.values.forEach((v, i) => { if (v !== null) values[place.get(f.at[i])] = (line.rest ? 1 - v : v) * (line.scale || 1); });
          if (values.some(v => v !== null)) lines.push({ name: labelOf(line, l.labels), labels: l.labels, line, values });
        }
      });
      this.warn([...new Set(frames.flatMap(f => f.warnings || []))]);
      this.el.classList.remove('stale');
      this.orphan = false;
      if (!lines.length) return this.empty();
      const data = [at.map(t => t / 1000), ...lines.map(l => l.values)];
      this.keepNewer(data, lines, step);
      this.lines = lines;
      this.data = data;
      this.draw(w);
    }
    keepNewer(data, lines, step) {
      if (!this.lines || !range.window().live || this.lines.length !== lines.length || this.lines.some((l, i) => l.name !== lines[i].name)) return;
      const end = data[0].length ? data[0][data[0].length - 1] + step : 0;
      this.data[0].forEach((t, i) => { if (t > end) this.data.forEach((d, n) => data[n].push(d[i])); });
    }
    warn(texts) {
      let p = this.el.querySelector('.warning');
      const text = texts.filter(Boolean).join('; ');
      if (!text) return p && p.remove();
      if (!p) { p = make('p', { class: 'warning' }); this.el.append(p); }
      p.textContent = text;
    }
    // empty says why nothing is drawn. Of a range that goes on, what comes live
    // is drawn at once: the first samples of a machine are not waited for.
    empty() {
      this.orphan = range.window().live;
      const g = gaps.find(g => (g.server || '') === (this.server || '') && (g.metrics || []).some(m => this.names.some(n => n === m || new RegExp('^(?:' + n + ')$').test(m))));
      if (g) this.say('Not collected: ' + g.because, g.hint);
      else if (this.spec.empty) this.say(this.spec.empty, '', true);
      else this.say('No samples in this range.', 'Choose a longer range, or wait for the next round (10 s).', true);
    }
    say(text, hint, quiet) {
      if (this.u) { this.u.destroy(); this.u = null; }
      this.lines = null;
      this.legend.replaceChildren();
      this.now.textContent = '';
      this.plotEl.replaceChildren(make('div', { class: 'gap' + (quiet ? ' quiet' : '') }, text, hint ? make('div', { class: 'dim' }, hint) : null));
    }
    // adopt takes a line that only came live, while the store cannot be asked.
    adopt(line, labels) {
      if (!this.lines) { this.lines = []; this.data = [[]]; this.plotEl.replaceChildren(); }
      this.lines.push({ name: labelOf(line, labels), labels, line, values: [] });
      this.data.push(new Array(this.data[0].length).fill(null));
      return this.lines.length - 1;
    }
    // stacked gives what is drawn: sums for a stack.
    stacked() {
      if (!this.spec.stack) return this.data;
      const sum = new Array(this.data[0].length).fill(0);
      return [this.data[0], ...this.lines.map((l, n) => this.data[n + 1].map((v, i) => v === null ? null : this.off.has(l.name) ? sum[i] : (sum[i] += v)))];
    }
    draw(w) {
      const same = this.u && this.u.series.length === this.data.length && this.lines.every((l, i) => this.u.series[i + 1].label === l.name);
      if (!same) { this.plot(); this.key(); }
      this.u.batch(() => {
        this.lines.forEach((l, i) => { if (this.u.series[i + 1].show === this.off.has(l.name)) this.u.setSeries(i + 1, { show: !this.off.has(l.name) }, false); });
        this.u.setData(this.stacked(), false);
        this.u.setScale('x', { min: w.from / 1000, max: w.to / 1000 });
      });
      this.tell();
    }
    plot() {
      if (this.u) this.u.destroy();
      this.plotEl.replaceChildren();
      const ink = css('--dim'), grid = css('--grid'), u = this.spec.unit;
      const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, size: 4 }, font: '12px system-ui, sans-serif' };
      const bands = this.spec.stack ? this.lines.slice(1).map((_, i) => ({ series: [i + 2, i + 1] })) : [];
      this.u = new uPlot({
        width: this.plotEl.clientWidth || 400, height, legend: { show: false },
        cursor: { sync: { key: 'page', filters: { pub: type => type === 'mousemove' || type === 'mouseleave' } }, drag: { x: true, y: false, setScale: false }, points: { size: 6 }, bind: { dblclick: () => () => { range.back(); } } },
        scales: { x: { time: true }, y: { range: (_, lo, hi) => this.span(lo, hi) } },
        axes: [{ ...axis, size: 30, values: (s, ticks, a, space, incr) => clock.ticks(ticks, incr) }, { ...axis, size: 66, splits: (s, a, lo, hi) => this.splits(lo, hi), values: (_, ticks) => ticks.map(t => unit.format(t, u)) }],
        series: [{}, ...this.lines.map((l, i) => {
          const c = css(slots[i % slots.length]);
          return { label: l.name, stroke: c, width: 1.5, dash: i < slots.length ? undefined : [6, 3], fill: this.spec.stack ? c + '55' : undefined, spanGaps: true, points: { show: false } };
        })],
        bands,
        hooks: { setSelect: [s => this.select(s)], draw: [s => this.drawMarks(s)], setCursor: [s => this.tell(s.cursor.left >= 0 ? s.cursor.idx : undefined)] },
      }, this.stacked(), this.plotEl);
    }
    span(lo, hi) {
      if (this.spec.max !== undefined) hi = Math.max(this.spec.max, hi ?? 0);
      if (lo === null || lo === undefined || hi === null) return [0, this.spec.max ?? 1];
      if (lo >= 0) lo = 0;
      return hi > lo ? [lo, this.spec.max !== undefined && hi <= this.spec.max ? hi : hi + (hi - lo) * .06] : [lo, lo + (Math.abs(lo) || 1)];
    }
    // splits puts ticks on round figures of the unit: powers of 2 for bytes,
    // minutes and hours for long times.
    splits(lo, hi) {
      const want = (hi - lo) / 4, u = this.spec.unit, out = [];
      let base = 1;
      if (u.startsWith('bytes')) while (base * 1024 <= want) base *= 1024;
      if (u === 'seconds' && want >= 60) base = want >= 86400 ? 86400 : want >= 3600 ? 3600 : 60;
      const p = Math.pow(10, Math.floor(Math.log10(want / base)));
      const step = base * p * ([1, 2, 2.5, 5].find(m => m * p * base >= want) || 10);
      for (let x = Math.ceil(lo / step) * step; x <= hi * 1.0001; x += step) out.push(+x.toPrecision(12));
      return out;
    }
    select(s) {
      if (s.select.width < 5) return;
      const from = s.posToVal(s.select.left, 'x') * 1000, to = s.posToVal(s.select.left + s.select.width, 'x') * 1000;
      s.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      range.set(Math.round(from), Math.round(Math.max(to, from + 1000)));
    }
    // drawMarks draws a line and a flag for all that happened; a flag tells
    // what, and leads to the page of it.
    drawMarks(s) {
      for (const f of s.over.querySelectorAll('.flag')) f.remove();
      const { ctx, bbox } = s, near = [];
      ctx.save();
      ctx.strokeStyle = css('--mark');
      ctx.setLineDash([4, 3]);
      ctx.lineWidth = devicePixelRatio;
      for (const m of this.marks()) {
        const at = Date.parse(m.at) / 1000;
        if (at < s.scales.x.min || at > s.scales.x.max) continue;
        const x = Math.round(s.valToPos(at, 'x', true)), left = s.valToPos(at, 'x');
        ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
        const at2 = near.find(n => Math.abs(n.left - left) < 9);
        if (at2) at2.list.push(m); else near.push({ left, list: [m] });
      }
      ctx.restore();
      for (const n of near) s.over.append(this.flag(n));
    }
    flag({ left, list }) {
      const links = list.map(m => m.link).filter(l => l && l.startsWith('/') && !l.startsWith('//'));
      const text = list.slice(0, 8).map(m => clock.full(Date.parse(m.at)) + '  ' + m.kind + ': ' + m.text).join('\n') + (list.length > 8 ? '\n… and ' + (list.length - 8) + ' more' : '');
      const f = make(links.length ? 'a' : 'span', { class: 'flag', href: links[0], title: text, 'aria-label': text, tabindex: links.length ? 0 : undefined }, list.length > 1 ? String(list.length) : list[0].kind[0]);
      f.style.left = left + 'px';
      f.addEventListener('mousedown', e => e.stopPropagation());
      return f;
    }
    marks() { return marks.filter(m => (!this.host || !m.host || m.host === this.host) && (m.kind !== 'restart' || !this.server || m.text.includes(this.server))); }
    // tell writes the values under the cursor, or the last ones, into the legend.
    tell(i) {
      if (!this.lines) return;
      const last = this.data[0].length - 1;
      this.lines.forEach((l, n) => {
        let at = i ?? last;
        if (i === undefined || i === null) while (at > 0 && this.data[n + 1][at] === null) at--;
        const out = this.legend.children[n] && this.legend.children[n].querySelector('.num');
        if (out) out.textContent = unit.format(this.data[n + 1][at], this.spec.unit);
      });
      this.now.textContent = i === undefined || i === null ? '' : clock.full(this.data[0][i] * 1000);
    }
    key() {
      this.legend.replaceChildren(...this.lines.map((l, i) => {
        const sw = make('span', { class: 'swatch' });
        sw.style.background = css(slots[i % slots.length]);
        const b = make('button', { type: 'button', 'aria-pressed': String(!this.off.has(l.name)) }, sw, l.name, ' ', make('span', { class: 'num dim' }));
        b.onclick = e => this.toggle(l.name, e.shiftKey || e.ctrlKey);
        return make('li', {}, b);
      }));
    }
    toggle(name, many) {
      if (many) this.off.has(name) ? this.off.delete(name) : this.off.add(name);
      else {
        const only = this.lines.every(l => l.name === name ? !this.off.has(l.name) : this.off.has(l.name));
        this.off = new Set(only ? [] : this.lines.map(l => l.name).filter(n => n !== name));
      }
      [...this.legend.querySelectorAll('button')].forEach((b, i) => b.setAttribute('aria-pressed', String(!this.off.has(this.lines[i].name))));
      this.draw(range.window());
    }
    resize() { if (this.u && this.plotEl.clientWidth) this.u.setSize({ width: this.plotEl.clientWidth, height }); }
    recolour() { if (this.u) { this.plot(); this.key(); this.draw(range.window()); } }
  }

  const seen = new IntersectionObserver(es => {
    for (const e of es) {
      const c = e.target.chart;
      c.visible = e.isIntersecting;
      if (c.visible && (!c.asked || c.due)) { c.due = false; c.load(); }
    }
  }, { rootMargin: '300px' });
  const reload = () => { for (const c of all) c.visible ? c.load() : (c.due = true); };
  const context = async () => {
    const w = range.window();
    const [m, g] = await Promise.all([
      api.get('marks', { from: Math.floor(w.from), to: Math.ceil(w.to) }).catch(() => ({})),
      api.get('gaps').catch(() => ({}))]);
    marks = m.marks || []; gaps = g.gaps || [];
    for (const c of all) { if (c.u) c.u.redraw(false); else if (c.asked && !c.lines && !c.el.classList.contains('stale') && !c.el.hasAttribute('aria-busy')) c.empty(); }
  };
  const start = () => {
    for (const el of document.querySelectorAll('figure.chart')) { const c = el.chart = new Chart(el); all.push(c); seen.observe(el); }
    if (!all.length) return;
    context();
    range.onchange(() => { reload(); context(); });
    new ResizeObserver(() => { for (const c of all) c.resize(); }).observe(document.getElementById('main'));
    // While points come live, the queries only put them straight.
    setInterval(() => { if (!document.hidden && range.window().live && !live.paused()) reload(); }, 30e3);
    setInterval(() => { if (!document.hidden) context(); }, 30e3);
  };
  return { start, all, keyOf, reload, recolour: () => { for (const c of all) c.recolour(); } };
})();
