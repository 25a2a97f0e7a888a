(function () {
  'use strict';
  var $ = function (q, e) { return (e || document).querySelector(q); };
  var all = function (q, e) { return [].slice.call((e || document).querySelectorAll(q)); };
  var make = function (tag, cls, text) {
    var e = document.createElement(tag);
    if (cls) e.className = cls;
    if (text) e.textContent = text;
    return e;
  };

  // Links to a cell open its details.
  function reveal() {
    var e = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!e) return;
    var d = e.closest('details');
    if (d && !d.open) { d.open = true; d.scrollIntoView(); }
  }
  addEventListener('hashchange', reveal);
  reveal();
  all('a[href^="#cell-"]').forEach(function (a) { a.addEventListener('click', function () { setTimeout(reveal); }); });

  var table = $('table.all');
  var heads = table ? all('thead th', table) : [];
  var text = function (e) { return e.textContent.trim(); };

  // Sorting.
  function number(s) {
    var m = /^([\d,.]+)\s*([KMG]?)/.exec(s);
    return m ? parseFloat(m[1].replace(/,/g, '')) * ({ K: 1e3, M: 1e6, G: 1e9 }[m[2]] || 1) : null;
  }
  function sort(i) {
    var th = heads[i], up = th.getAttribute('aria-sort') === 'descending' ? 1 : -1;
    heads.forEach(function (h) { h.removeAttribute('aria-sort'); });
    th.setAttribute('aria-sort', up < 0 ? 'descending' : 'ascending');
    var body = table.tBodies[0];
    [].slice.call(body.rows).map(function (r, k) { var s = text(r.cells[i]); return [number(s), s, k, r]; }).sort(function (a, b) {
      if (a[0] === null && b[0] === null) return a[1] < b[1] ? -up : a[1] > b[1] ? up : a[2] - b[2];
      if (a[0] === null) return 1;
      if (b[0] === null) return -1;
      return (a[0] - b[0]) * up || a[2] - b[2];
    }).forEach(function (x) { body.appendChild(x[3]); });
    table.classList.add('sorted');
  }
  heads.forEach(function (th, i) {
    var so = $('.so', th);
    so.tabIndex = 0;
    so.setAttribute('role', 'button');
    so.addEventListener('click', function () { sort(i); });
    so.addEventListener('keydown', function (e) { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); sort(i); } });
  });

  // Columns to hide, and copies of what is left.
  function shown() {
    var columns = heads.map(function (h, i) { return getComputedStyle(h).display === 'none' ? -1 : i; }).filter(function (i) { return i >= 0; });
    var rows = [].slice.call(table.tBodies[0].rows).filter(function (r) { return getComputedStyle(r).display !== 'none'; });
    return [heads].concat(rows.map(function (r) { return r.cells; })).map(function (cells) { return columns.map(function (i) { return text(cells[i]); }); });
  }
  function markdown() {
    var line = function (c) { return '| ' + c.map(function (s) { return s.replace(/[\\|`*_<>[\]]/g, '\\$&'); }).join(' | ') + ' |'; };
    var rows = shown();
    return [line(rows[0]), '|' + rows[0].map(function () { return ' ---: |'; }).join('')].concat(rows.slice(1).map(line)).join('\n') + '\n';
  }
  function csv() {
    return shown().map(function (r) {
      return r.map(function (s) {
        if (/^[=+\-@]/.test(s)) s = "'" + s;
        return /[",\n]/.test(s) ? '"' + s.replace(/"/g, '""') + '"' : s;
      }).join(',');
    }).join('\r\n') + '\r\n';
  }
  function copy(s, done) {
    function old() {
      var t = make('textarea', 'vh');
      t.value = s;
      document.body.appendChild(t);
      t.select();
      var ok = document.execCommand('copy');
      t.remove();
      done(ok);
    }
    if (navigator.clipboard && isSecureContext) navigator.clipboard.writeText(s).then(function () { done(true); }, old);
    else old();
  }
  var tools = $('.tools');
  if (table && tools) {
    var more = make('details', 'cols'), list = make('div', 'list');
    more.appendChild(make('summary', '', 'Columns'));
    heads.forEach(function (th, i) {
      var box = make('input'), label = make('label', '', text(th));
      box.type = 'checkbox';
      box.checked = true;
      box.id = 'col-' + i;
      label.htmlFor = box.id;
      box.addEventListener('change', function () {
        all('tr', table).forEach(function (r) { r.cells[i].hidden = !box.checked; });
      });
      list.appendChild(box);
      list.appendChild(label);
    });
    more.appendChild(list);
    tools.appendChild(more);
    [['Copy as Markdown', markdown], ['Copy as CSV', csv]].forEach(function (x) {
      var b = make('button', '', x[0]);
      b.type = 'button';
      b.setAttribute('aria-live', 'polite');
      b.addEventListener('click', function () {
        copy(x[1](), function (ok) {
          b.textContent = ok ? 'Copied' : 'Copying is not allowed here';
          setTimeout(function () { b.textContent = x[0]; }, 1600);
        });
      });
      tools.appendChild(b);
    });
  }

  // All numbers of a cell of the matrix beside the pointer.
  var tip = make('div', 'tip'), names = all('.mxw .sw label').map(text), columns = all('.mx thead th').map(text);
  tip.hidden = true;
  tip.setAttribute('aria-hidden', 'true');
  document.body.appendChild(tip);
  function show(td) {
    var head = td.parentNode.cells[0], w = $('.w', td);
    tip.textContent = '';
    tip.appendChild(make('b', '', text(head) + ' context, ' + columns[td.cellIndex] + (columns[td.cellIndex] === '1' ? ' request' : ' requests')));
    if (w) tip.appendChild(make('span', 'full', text(w)));
    all('.v', td).forEach(function (v, i) { tip.appendChild(make('span', '', names[i])); tip.appendChild(make('span', 'n', text(v))); });
    tip.hidden = false;
    var r = td.getBoundingClientRect(), x = Math.min(r.left, innerWidth - tip.offsetWidth - 8), y = r.bottom + 6;
    if (y + tip.offsetHeight > innerHeight) y = r.top - tip.offsetHeight - 6;
    tip.style.left = Math.max(8, x) + scrollX + 'px';
    tip.style.top = y + scrollY + 'px';
  }
  function hide() { tip.hidden = true; }
  all('.mx td').forEach(function (td) {
    td.addEventListener('pointerenter', function (e) { if (e.pointerType === 'mouse') show(td); });
    td.addEventListener('pointerleave', hide);
    td.addEventListener('focusin', function () { if (td.querySelector(':focus-visible')) show(td); });
    td.addEventListener('focusout', hide);
  });
  addEventListener('keydown', function (e) { if (e.key === 'Escape') hide(); });
  all('.frame').forEach(function (f) { f.addEventListener('scroll', hide, { passive: true }); });

  // Sliders for the speed floor and the TTFT limit: users at least measured, nothing between.
  var cap = $('.cap'), sw = cap && $('.sw', cap);
  if (sw) {
    var radio = make('input'), label = make('label', '', 'Own limits');
    radio.type = 'radio';
    radio.name = 'c';
    radio.id = 'c-x';
    label.htmlFor = 'c-x';
    label.setAttribute('data-w', 'Own limits');
    sw.appendChild(radio);
    sw.appendChild(label);
    var box = make('div', 'sliders');
    var slider = function (name, steps, at, write) {
      var l = make('label', '', name), i = make('input'), o = make('output');
      i.type = 'range';
      i.min = 0;
      i.max = steps.length - 1;
      i.value = at;
      i.setAttribute('aria-label', name);
      l.appendChild(i);
      l.appendChild(o);
      box.appendChild(l);
      return function () { var v = steps[+i.value]; o.textContent = write(v); i.setAttribute('aria-valuetext', write(v)); return v; };
    };
    var floor = slider('Speed of each', [1, 2, 5, 8, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200], 6, function (v) { return v + ' tok/s'; });
    var limit = slider('TTFT', [50, 100, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 10000, 30000, 60000, 300000], 6, function (v) { return v < 1000 ? v + ' ms' : v / 1000 + ' s'; });
    sw.insertAdjacentElement('afterend', box);
    var rows = all('.fit tbody tr').map(function (tr) {
      var n = make('span', 'on-x'), why = make('span', 'on-x');
      $('.n', tr).appendChild(n);
      $('.why', tr).appendChild(why);
      return { n: n, why: why, dots: all('.dot', tr), columns: all('.fit .hdn span').map(text) };
    });
    var update = function () {
      var f = floor(), t = limit();
      rows.forEach(function (r) {
        var best = -1;
        r.dots.forEach(function (d, i) {
          var v = (d.getAttribute('data-v') || '').split(' ');
          var ok = v.length === 2 && +v[0] >= f && +v[1] <= t;
          d.classList.toggle('xy', ok);
          if (ok) best = i;
        });
        var next = r.dots[best + 1];
        r.n.textContent = best < 0 ? '0' : (next ? '' : '≥') + r.columns[best];
        r.why.textContent = next ? next.parentNode.title : 'nothing larger was planned';
      });
    };
    all('input', box).forEach(function (i) { i.addEventListener('input', function () { radio.checked = true; update(); }); });
    update();
  }
})();
