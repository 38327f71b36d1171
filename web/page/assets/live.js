'use strict';
// Live: while a page shows the present, /api/v1/live brings each sample as it
// is taken (every second while somebody looks), and charts grow by it between
// two queries.
const live = (() => {
  let source = null, stopped = false, retry = 0, timer = 0;
  const last = new Map(); // chart line and series → last raw sample
  const paused = () => stopped;
  const matcher = text => { // name{a="x",b=~"y"} as a test on name and labels
    const m = /^([^{]*)(?:\{(.*)\})?$/s.exec(text), tests = [];
    if (m[1]) tests.push((n, l) => n === m[1]);
    for (const t of (m[2] || '').matchAll(/(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"/gs)) {
      const [, k, op, raw] = t, v = raw.replace(/\\(.)/gs, (_, c) => c === 'n' ? '\n' : c);
      const re = op.includes('~') ? new RegExp('^(?:' + v + ')$') : null;
      tests.push((n, l) => { const x = k === '__name__' ? n : l[k] || ''; return (re ? re.test(x) : x === v) === !op.startsWith('!'); });
    }
    return (n, l) => tests.every(f => f(n, l));
  };
  // feed adds the samples of one update to the charts that show their series.
  const feed = rows => {
    for (const c of charts.all) {
      if (!c.visible || !c.orphan && (!c.lines || !c.u)) continue;
      const sums = new Map();
      c.spec.lines.forEach((line, n) => {
        if (line.over && line.over_func === 'rate') return;
        if (line.over && c.orphan) divisors(line, rows);
        const takes = line.takes || (line.takes = matcher(line.match));
        for (const r of rows) if (takes(r.name, r.labels)) for (const p of r.points) add(c, line, n, r, p[0], p[1], sums);
      });
      grow(c, sums);
    }
  };
  // divisors takes what lines are divided by from the samples themselves.
  const divisors = (line, rows) => {
    const takes = line.takesOver || (line.takesOver = matcher(line.over));
    line.divide = line.divide || new Map();
    for (const r of rows) if (r.points.length && takes(r.name, r.labels)) line.divide.set(charts.keyOf(Object.fromEntries((line.over_by || []).map(k => [k, r.labels[k]]))), r.points[r.points.length - 1][1]);
  };
  const add = (c, line, n, r, at, value, sums) => {
    if (value === null || line.func === 'increase') return;
    let v = value;
    if (line.func === 'rate') {
      const key = c.spec.title + '\0' + n + '\0' + r.key, was = last.get(key);
      last.set(key, [at, value]);
      if (!was || at <= was[0] || value < was[1] || at - was[0] > 60e3) return;
      v = (value - was[1]) / (at - was[0]) * 1000;
    }
    const labels = {};
    if (line.by || line.agg) { for (const k of line.by || []) if (r.labels[k]) labels[k] = r.labels[k]; } else Object.assign(labels, r.labels);
    const key = charts.keyOf(labels);
    let i = (c.lines || []).findIndex(l => l.line === line && (l.key || (l.key = charts.keyOf(l.labels))) === key);
    if (i < 0 && c.orphan) c.lines && c.lines.length >= 16 || (i = c.adopt(line, labels), c.lines[i].key = key);
    if (i < 0) return;
    const sec = Math.round(at / 1000);
    if (!sums.has(sec)) sums.set(sec, new Map());
    const here = sums.get(sec), had = here.get(i);
    here.set(i, had ? { sum: had.sum + v, n: had.n + 1, max: Math.max(had.max, v), min: Math.min(had.min, v) } : { sum: v, n: 1, max: v, min: v });
  };
  const grow = (c, sums) => {
    let grew = false;
    for (const [sec, values] of [...sums].sort((a, b) => a[0] - b[0])) {
      const at = c.data[0], same = at.length && at[at.length - 1] === sec;
      if (!same && at.length && sec <= at[at.length - 1]) continue;
      if (!same) { at.push(sec); for (let i = 1; i < c.data.length; i++) c.data[i].push(null); }
      for (const [i, g] of values) {
        const l = c.lines[i], agg = l.line.agg;
        let v = agg === 'max' ? g.max : agg === 'min' ? g.min : agg === 'avg' ? g.sum / g.n : g.sum;
        if (l.line.over) { const m = l.line.divide, d = m && (m.get(l.key) || m.get('[]')); if (!d) continue; v /= d; }
        if (l.line.rest) v = 1 - v;
        c.data[i + 1][at.length - 1] = v * (l.line.scale || 1);
        grew = true;
      }
    }
    if (grew) c.draw(range.window());
  };
  // wanted is one selector for all that the page shows: the names as one
  // pattern, cut to beginnings where that would be too long for the server.
  const wanted = () => {
    const names = [...new Set(charts.all.flatMap(c => [...c.names, ...c.under]))];
    const hosts = new Set(charts.all.map(c => c.host)), servers = new Set(charts.all.map(c => c.server));
    let re = names.join('|');
    for (let words = 4; re.length > 900 && words > 0; words--) re = [...new Set(names.map(n => n.split('_').slice(0, words).join('_') + '.*'))].join('|');
    const q = x => '"' + x.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n') + '"';
    const conds = ['__name__=~' + q(re)];
    if (hosts.size === 1 && [...hosts][0]) conds.push('host=' + q([...hosts][0]));
    if (servers.size === 1 && [...servers][0]) conds.push('server=' + q([...servers][0]));
    return names.length ? '{' + conds.join(',') + '}' : '';
  };
  const badge = text => {
    const b = document.getElementById('live');
    if (!b) return;
    b.textContent = text;
    b.setAttribute('aria-pressed', String(text === 'live'));
  };
  const start = since => {
    clearTimeout(timer);
    if (source) { source.close(); source = null; }
    if (stopped || document.hidden || !range.window().live) return badge(stopped ? 'paused' : 'past');
    const match = wanted();
    if (!match) return;
    badge('connecting');
    const take = e => { retry = 0; badge('live'); feed(JSON.parse(e.data).rows || []); };
    source = new EventSource('/api/v1/live?' + new URLSearchParams({ match, since: typeof since === 'string' && since || '-15s' }));
    source.addEventListener('recent', take);
    source.addEventListener('points', take);
    source.addEventListener('end', () => again());
    source.onerror = () => { if (source) again(); };
  };
  // recent brings back what the server still has in memory, for charts that
  // the store does not answer.
  const recent = () => { clearTimeout(timer); timer = setTimeout(() => start('-15m'), 300); };
  const again = () => {
    if (source) { source.close(); source = null; }
    badge('reconnecting');
    timer = setTimeout(() => start(charts.all.some(c => c.orphan) ? '-15m' : ''), Math.min(30e3, 1000 * 2 ** retry++));
  };
  const toggle = () => {
    if (!range.window().live) return range.set('-1h', 'now');
    stopped = !stopped;
    start();
    if (!stopped) charts.reload();
  };
  document.addEventListener('visibilitychange', start);
  range.onchange(start);
  // Between two samples the time axis goes on.
  setInterval(() => {
    if (stopped || document.hidden || !range.window().live) return;
    const w = range.window();
    for (const c of charts.all) if (c.u && c.visible) c.u.setScale('x', { min: w.from / 1000, max: w.to / 1000 });
  }, 5000);
  return { start, toggle, paused, recent };
})();
