'use strict';
// api asks the server for JSON; its error is the server's own sentence.
const api = (() => {
  const answer = async r => {
    const body = await r.json().catch(() => ({}));
    if (r.status === 401) location.href = '/login';
    if (!r.ok) throw new Error((body.error || r.status + ' ' + r.statusText) + (body.hint ? ' – ' + body.hint : ''));
    return body;
  };
  const get = async (path, params) => {
    const q = new URLSearchParams();
    for (const [k, v] of Object.entries(params || {})) for (const x of [].concat(v)) if (x !== undefined && x !== null) q.append(k, x);
    return answer(await fetch('/api/v1/' + path + (q.size ? '?' + q : ''), { headers: { Accept: 'application/json' } }));
  };
  const post = async (path, body) => answer(await fetch('/api/v1/' + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }));
  return { get, post };
})();

// make builds an element; what it is given is text, never markup.
const make = (tag, attrs, ...inside) => {
  const el = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) if (v !== undefined && v !== null && v !== false) k === 'class' ? el.className = v : el.setAttribute(k, v === true ? '' : v);
  el.append(...inside.filter(x => x !== undefined && x !== null));
  return el;
};
