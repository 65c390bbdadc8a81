// A query at position m and a key at position n, both turned. Move both: the angle between them stays.
Play.register("rotary-arrows", (root, data) => {
  const { el, svg, num, slider, numbers } = Play;
  const state = { m: data.start[0], n: data.start[1] };
  const last = data.q.length - 1;
  const reach = Math.max(...[...data.q, ...data.k].map(([x, y]) => Math.hypot(x, y)));
  const picture = svg("svg", { viewBox: "-110 -110 220 220", class: "play-svg play-square", role: "img" });
  const list = el("dl", { class: "play-facts", "aria-live": "polite" });
  const fact = (name, value, mark) => el("div", {}, el("dt", {}, name), el("dd", { class: mark }, value));

  function arrow([x, y], name, kind) {
    const s = 100 / reach;
    return [svg("line", { x1: 0, y1: 0, x2: s * x, y2: -s * y, class: `play-arrow ${kind}` }),
      svg("circle", { cx: s * x, cy: -s * y, r: 4.5, class: `play-dot ${kind}` }),
      svg("text", { x: 0.8 * s * x + 8, y: -0.8 * s * y - 8 }, name)];
  }
  function draw() {
    const q = data.q[state.m], k = data.k[state.n];
    const raw = Math.atan2(q[1], q[0]) - Math.atan2(k[1], k[0]);
    const angle = Math.abs(Math.atan2(Math.sin(raw), Math.cos(raw))) * 180 / Math.PI;
    picture.replaceChildren(svg("circle", { r: 100, class: "play-axis" }), ...arrow(q, `q at ${state.m}`, "c0"), ...arrow(k, `k at ${state.n}`, "c1"));
    picture.setAttribute("aria-label", `Query at ${state.m} and key at ${state.n}, ${num(angle, 1)} degrees apart`);
    list.replaceChildren(fact("distance n − m", num(state.n - state.m, 0)), fact("angle between them", `${num(angle, 1)}°`),
      fact("dot product", num(data.dots[state.m][state.n], 3), "play-dotvalue"));
  }
  const m = slider(root, { label: "Query position m", min: 0, max: last, value: state.m, oninput: (v) => { state.m = v; draw(); } });
  const n = slider(root, { label: "Key position n", min: 0, max: last, value: state.n, oninput: (v) => { state.n = v; draw(); } });
  const move = (by) => {
    if (Math.min(state.m, state.n) + by < 0 || Math.max(state.m, state.n) + by > last) return;
    state.m += by; state.n += by; m.set(state.m); n.set(state.n); draw();
  };
  root.querySelector(".play-controls").append(el("div", { class: "play-stepper", role: "group", "aria-label": "Move both" },
    el("button", { type: "button", onclick: () => move(-1) }, "Both − 1"), el("button", { type: "button", onclick: () => move(1) }, "Both + 1")));
  root.append(picture, list);
  draw();
  return { set(next) { Object.assign(state, next); m.set(state.m); n.set(state.n); draw(); }, read: () => numbers(list.querySelectorAll(".play-dotvalue")) };
});
