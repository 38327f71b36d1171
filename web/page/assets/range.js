'use strict';
// The time range of a page lives in its URL (from, to), so that every view can
// be sent to somebody. from and to are "-2h", "now" or RFC 3339.
const range = (() => {
  const listeners = [];
  const units = { s: 1, m: 60, h: 3600, d: 86400, w: 604800 };
  const read = () => {
    const q = new URLSearchParams(location.search);
    return { from: q.get('from') || '-1h', to: q.get('to') || 'now' };
  };
  const ms = (text, now) => {
    if (text === 'now') return now;
    const rel = /^-(\d+(?:\.\d+)?)([smhdw])$/.exec(text);
    if (rel) return now - rel[1] * units[rel[2]] * 1000;
    const at = Date.parse(text);
    return Number.isNaN(at) ? now : at;
  };
  const window_ = () => {
    const r = read(), now = Date.now();
    return { from: ms(r.from, now), to: ms(r.to, now), live: r.to === 'now' };
  };
  const set = (from, to, replace) => {
    const q = new URLSearchParams(location.search);
    q.set('from', typeof from === 'number' ? new Date(from).toISOString() : from);
    q.set('to', typeof to === 'number' ? new Date(to).toISOString() : to);
    const deep = history.state && history.state.deep || 0;
    history[replace ? 'replaceState' : 'pushState']({ deep: deep + (replace ? 0 : 1) }, '', location.pathname + '?' + q);
    tell();
  };
  const tell = () => { links(); for (const f of listeners) f(); };
  // links carries range, host and server on to the other views.
  const links = within => {
    const q = new URLSearchParams(location.search), w = window_(), r = read();
    for (const a of (within || document).querySelectorAll('a[data-keep]')) {
      const u = new URL(a.href);
      for (const k of ['from', 'to', 'host', 'server']) q.has(k) ? u.searchParams.set(k, q.get(k)) : u.searchParams.delete(k);
      a.href = u.pathname + u.search;
    }
    for (const b of document.querySelectorAll('[data-range]')) b.setAttribute('aria-pressed', String(r.to === 'now' && r.from === b.dataset.range));
    const shown = document.getElementById('shown-range');
    if (shown) shown.textContent = clock.full(w.from) + ' – ' + (w.live ? 'now' : clock.full(w.to));
  };
  // back undoes a zoom of this visit; where there was none it zooms out.
  const back = () => { if (history.state && history.state.deep > 0) history.back(); else zoom(4); };
  const pan = part => {
    const w = window_(), d = (w.to - w.from) * part;
    const to = Math.min(w.to + d, Date.now());
    set(to - (w.to - w.from), to >= Date.now() - 1000 ? 'now' : to);
  };
  const zoom = factor => {
    const w = window_(), mid = w.live ? w.to : (w.from + w.to) / 2, span = Math.max(10e3, (w.to - w.from) * factor);
    if (w.live) return set('-' + Math.round(span / 1000) + 's', 'now');
    set(mid - span / 2, Math.min(mid + span / 2, Date.now()));
  };
  addEventListener('popstate', tell);
  return { read, window: window_, set, pan, zoom, back, links, onchange: f => listeners.push(f) };
})();
