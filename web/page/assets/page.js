'use strict';
// What every page has: theme, keys, the status line, tables that sort and
// filter, parts that renew themselves.
(() => {
  const $ = id => document.getElementById(id);
  const theme = next => {
    let t = localStorage.getItem('theme') || '';
    if (next) { t = { '': 'dark', dark: 'light', light: '' }[t] ?? ''; localStorage.setItem('theme', t); }
    t ? document.documentElement.dataset.theme = t : delete document.documentElement.dataset.theme;
    $('theme').textContent = t || 'auto';
    if (next) charts.recolour();
  };

  // The status line: is the watcher itself well? It is asked every 5 s and
  // says so when it cannot be reached.
  const status = async () => {
    const bar = $('status');
    try {
      const s = await api.get('status'), w = s.worker || {}, q = s.queue || {}, parts = [];
      const room = q.room_seconds === null || q.room_seconds === undefined ? '' : unit.seconds(q.room_seconds);
      if ($('room')) $('room').textContent = room ? room + ', then ' + q.room_ends_at + ' is full' : 'could not tell yet: needs a minute';
      if (w.trouble) parts.push('The store is away for ' + unit.seconds((Date.parse(s.now) - Date.parse(w.trouble_since)) / 1000) + ': samples wait in the queue' + (room ? ', room for ' + room : '') + '. ' + w.trouble);
      for (const x of s.wrong || []) if (!w.trouble || !x.startsWith('samples wait')) parts.push(x);
      bar.className = q.paused ? 'bad' : parts.length ? 'warn' : '';
      if (!parts.length) parts.push('Connected · samples are stored' + (w.lag_seconds ? ' ' + unit.seconds(w.lag_seconds) + ' after they were taken' : ''));
      bar.textContent = parts.join(' · ');
    } catch (e) {
      bar.className = 'bad';
      bar.textContent = 'No answer from Headroom: ' + e.message + '. What you see is from before; this page tries again.';
    }
  };

  const cell = (tr, i) => { const td = tr.cells[i]; return td ? (td.dataset.v !== undefined ? +td.dataset.v : td.textContent.trim().toLowerCase()) : ''; };
  const sortRows = (table, i, dir) => {
    const rows = [...table.tBodies[0].rows].sort((a, b) => { const x = cell(a, i), y = cell(b, i); return (x < y ? -1 : x > y ? 1 : 0) * dir; });
    table.tBodies[0].append(...rows);
    [...table.tHead.rows[0].cells].forEach((th, n) => { if (th.hasAttribute('aria-sort')) th.setAttribute('aria-sort', n === i ? (dir > 0 ? 'ascending' : 'descending') : 'none'); });
  };
  const sortable = (table, was) => {
    [...table.tHead.rows[0].cells].forEach((th, i) => {
      if ('plain' in th.dataset) return;
      const b = make('button', { type: 'button', id: 'sort-' + (table.closest('[data-part]')?.dataset.part || 'table') + i }, th.textContent);
      th.replaceChildren(b);
      th.setAttribute('aria-sort', 'none');
      b.onclick = () => sortRows(table, i, th.getAttribute('aria-sort') === 'none' ? (th.classList.contains('num') ? -1 : 1) : th.getAttribute('aria-sort') === 'ascending' ? -1 : 1);
    });
    if (was) sortRows(table, was.i, was.dir);
  };
  const sorting = el => {
    const th = el.querySelector('table.sort th[aria-sort=ascending], table.sort th[aria-sort=descending]');
    return th && { i: th.cellIndex, dir: th.getAttribute('aria-sort') === 'ascending' ? 1 : -1 };
  };

  const search = $('filter');
  const filter = () => {
    const want = search.value.trim().toLowerCase();
    for (const el of document.querySelectorAll('[data-filter], figure.chart')) el.classList.toggle('hidden', !!want && !el.textContent.toLowerCase().includes(want));
  };
  search.value = new URLSearchParams(location.search).get('q') || '';
  search.oninput = () => {
    const q = new URLSearchParams(location.search);
    search.value ? q.set('q', search.value) : q.delete('q');
    history.replaceState(null, '', location.pathname + (q.size ? '?' + q : '') + location.hash);
    filter();
  };

  const dress = (el, was) => {
    for (const t of el.querySelectorAll('table.sort')) sortable(t, was);
    for (const t of el.querySelectorAll('time[datetime]')) { t.title = t.dateTime; t.textContent = clock.full(Date.parse(t.dateTime)); }
    for (const p of el.querySelectorAll('pre, .table')) if (p.scrollWidth > p.clientWidth) p.tabIndex = 0;
    range.links(el);
    if (search.value) filter();
  };
  // A part of a page renews itself: the server renders it again. It is left
  // alone while somebody marks text or has opened something in it.
  const renew = el => {
    let turn = 0;
    const once = async force => {
      if (document.hidden && !force || live.paused() && !force) return;
      if (!force && (el.querySelector('details[open]') || !getSelection().isCollapsed && el.contains(getSelection().anchorNode))) return;
      const mine = ++turn;
      try {
        const r = await fetch(location.pathname + location.search, { headers: { 'X-Part': el.dataset.part } });
        if (r.redirected) { location.href = '/login'; return; }
        if (!r.ok) throw new Error(r.status + ' ' + r.statusText);
        const doc = new DOMParser().parseFromString(await r.text(), 'text/html');
        if (mine !== turn) return;
        const focus = document.activeElement && el.contains(document.activeElement) ? document.activeElement.id : '', was = sorting(el);
        el.replaceChildren(...doc.body.childNodes);
        el.classList.remove('stale');
        dress(el, was);
        if (focus && $(focus)) $(focus).focus();
        if (el.dataset.part === 'state') status();
      } catch (e) {
        el.classList.add('stale');
        if (!el.childElementCount) el.append(make('div', { class: 'card gap' }, 'Could not be read: ' + e.message));
      }
    };
    if ('now' in el.dataset) once(true);
    setInterval(once, +el.dataset.every * 1000);
    range.onchange(() => once(true));
  };

  let going = 0;
  addEventListener('keydown', e => {
    if (e.target.matches('input,textarea,select')) { if (e.key === 'Escape') e.target.blur(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
    if (Date.now() - going < 1500) {
      const a = [...document.querySelectorAll('nav.views a')].find(a => a.dataset.key === e.key);
      going = 0;
      if (a) { location.href = a.href; return; }
    }
    const charted = charts.all.length > 0;
    switch (e.key) {
      case '/': e.preventDefault(); search.focus(); break;
      case '?': $('help').showModal(); break;
      case 'g': going = Date.now(); break;
      case 'ArrowLeft': if (charted && !e.target.closest('pre,.table')) range.pan(-.5); break;
      case 'ArrowRight': if (charted && !e.target.closest('pre,.table')) range.pan(.5); break;
      case '+': case '=': if (charted) range.zoom(.5); break;
      case '-': if (charted) range.zoom(2); break;
      case '0': if (charted) range.set('-1h', 'now'); break;
      case ' ': if (charted && !e.target.closest('button,a,summary')) { e.preventDefault(); live.toggle(); } break;
    }
  });
  document.addEventListener('click', e => {
    const b = e.target.closest('button');
    if (!b) return;
    if (b.dataset.range) range.set(b.dataset.range, 'now');
    else if (b.id === 'theme') theme(true);
    else if (b.id === 'live') live.toggle();
    else if (b.id === 'help-open') $('help').showModal();
    else if (b.dataset.close) b.closest('dialog').close();
  });

  theme(false);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => charts.recolour());
  dress(document);
  $('zone').textContent = clock.zone();
  charts.start();
  for (const el of document.querySelectorAll('[data-part]')) renew(el);
  live.start();
  status();
  setInterval(() => { if (!document.hidden) status(); }, 5000);
})();
