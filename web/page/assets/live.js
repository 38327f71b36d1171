'use strict';
// Live: while a page shows the present, /api/v1/live brings each sample as it
// is taken (every second while somebody looks), and charts grow by it between
// two queries.
const live = (() => {
  let source = null, stopped = false, retry = 0;
  const last = new Map(); // series key and chart line → last raw sample
  const paused = () => stopped;
  const matcher = text => { // name{a="x",b=~"y"} as a test on labels
    const m = /^([^{]*)(?:\{(.*)\})?$/.exec(text), tests = [];
    if (m[1]) tests.push(l => l.__name__ === m[1]);
    for (const t of (m[2] || '').matchAll(/(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"/g)) {
      const [, k, op, raw] = t, v = raw.replace(/\\(.)/g, (_, c) => c === 'n' ? '\n' : c);
      const re = op.includes('~') ? new RegExp('^(?:' + v + ')$') : null;
      tests.push(l => (re ? re.test(l[k] || '') : (l[k] || '') === v) === !op.startsWith('!'));
    }
    return l => tests.every(f => f(l));
  };
  // feed adds the samples of one update to the charts that show their series.
  const feed = rows => {
    for (const c of charts.all) {
      if (!c.lines || !c.visible || !c.u) continue;
      const sums = new Map();
      for (const r of rows) {
        for (const line of c.spec.lines) {
          if (line.over || !(line.takes || (line.takes = matcher(line.match)))(r.labels)) continue;
          for (const [at, value] of r.points) add(c, line, r, at, value, sums);
        }
      }
      grow(c, sums);
    }
  };
  const add = (c, line, r, at, value, sums) => {
    let v = value;
    if (line.func === 'rate') {
      const key = c.spec.title + '\0' + line.match + '\0' + JSON.stringify(r.labels), was = last.get(key);
      last.set(key, [at, value]);
      if (!was || at <= was[0] || value < was[1]) return;
      v = (value - was[1]) / (at - was[0]) * 1000;
    } else if (line.func === 'increase') return;
    v *= line.scale || 1;
    const labels = {};
    if (line.by) for (const k of line.by) labels[k] = r.labels[k]; else Object.assign(labels, r.labels);
    const n = c.lines.findIndex(l => l.line === line && Object.entries(labels).every(([k, x]) => !(k in l.labels) || k === '__name__' || l.labels[k] === x));
    if (n < 0) return;
    const sec = Math.round(at / 1000);
    if (!sums.has(sec)) sums.set(sec, new Map());
    const at_ = sums.get(sec), had = at_.get(n) || { sum: 0, n: 0, max: -Infinity, min: Infinity };
    at_.set(n, { sum: had.sum + v, n: had.n + 1, max: Math.max(had.max, v), min: Math.min(had.min, v) });
  };
  const grow = (c, sums) => {
    let grew = false;
    for (const [sec, values] of [...sums].sort((a, b) => a[0] - b[0])) {
      const at = c.data[0];
      if (sec <= at[at.length - 1]) continue;
      at.push(sec);
      c.lines.forEach((l, n) => {
        const g = values.get(n);
        l.values.push(!g ? null : l.line.agg === 'max' ? g.max : l.line.agg === 'min' ? g.min : l.line.agg === 'avg' ? g.sum / g.n : g.sum);
      });
      grew = true;
    }
    if (grew) { c.lines.forEach(l => { l.line.spanGaps = true; }); c.u.series.forEach((s, i) => { if (i) s.spanGaps = true; }); c.draw(range.window()); }
  };
  const matches = () => [...new Set(charts.all.flatMap(c => c.spec.lines.filter(l => !l.over).map(l => l.match)))];
  const badge = text => { const b = document.getElementById('live'); if (b) { b.textContent = text; b.setAttribute('aria-pressed', !stopped); } };
  const start = () => {
    if (source) { source.close(); source = null; }
    if (stopped || document.hidden || !range.window().live) return badge(stopped ? 'paused' : 'past');
    const m = matches();
    if (!m.length) return;
    const q = new URLSearchParams();
    for (const x of m) q.append('match', x);
    source = new EventSource('/api/v1/live?' + q);
    source.addEventListener('samples', e => { retry = 0; badge('live'); feed(JSON.parse(e.data).rows || []); });
    source.onopen = () => badge('live');
    source.onerror = () => { badge('reconnecting'); if (source.readyState === EventSource.CLOSED) { source = null; setTimeout(start, Math.min(30e3, 1000 * 2 ** retry++)); } };
  };
  const toggle = () => { stopped = !stopped; start(); if (!stopped) charts.reload(); };
  document.addEventListener('visibilitychange', start);
  range.onchange(start);
  return { start, toggle, paused };
})();
