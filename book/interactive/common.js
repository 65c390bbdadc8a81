// What all figures to play with share: elements, controls with labels, number formats, tables.
// A figure registers itself by name; its data is the JSON that the executed page printed.
// It returns {set(state), read()}: the browser tests set a state and compare what is read with torch.
(() => {
  const kinds = {};
  const SVG = "http://www.w3.org/2000/svg";
  let serial = 0;

  function fill(node, attrs, children) {
    for (const [key, value] of Object.entries(attrs || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.filter((c) => c !== null && c !== undefined));
    return node;
  }
  const el = (tag, attrs, ...children) => fill(document.createElement(tag), attrs, children);
  const svg = (tag, attrs, ...children) => fill(document.createElementNS(SVG, tag), attrs, children);

  // A true minus sign; the tests turn it back.
  const num = (value, digits = 2) =>
    value === null ? "−∞" : !Number.isFinite(value) ? (value < 0 ? "−∞" : "∞") : value.toFixed(digits).replace("-", "−");

  function controls(root) {
    let box = root.querySelector(".play-controls");
    if (!box) root.append((box = el("div", { class: "play-controls" })));
    return box;
  }

  function slider(root, { label, min, max, step = 1, value, format = String, oninput }) {
    const id = `play-${++serial}`;
    const out = el("output", { for: id });
    const input = el("input", { type: "range", id, min, max, step });
    const show = () => {
      out.textContent = format(+input.value);
      input.setAttribute("aria-valuetext", out.textContent);
    };
    input.value = value;
    input.addEventListener("input", () => { show(); oninput(+input.value); });
    controls(root).append(el("div", { class: "play-control" }, el("label", { for: id }, label), input, out));
    show();
    return { set(v) { input.value = v; show(); }, get: () => +input.value };
  }

  function choice(root, { label, options, value = 0, oninput }) {
    const name = `play-${++serial}`;
    const inputs = options.map((text, i) => {
      const input = el("input", { type: "radio", name, id: `${name}-${i}`, value: i, onchange: () => oninput(i) });
      input.checked = i === value;
      return input;
    });
    const set = el("fieldset", { class: "play-choice" }, el("legend", {}, label));
    inputs.forEach((input, i) => set.append(input, el("label", { for: input.id }, options[i])));
    controls(root).append(set);
    return { set(i) { inputs[i].checked = true; }, get: () => inputs.findIndex((i) => i.checked) };
  }

  function toggle(root, { label, value = false, oninput }) {
    const id = `play-${++serial}`;
    const input = el("input", { type: "checkbox", id, onchange: () => oninput(input.checked) });
    input.checked = value;
    controls(root).append(el("div", { class: "play-control" }, input, el("label", { for: id }, label)));
    return { set(v) { input.checked = v; }, get: () => input.checked };
  }

  // Back and Next, and the arrow keys while one of them has the focus.
  function stepper(root, { label, names, value = 0, oninput }) {
    let at = value;
    const text = el("span", { class: "play-step", role: "status" });
    const go = (to) => { at = Math.max(0, Math.min(names.length - 1, to)); show(); oninput(at); };
    const back = el("button", { type: "button", onclick: () => go(at - 1) }, "Back");
    const next = el("button", { type: "button", onclick: () => go(at + 1) }, "Next");
    const show = () => {
      text.textContent = `${at + 1} of ${names.length}: ${names[at]}`;
      back.setAttribute("aria-disabled", at === 0);
      next.setAttribute("aria-disabled", at === names.length - 1);
    };
    const box = el("div", { class: "play-stepper", role: "group", "aria-label": label }, back, next, text);
    box.addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (move) { event.preventDefault(); go(at + move); }
    });
    controls(root).append(box);
    show();
    return { set(v) { at = v; show(); }, get: () => at };
  }

  // A real table: screen readers get row and column headings. heat(value, i, j) is 0..1 or null.
  function table({ rows, cols, values, corner = "", digits = 2, heat, mark, caption }) {
    const head = el("tr", {}, el("td", { class: "play-corner" }, corner), ...cols.map((c) => el("th", { scope: "col" }, c)));
    const body = values.map((row, i) => el("tr", { class: mark === i ? "play-mark" : null },
      el("th", { scope: "row" }, rows[i]),
      ...row.map((value, j) => {
        const weight = heat ? heat(value, i, j) : null;
        const text = typeof value === "string" ? value : num(value, digits);
        return el("td", { style: weight === null ? null : `--w:${weight.toFixed(3)}`, class: weight === null ? "" : "play-heat" }, text);
      })));
    return el("table", { class: "play-table" }, caption ? el("caption", {}, caption) : null,
      el("thead", {}, head), el("tbody", {}, ...body));
  }

  const softmax = (scores) => {
    const top = Math.max(...scores);
    const parts = scores.map((s) => Math.exp(s - top));
    const sum = parts.reduce((a, b) => a + b, 0);
    return parts.map((p) => p / sum);
  };

  // Numbers as a reader sees them, for the tests.
  const numbers = (nodes) => [...nodes].map((n) => {
    const text = n.textContent.trim().replace("−", "-");
    return text.includes("∞") ? (text.startsWith("-") ? "-inf" : "inf") : parseFloat(text);
  });

  function start() {
    for (const root of document.querySelectorAll(".play[data-figure]")) {
      const make = kinds[root.dataset.figure];
      if (!make || root.play) continue;
      const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
      root.querySelector(".play-fallback")?.remove();
      root.play = make(root, data);
      root.dataset.ready = "true";
    }
  }
  document.addEventListener("DOMContentLoaded", start);
  window.Play = { register: (name, make) => { kinds[name] = make; }, el, svg, num, slider, choice, toggle, stepper, table, softmax, numbers };
})();
