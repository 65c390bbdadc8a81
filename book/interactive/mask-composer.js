// Combine causal, padding and window masks. 1 = may attend. Rows that see no key are marked.
Play.register("mask-composer", (root, data) => {
  const { el, slider, choice, toggle, table, numbers } = Play;
  const { L, S } = data;
  const state = { ...data.start };
  const view = el("div", { class: "play-view", role: "region", "aria-label": "Combined mask", tabindex: "0" });
  const note = el("p", { class: "play-note", role: "status" });

  function keeps(i, j) {
    const place = i + S - L; // queries are aligned with the last keys
    return j < data.lengths[state.row] && (!state.causal || j <= place) && (!state.window || Math.abs(place - j) < state.window);
  }
  function draw() {
    const values = Array.from({ length: L }, (_, i) => Array.from({ length: S }, (_, j) => (keeps(i, j) ? 1 : 0)));
    const empty = values.flatMap((row, i) => (row.some(Boolean) ? [] : [i]));
    const pairs = values.flat().reduce((a, b) => a + b, 0);
    note.textContent = `${pairs} of ${L * S} pairs are kept. ` +
      (empty.length ? `Queries without any key: ${empty.join(", ")}.` : "Every query sees at least one key.");
    view.replaceChildren(table({ rows: values.map((_, i) => `q${i}${empty.includes(i) ? " (empty)" : ""}`), cols: values[0].map((_, j) => `k${j}`),
      values, digits: 0, heat: (v) => v }));
  }
  const causal = toggle(root, { label: "causal", value: state.causal, oninput: (v) => { state.causal = v; draw(); } });
  const row = choice(root, { label: "Real keys", options: data.lengths.map(String), value: state.row, oninput: (v) => { state.row = v; draw(); } });
  const window_ = slider(root, { label: "Window", min: 0, max: S, value: state.window, format: (v) => (v ? `${v}` : "off"), oninput: (v) => { state.window = v; draw(); } });
  root.append(note, view);
  draw();
  return {
    set(next) { Object.assign(state, next); causal.set(state.causal); row.set(state.row); window_.set(state.window); draw(); },
    read: () => numbers(view.querySelectorAll("tbody td")),
  };
});
