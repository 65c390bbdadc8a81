// The cells of one (L, D) matrix, before and after the split into heads. Cells move, none is computed.
Play.register("head-split", (root, data) => {
  const { el, svg, choice, toggle, numbers } = Play;
  const { length: L, d_model: D } = data;
  const size = 34, gap = 22;
  const state = { heads: data.start, split: true };
  const picture = svg("svg", { class: "play-svg", role: "img" });
  const note = el("p", { class: "play-note", role: "status" });
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  // One group per cell, kept for the life of the figure so that it can slide to its new place.
  const cells = Array.from({ length: L * D }, (_, i) => {
    const text = svg("text", { x: size / 2 - 2, y: size / 2 + 4, "text-anchor": "middle" }, String(i));
    const box = svg("rect", { width: size - 4, height: size - 4, rx: 3 });
    return { box, text, group: svg("g", { class: "play-cell", style: still ? "transition:none" : null }, box, text) };
  });
  cells.forEach((cell) => picture.append(cell.group));

  function draw() {
    const H = data.heads[state.heads], d = D / H;
    const width = D * size + 4, height = state.split ? H * L * size + (H - 1) * gap + 24 : L * size + 24;
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.style.maxWidth = `${width}px`;
    cells.forEach((cell, i) => {
      const row = Math.floor(i / D), col = i % D, head = Math.floor(col / d);
      const x = state.split ? (col % d) * size : col * size;
      const y = state.split ? head * (L * size + gap) + row * size : row * size;
      cell.group.style.transform = `translate(${x}px, ${y + 2}px)`;
      cell.box.setAttribute("class", `play-head c${head % 6}`);
    });
    picture.setAttribute("aria-label", state.split ? `${H} blocks of ${L} rows and ${d} columns` : `One block of ${L} rows and ${D} columns`);
    note.textContent = state.split ? `(${L}, ${D}) → (${L}, ${H}, ${d}) → (${H}, ${L}, ${d}): ${H} heads, each with every position and ${d} features.`
      : `(${L}, ${D}): ${L} positions, ${D} features; the shades are the ${H} heads to come.`;
  }
  const heads = choice(root, { label: "Heads", options: data.heads.map(String), value: state.heads, oninput: (i) => { state.heads = i; draw(); } });
  const split = toggle(root, { label: "split", value: true, oninput: (v) => { state.split = v; draw(); } });
  root.append(note, el("div", { class: "play-view" }, picture));
  draw();
  const place = (cell) => cell.group.style.transform.match(/[\d.]+/g).map(Number);
  return {
    set(next) { Object.assign(state, next); heads.set(state.heads); split.set(state.split); draw(); },
    // In reading order: from the top, then from the left.
    read: () => numbers([...cells].sort((a, b) => place(a)[1] - place(b)[1] || place(a)[0] - place(b)[0]).map((c) => c.text)),
  };
});
