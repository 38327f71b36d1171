'use strict';
// What every page has: theme, keys, the status line, tables that sort and
// filter, lists that renew themselves, plans and their confirmation.
(() => {
  const $ = id => document.getElementById(id);
  const root = document.documentElement;

  const theme = next => {
    let t = localStorage.getItem('theme') || '';
    if (next) { t = { '': 'dark', dark: 'light', light: '' }[t]; localStorage.setItem('theme', t); }
    t ? root.dataset.theme = t : delete root.dataset.theme;
    const b = $('theme');
    if (b) b.textContent = { '': 'auto', dark: 'dark', light: 'light' }[t];
    if (next) charts.recolour();
  };

  // The status line: is the watcher itself well? It is asked every 5 s and
  // says so when it cannot be reached.
  const status = async () => {
    const bar = $('status');
    if (!bar) return;
    try {
      const s = await charts.api('status');
      const parts = [], w = s.worker || {}, q = s.queue || {};
      let level = '';
      if (w.trouble) {
        level = 'warn';
        parts.push('the store takes nothing since ' + unit.seconds((Date.now() - Date.parse(w.trouble_since)) / 1000) + ': ' + w.trouble);
        parts.push('samples wait in the queue' + (q.hours_left ? ', room for ' + unit.seconds(q.hours_left * 3600) : ''));
      }
      if (q.paused) { level = 'bad'; parts.push('the queue takes nothing: ' + q.paused); }
      if (!level) parts.push('all samples are stored' + (w.lag_seconds !== undefined ? ', ' + unit.seconds(w.lag_seconds) + ' after they were taken' : ''));
      bar.className = level;
      bar.textContent = parts.join(' · ');
    } catch (e) {
      bar.className = 'bad';
      bar.textContent = 'no answer from Headroom: ' + e.message + ' – what you see is from before; this page tries again';
    }
  };

  const sortable = table => {
    const value = (tr, i) => { const td = tr.cells[i]; return td ? (td.dataset.v !== undefined ? +td.dataset.v : td.textContent.trim().toLowerCase()) : ''; };
    const sort = (i, dir) => {
      const rows = [...table.tBodies[0].rows].sort((a, b) => { const x = value(a, i), y = value(b, i); return (x < y ? -1 : x > y ? 1 : 0) * dir; });
      table.tBodies[0].append(...rows);
      [...table.tHead.rows[0].cells].forEach((th, n) => th.setAttribute('aria-sort', n === i ? (dir > 0 ? 'ascending' : 'descending') : 'none'));
    };
    [...table.tHead.rows[0].cells].forEach((th, i) => {
      const b = document.createElement('button');
      b.type = 'button'; b.textContent = th.textContent;
      th.replaceChildren(b); th.setAttribute('aria-sort', 'none');
      b.onclick = () => sort(i, th.getAttribute('aria-sort') === 'descending' ? 1 : th.classList.contains('num') || th.getAttribute('aria-sort') === 'ascending' ? -1 : 1);
    });
  };
  const filter = text => {
    const want = text.trim().toLowerCase();
    for (const el of document.querySelectorAll('[data-filter]')) el.classList.toggle('hidden', !!want && !el.textContent.toLowerCase().includes(want));
    for (const el of document.querySelectorAll('figure.chart')) el.classList.toggle('hidden', !!want && !el.textContent.toLowerCase().includes(want));
  };
  const search = $('filter');
  if (search) {
    const q = new URLSearchParams(location.search);
    search.value = q.get('q') || '';
    search.oninput = () => {
      const q = new URLSearchParams(location.search);
      search.value ? q.set('q', search.value) : q.delete('q');
      history.replaceState(null, '', location.pathname + (q.size ? '?' + q : ''));
      filter(search.value);
    };
    if (search.value) filter(search.value);
  }

  // A part of a page that renews itself: the server renders it again.
  const renew = el => {
    const every = +el.dataset.every * 1000;
    const once = async () => {
      if (document.hidden || live.paused()) return;
      try {
        const r = await fetch(el.dataset.part, { headers: { 'X-Part': '1' } });
        if (!r.ok) throw new Error(r.status + ' ' + r.statusText);
        const doc = new DOMParser().parseFromString(await r.text(), 'text/html');
        const focus = document.activeElement && el.contains(document.activeElement) ? document.activeElement.id : '';
        el.replaceChildren(...doc.body.childNodes);
        el.classList.remove('stale');
        if (search && search.value) filter(search.value);
        if (focus && $(focus)) $(focus).focus();
      } catch (e) { el.classList.add('stale'); }
    };
    setInterval(once, every);
  };

  // Plans: preview changes nothing; apply wants the plan's name typed.
  const post = async (path, body) => {
    const r = await fetch('/api/v1/' + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    const out = await r.json().catch(() => ({}));
    if (!r.ok) throw new Error((out.error || r.status + ' ' + r.statusText) + (out.hint ? ' – ' + out.hint : ''));
    return out;
  };
  const plan = async button => {
    const out = button.closest('[data-plan-box]').querySelector('.plan-out');
    button.disabled = true;
    out.textContent = 'planning; nothing is changed …';
    try {
      const p = await post('plans', { change: button.dataset.plan, server: button.dataset.server || undefined });
      const pre = document.createElement('pre');
      pre.textContent = p.text || JSON.stringify(p, null, 2);
      out.replaceChildren(pre);
      if (!p.id || p.nothing) return;
      if (button.dataset.allow !== 'yes') {
        const note = document.createElement('p');
        note.className = 'dim';
        note.textContent = 'This page may not change the machine (headroom up --allow-changes). On the machine itself: ';
        const code = document.createElement('code');
        code.textContent = 'headroom apply ' + p.id;
        note.append(code);
        out.append(note);
        return;
      }
      confirmBox(out, p);
    } catch (e) { out.textContent = e.message; } finally { button.disabled = false; }
  };
  const confirmBox = (out, p) => {
    const form = document.createElement('form'), label = document.createElement('label'), input = document.createElement('input'), go = document.createElement('button');
    label.textContent = 'To apply it, type ' + p.id + ': ';
    input.type = 'text'; input.autocomplete = 'off'; input.name = 'confirm'; input.size = 12;
    go.textContent = 'Apply'; go.className = 'danger'; go.disabled = true;
    input.oninput = () => { go.disabled = input.value !== p.id; };
    label.append(input);
    form.append(label, ' ', go);
    form.onsubmit = async e => {
      e.preventDefault();
      if (input.value !== p.id) return;
      go.disabled = input.disabled = true;
      const said = document.createElement('p');
      said.textContent = 'applying …';
      form.after(said);
      try {
        const r = await post('plans/' + p.id + '/apply', { confirm: input.value });
        said.textContent = r.text || 'applied and verified as change ' + r.id + '; take it back with: headroom revert ' + r.id;
      } catch (err) { said.textContent = 'not applied: ' + err.message; }
    };
    out.append(form);
    input.focus();
  };

  const keys = { h: '/', d: '/disks', p: '/postgres', f: '/findings', q: '/queries', t: '/tables', j: '/journal', l: '/lab', u: '/queue' };
  let going = 0;
  addEventListener('keydown', e => {
    if (e.target.matches('input,textarea,select') ) { if (e.key === 'Escape') e.target.blur(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (going && Date.now() - going < 1500 && keys[e.key]) { location.href = keys[e.key]; return; }
    going = 0;
    switch (e.key) {
      case '/': if (search) { e.preventDefault(); search.focus(); } break;
      case '?': $('help').showModal(); break;
      case 'g': going = Date.now(); break;
      case 'ArrowLeft': range.pan(-.5); break;
      case 'ArrowRight': range.pan(.5); break;
      case '+': case '=': range.zoom(.5); break;
      case '-': range.zoom(2); break;
      case '0': range.set('-1h', 'now'); break;
      case ' ': if (e.target === document.body) { e.preventDefault(); live.toggle(); } break;
    }
  });

  document.addEventListener('click', e => {
    const b = e.target.closest('button');
    if (!b) return;
    if (b.dataset.range) range.set(b.dataset.range, 'now');
    else if (b.dataset.plan) plan(b);
    else if (b.id === 'theme') theme(true);
    else if (b.id === 'live') live.toggle();
    else if (b.id === 'help-open') $('help').showModal();
    else if (b.dataset.close) b.closest('dialog').close();
  });

  theme(false);
  for (const t of document.querySelectorAll('table.sort')) sortable(t);
  for (const el of document.querySelectorAll('[data-part]')) renew(el);
  for (const el of document.querySelectorAll('time[datetime]')) { const d = new Date(el.dateTime); el.title = el.dateTime; el.textContent = d.toLocaleString(); }
  const zone = $('zone');
  if (zone) zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
  range.links();
  charts.start();
  live.start();
  status();
  setInterval(() => { if (!document.hidden) status(); }, 5000);
})();
