// A matrix of weights linked to its tokens: choose a row and the tokens take its shades.
Play.register("heat-map", (root, data) => {
  const { el, num, choice, table, numbers } = Play;
  const line = el("p", { class: "play-tokens", role: "status" });
  const view = el("div", { class: "play-view", role: "region", "aria-label": "All weights", tabindex: "0" });
  const top = Math.max(...data.values.flat());
  let at = data.start || 0;

  function draw() {
    line.replaceChildren(...data.cols.map((token, j) => el("span", { class: "play-token play-heat", style: `--w:${(data.values[at][j] / top).toFixed(3)}` },
      token, el("small", {}, num(data.values[at][j], 2)))));
    view.replaceChildren(table({ ...data, heat: (v) => v / top, mark: at, corner: "" }));
  }
  const rows = choice(root, { label: data.label || "Query", options: data.rows, value: at, oninput: (i) => { at = i; draw(); } });
  root.append(line, view);
  draw();
  return {
    set({ row }) { at = row; rows.set(row); draw(); },
    read: () => numbers(line.querySelectorAll("small")),
  };
});
