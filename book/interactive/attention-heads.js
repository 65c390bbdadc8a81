// Tokens left (queries) and right (keys), one line per pair, as strong as the weight.
Play.register("attention-heads", (root, data) => {
  const { el, svg, num, choice, numbers } = Play;
  const step = 30, width = 420, top = 18, left = 120, right = 300;
  const queries = data.queries || data.keys;
  const height = top + step * Math.max(queries.length, data.keys.length);
  const state = { head: 0, query: data.start || 0 };
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "play-svg", role: "img" });
  const y = (i) => top + step * i;

  function draw() {
    const weights = data.weights[state.head];
    const lines = [];
    weights.forEach((row, i) => row.forEach((w, j) => {
      const on = i === state.query;
      if (on || w > 0.05) lines.push(svg("line", { x1: left, y1: y(i), x2: right, y2: y(j), class: on ? "play-line on" : "play-line",
        "stroke-width": on ? 1 + 6 * w : 2, "stroke-opacity": on ? Math.max(0.15, w) : 0.25 * w }));
    }));
    const row = weights[state.query];
    picture.replaceChildren(...lines,
      ...queries.map((t, i) => svg("text", { x: left - 8, y: y(i) + 5, "text-anchor": "end", class: i === state.query ? "on" : "" }, t)),
      ...data.keys.map((t, j) => svg("text", { x: right + 8, y: y(j) + 5 }, t)),
      ...row.map((w, j) => svg("text", { x: width - 4, y: y(j) + 5, "text-anchor": "end", class: "play-weight" }, num(w, 2))));
    picture.setAttribute("aria-label", `Weights of “${queries[state.query]}”: ` + row.map((w, j) => `${data.keys[j]} ${num(w, 2)}`).join(", "));
  }
  const heads = data.weights.length > 1
    ? choice(root, { label: "Head", options: data.names || data.weights.map((_, h) => `${h + 1}`), oninput: (h) => { state.head = h; draw(); } }) : null;
  const query = choice(root, { label: "Query", options: queries, value: state.query, oninput: (i) => { state.query = i; draw(); } });
  root.append(el("div", { class: "play-view" }, picture));
  draw();
  return {
    set(next) { Object.assign(state, next); heads?.set(state.head); query.set(state.query); draw(); },
    read: () => numbers(picture.querySelectorAll(".play-weight")),
  };
});
