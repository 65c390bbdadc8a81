// Reorder the input and watch the output rows: they move along, or they change.
Play.register("permutation", (root, data) => {
  const { el, num, choice, table, numbers } = Play;
  const view = el("div", { class: "play-view", role: "region", "aria-label": "Output rows", tabindex: "0" });
  const note = el("p", { class: "play-note", role: "status" });
  const state = { order: Math.min(1, data.names.length - 1), layer: 0 };
  const span = Math.max(...data.layers.flatMap((l) => l.outputs).flat(2).map(Math.abs)) || 1;

  function draw() {
    const layer = data.layers[state.layer], order = data.orders[state.order], values = layer.outputs[state.order];
    const gap = layer.gaps[state.order];
    note.textContent = `Largest change of a token’s own output row: ${gap < 1e-4 ? "0 up to rounding" : num(gap, 3)}. ` +
      (gap < 1e-4 ? "The rows only moved with their tokens." : "The rows are not the same rows any more.");
    view.replaceChildren(table({ rows: order.map((i) => data.tokens[i]), cols: values[0].map((_, c) => `y${c + 1}`), values,
      heat: (v) => Math.abs(v) / span, corner: "input order ↓" }));
  }
  const order = choice(root, { label: "Order", options: data.names, value: state.order, oninput: (i) => { state.order = i; draw(); } });
  const layer = data.layers.length > 1 ? choice(root, { label: "Layer", options: data.layers.map((l) => l.name), oninput: (i) => { state.layer = i; draw(); } }) : null;
  root.append(note, view);
  draw();
  return {
    set(next) { Object.assign(state, next); order.set(state.order); layer?.set(state.layer); draw(); },
    read: () => numbers(view.querySelectorAll("tbody td")),
  };
});
