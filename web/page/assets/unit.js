'use strict';
// Base units in, what a person reads out. One place for all pages.
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
      case 'bytes': return scale(v, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']);
      case 'bytes/s': return scale(v, 1000, ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s']);
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
