'use strict';
// Base units in, what a person reads out, as the server writes it: bytes in
// powers of 1024, as PostgreSQL counts them. One place for all pages.
const unit = (() => {
  const scale = (v, step, names) => {
    let i = 0;
    let a = Math.abs(v);
    while (a >= step && i < names.length - 1) { a /= step; i++; }
    const digits = a >= 100 ? 0 : a >= 10 ? 1 : 2;
    return trim((v < 0 ? -a : a).toFixed(digits)) + (names[i] ? ' ' + names[i] : '');
  };
  const trim = s => s.includes('.') ? s.replace(/\.?0+$/, '') : s;
  const seconds = v => {
    const a = Math.abs(v);
    if (a === 0) return '0 s';
    if (a < 1e-3) return trim((v * 1e6).toFixed(a < 1e-5 ? 1 : 0)) + ' µs';
    if (a < 1) return trim((v * 1e3).toFixed(a < 0.01 ? 2 : a < 0.1 ? 1 : 0)) + ' ms';
    if (a < 120) return trim(v.toFixed(a < 10 ? 2 : 1)) + ' s';
    if (a < 7200) return trim((v / 60).toFixed(1)) + ' min';
    if (a < 172800) return trim((v / 3600).toFixed(1)) + ' h';
    return trim((v / 86400).toFixed(1)) + ' d';
  };
  // format writes a value of a unit: bytes, bytes/s, seconds, ratio, count, count/s.
  const format = (v, u) => {
    if (v === null || v === undefined || Number.isNaN(v)) return '–';
    switch (u) {
      case 'bytes': return scale(v, 1024, ['B', 'kB', 'MB', 'GB', 'TB', 'PB']);
      case 'bytes/s': return scale(v, 1024, ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s']);
      case 'seconds': return seconds(v);
      case 'ratio': return trim((v * 100).toFixed(Math.abs(v) < 0.1 ? 1 : 0)) + ' %';
      case 'count/s': return scale(v, 1000, ['', 'k', 'M', 'G']) + '/s';
      default: return scale(v, 1000, ['', 'k', 'M', 'G', 'T']);
    }
  };
  const ago = ms => {
    const s = (Date.now() - ms) / 1000;
    return s < 2 ? 'now' : seconds(s) + ' ago';
  };
  return { format, seconds, ago };
})();

// Times as people here write them, in the zone of the browser, 24 hours.
const clock = (() => {
  const two = n => String(n).padStart(2, '0');
  const day = d => d.getFullYear() + '-' + two(d.getMonth() + 1) + '-' + two(d.getDate());
  const time = (d, sec) => two(d.getHours()) + ':' + two(d.getMinutes()) + (sec ? ':' + two(d.getSeconds()) : '');
  const full = ms => { const d = new Date(ms); return day(d) + ' ' + time(d, true); };
  // ticks names the ticks of an axis: the day only where it begins.
  const ticks = (list, incr) => {
    let was = '';
    return list.map(t => {
      const d = new Date(t * 1000), on = day(d).slice(5), first = on !== was;
      was = on;
      if (incr >= 86400) return on;
      const text = time(d, incr < 60);
      return first && list.length && (d.getHours() + d.getMinutes() === 0) ? on : text;
    });
  };
  const zone = () => {
    const m = -new Date().getTimezoneOffset(), name = Intl.DateTimeFormat().resolvedOptions().timeZone;
    return name + (m ? ' (UTC' + (m < 0 ? '-' : '+') + two(Math.floor(Math.abs(m) / 60)) + ':' + two(Math.abs(m) % 60) + ')' : '');
  };
  return { full, ticks, zone };
})();
