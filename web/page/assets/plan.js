'use strict';
// Plans: a preview changes nothing; to apply one its name has to be typed.
(() => {
  const show = p => {
    const box = make('div', { class: 'plan' }, make('p', {}, make('b', {}, 'Plan ' + p.id), ': ' + p.title + (p.nothing ? ' – all is as wanted already' : '') + '. Nothing was changed.'));
    for (const c of p.changes || []) {
      box.append(make('p', { class: 'dim' }, c.change + ' – ' + c.subject + '. ' + c.why));
      const body = make('tbody');
      for (const s of c.steps || []) for (const r of s.diff ? [] : s.rows || []) body.append(make('tr', {}, make('td', {}, r.name), make('td', { class: 'num' }, r.now), make('td', { class: 'num' }, r.after)));
      if (body.children.length) box.append(make('div', { class: 'table' }, make('table', {}, make('thead', {}, make('tr', {}, make('th', {}, 'what'), make('th', { class: 'num' }, 'now'), make('th', { class: 'num' }, 'after'))), body)));
      for (const s of c.steps || []) if (s.diff) box.append(make('p', {}, make('b', {}, s.object)), make('pre', { class: 'diff', tabindex: 0 }, ...s.diff.map(l => make('span', { class: l[0] === '+' ? 'added' : l[0] === '-' ? 'gone' : null }, l + '\n'))));
      const effects = [...new Set((c.steps || []).flatMap(s => s.effects || []))];
      if (effects.length) box.append(make('p', {}, 'Then: ' + effects.join('; ')));
      if (c.notes) box.append(make('details', {}, make('summary', {}, c.notes.length + (c.notes.length > 1 ? ' notes' : ' note')), make('ul', {}, ...c.notes.map(n => make('li', {}, n)))));
      if (c.cuts_off) box.append(make('p', {}, make('b', {}, 'It may cut you off.'), ' It is taken back by itself after ' + unit.seconds(c.confirm_within_seconds) + ' unless somebody came in anew from outside and you keep it.'));
      if (c.risk) box.append(make('p', {}, 'Risk: ' + c.risk + (c.risk_why ? ' – ' + c.risk_why : '')));
    }
    return box;
  };
  const preview = async button => {
    const out = button.closest('[data-plan-box]').querySelector('.plan-out');
    button.disabled = true;
    out.textContent = 'Planning; nothing is changed …';
    try {
      const p = await api.post('plans', { change: button.dataset.plan, server: button.dataset.server || undefined });
      out.replaceChildren(show(p));
      if (p.nothing) return;
      if (button.dataset.allow !== 'yes' || !p.changes_allowed)
        return out.append(make('p', {}, 'This page may not change the machine (headroom up --allow-changes). On the machine: ', make('code', {}, p.apply)));
      const accept = p.restarts ? make('input', { type: 'checkbox', name: 'restart' }) : null;
      const extra = accept ? make('label', {}, accept, ' restart the server: all its sessions end') : null;
      out.append(consent(p.id, 'Apply', extra, typed => api.post('plans/' + p.id + '/apply', { confirm: typed, accept: accept && accept.checked ? ['restart'] : [] })));
    } catch (e) { out.replaceChildren(make('p', { class: 'bad' }, e.message)); } finally { button.disabled = false; }
  };
  // consent asks for the id before it does what was asked for.
  const consent = (id, word, extra, act) => {
    const input = make('input', { type: 'text', name: 'confirm', autocomplete: 'off', size: 14, 'aria-label': 'type ' + id });
    const go = make('button', { class: 'danger', disabled: true }, word), said = make('p', { role: 'status' });
    const form = make('form', { class: 'consent' }, make('label', {}, 'To do it, type ', make('code', {}, id), ': ', input), ' ', extra, ' ', go, said);
    input.oninput = () => { go.disabled = input.value !== id; };
    form.onsubmit = async e => {
      e.preventDefault();
      if (input.value !== id) return;
      go.disabled = input.disabled = true;
      said.textContent = 'Under way …';
      try {
        const r = await act(input.value);
        const there = make('a', { href: '/journal/' + encodeURIComponent(r.id) }, r.id);
        said.replaceChildren('Done and verified: change ', there, ' is ' + r.state + '. ' + (r.notes || []).join('; '));
        if (r.state === 'awaiting') said.append(make('b', {}, ' Taken back at ' + clock.full(Date.parse(r.confirm_by)) + ' unless you keep it there. '), r.confirm_port ? 'First log in once more from another machine: a new connection to TCP port ' + r.confirm_port + ' must be seen.' : '');
      } catch (err) { said.textContent = 'Not done: ' + err.message; go.disabled = input.disabled = false; }
    };
    return form;
  };
  document.addEventListener('click', e => {
    const b = e.target.closest('button');
    if (!b) return;
    if (b.dataset.plan) preview(b);
    if (b.dataset.do) {
      const box = b.closest('[data-consent]'), id = box.dataset.consent;
      const unseen = 'wants' in b.dataset ? make('input', { type: 'checkbox', name: 'unseen' }) : null;
      const extra = unseen ? make('label', {}, unseen, ' keep it even if no new connection was seen: nobody may get in then') : null;
      box.querySelector('.plan-out').replaceChildren(consent(id, b.textContent, extra, typed => api.post('changes/' + id + '/' + b.dataset.do, { confirm: typed, confirm_unseen: unseen && unseen.checked || undefined })));
    }
  });
})();
