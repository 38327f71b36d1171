'use strict';
// Before the page is drawn, so that it does not flash in the wrong colours.
(() => { const t = localStorage.getItem('theme'); if (t) document.documentElement.dataset.theme = t; })();
