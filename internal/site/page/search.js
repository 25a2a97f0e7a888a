// Names as one types. Without this script the form searches as it is.
(() => {
  const input = document.querySelector('input[data-suggest]');
  if (!input) return;
  const form = input.form, list = document.createElement('ul');
  list.id = 'sugg';
  list.className = 'sugg';
  list.hidden = true;
  list.setAttribute('role', 'listbox');
  list.setAttribute('aria-label', 'Names');
  form.append(list);
  const set = (name, value) => value === null ? input.removeAttribute(name) : input.setAttribute(name, value);
  set('role', 'combobox');
  set('aria-autocomplete', 'list');
  set('aria-expanded', 'false');
  set('aria-controls', list.id);
  let asked = '', waiting = null, at = -1;
  const close = () => {
    if (waiting) waiting.abort();
    asked = '';
    list.hidden = true;
    at = -1;
    set('aria-expanded', 'false');
    set('aria-activedescendant', null);
  };
  const mark = i => {
    const items = list.children;
    if (items[at]) items[at].removeAttribute('aria-selected');
    at = i < -1 ? items.length - 1 : i >= items.length ? -1 : i;
    if (at >= 0) items[at].setAttribute('aria-selected', 'true');
    set('aria-activedescendant', at >= 0 ? items[at].id : null);
  };
  const show = (found, text) => {
    list.dataset.of = text;
    list.replaceChildren(...found.map((s, i) => {
      const item = document.createElement('li'), name = document.createElement('span'), kind = document.createElement('small');
      item.id = 'sugg-' + i;
      item.setAttribute('role', 'option');
      name.textContent = s.name;
      kind.textContent = s.runs ? s.kind + ', ' + s.runs + (s.runs === 1 ? ' run' : ' runs') : s.kind;
      item.append(name, kind);
      item.addEventListener('pointerdown', e => { e.preventDefault(); location.assign(s.url); });
      item.dataset.url = s.url;
      return item;
    }));
    at = -1;
    set('aria-activedescendant', null);
    list.hidden = found.length === 0;
    set('aria-expanded', String(found.length > 0));
  };
  input.addEventListener('input', async () => {
    const text = input.value.trim();
    if (!text) return close();
    if (waiting) waiting.abort();
    asked = text;
    waiting = new AbortController();
    try {
      const answer = await fetch(input.dataset.suggest + '?q=' + encodeURIComponent(text), {signal: waiting.signal});
      const found = answer.ok ? await answer.json() : [];
      if (asked === text) show(found, text);
    } catch (e) {
      if (e.name !== 'AbortError') close();
    }
  });
  input.addEventListener('keydown', e => {
    if (list.hidden) return;
    if (e.key === 'ArrowDown') { e.preventDefault(); mark(at + 1); }
    else if (e.key === 'ArrowUp') { e.preventDefault(); mark(at - 1); }
    else if (e.key === 'Escape') { e.preventDefault(); close(); }
  });
  form.addEventListener('submit', e => {
    if (list.hidden || at < 0) return;
    e.preventDefault();
    location.assign(list.children[at].dataset.url);
  });
  input.addEventListener('blur', close);
})();
