// Where samples lie in the space of likelihoods: principal components of any chosen classes, in 2 or 3 dimensions.

// The eigenvectors of a symmetric matrix by Jacobi's rotations, largest eigenvalue first.
function eigen(given) {
  const k = given.length, a = given.map(row => Float64Array.from(row));
  const v = a.map((_, i) => Float64Array.from({ length: k }, (_, j) => (i === j ? 1 : 0)));
  for (let sweep = 0; sweep < 60; sweep++) {
    let off = 0, all = 0;
    for (let i = 0; i < k; i++) for (let j = 0; j < k; j++) (i === j ? (all += a[i][i] ** 2) : (off += a[i][j] ** 2));
    if (off <= 1e-26 * (all + off) || off === 0) break;
    for (let p = 0; p < k; p++) for (let q = p + 1; q < k; q++) {
      if (a[p][q] === 0) continue;
      const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]), t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1));
      const c = 1 / Math.hypot(t, 1), s = t * c;
      for (let i = 0; i < k; i++) [a[i][p], a[i][q]] = [c * a[i][p] - s * a[i][q], s * a[i][p] + c * a[i][q]];
      for (let i = 0; i < k; i++) [a[p][i], a[q][i]] = [c * a[p][i] - s * a[q][i], s * a[p][i] + c * a[q][i]];
      for (let i = 0; i < k; i++) [v[i][p], v[i][q]] = [c * v[i][p] - s * v[i][q], s * v[i][p] + c * v[i][q]];
    }
  }
  const order = [...a.keys()].sort((i, j) => a[j][j] - a[i][i]);
  return { values: order.map(i => Math.max(a[i][i], 0)), vectors: order.map(i => v.map(row => row[i])) };
}

// As analysis/measures.py: an axis points where its largest entry is positive.
function principal(points, dims) {
  const k = points[0].length, mean = new Float64Array(k);
  for (const point of points) for (let j = 0; j < k; j++) mean[j] += point[j] / points.length;
  const centred = points.map(point => Float64Array.from(point, (value, j) => value - mean[j]));
  const scatter = Array.from({ length: k }, () => new Float64Array(k));
  for (const point of centred) for (let i = 0; i < k; i++) for (let j = 0; j < k; j++) scatter[i][j] += point[i] * point[j];
  const { values, vectors } = eigen(scatter), total = values.reduce((sum, value) => sum + value, 0);
  const axes = vectors.slice(0, dims).map(vector => {
    const largest = vector.reduce((best, value) => (Math.abs(value) > Math.abs(best) ? value : best), 0);
    return vector.map(value => (largest < 0 ? -value : value));
  });
  const at = centred.map(point => axes.map(one => one.reduce((sum, value, j) => sum + value * point[j], 0)));
  return { at, share: axes.map((_, i) => (total > 0 ? values[i] / total : 0)) };
}

function webgl() {
  try {
    return Boolean(document.createElement("canvas").getContext("webgl"));
  } catch {
    return false;
  }
}

function likelihoods() {
  const part = section("cloud", "Likelihoods", "Principal components of what the classifier predicts. Samples between the corners, near a decision boundary, are the ones that weights are about.");
  const dims = el("select", { "aria-label": "Dimensions", id: "dims", onchange: () => redraw([panel]) }, el("option", { value: "2" }, "2 dimensions"), el("option", { value: "3" }, "3 dimensions"));
  const chips = el("div", { class: "chips", id: "chips", role: "group", "aria-label": "Classes" });
  const chosen = () => [...chips.querySelectorAll("input:checked")].map(input => Number(input.value));
  const panel = addPanel(grid(part), { title: "Principal components of the likelihoods", wide: true, height: 520, tools: [dims, chips], draw: () => drawCloud(Number(dims.value), chosen()), id: "likelihoods" });
  let pool = null;
  whenChosen(() => {
    const run = runA();
    if (run.pool && run.pool !== pool) {
      pool = run.pool;
      const many = pool.classes.length > 30;
      chips.replaceChildren(...(many ? [] : pool.classes.map((name, c) => el("label", {}, el("input", { type: "checkbox", value: c, checked: true, onchange: () => redraw([panel]) }), name))));
    }
    redraw([panel]);
  });
}

function drawCloud(dims, chosen) {
  const run = runA();
  if (!run.pool) return { missing: run.notes.join(" ") || "This run was not probed." };
  if (dims === 3 && !webgl()) return { missing: "Three dimensions need WebGL, which this browser does not have. Two dimensions do without.", keep: true };
  const { cloud, likelihoods: likely, weight } = run.columns, k = run.pool.classes.length;
  const places = [...cloud.keys()].filter(i => !chosen.length || chosen.includes(run.pool.y[cloud[i]]));
  if (places.length < 2) return { missing: "There are fewer than two samples of these classes.", keep: true };
  const found = likely ? principal(places.map(i => Array.from(likely.subarray(i * k, (i + 1) * k), value => value / 65535)), dims) : { at: places.map(i => Array.from(run.columns.at.subarray(3 * i, 3 * i + dims))), share: [] };
  const shade = places.map(i => (weight ? weight[cloud[i]] : run.columns["adversarial margin"][cloud[i]]));
  const marker = { size: dims === 3 ? 3 : 6, color: shade, ...shades(true), opacity: 0.85, symbol: dims === 3 ? "circle" : places.map(i => SYMBOLS[run.pool.y[cloud[i]] % 6]), colorbar: { thickness: 10, outlinewidth: 0, title: { text: weight ? "weight" : "adversarial margin", side: "right" } } };
  const title = i => `axis ${i + 1}${found.share.length ? `: ${percent(found.share[i], 0)} of the variance` : ""}`;
  const trace = { type: dims === 3 ? "scatter3d" : "scatter", mode: "markers", x: found.at.map(p => p[0]), y: found.at.map(p => p[1]), ...(dims === 3 ? { z: found.at.map(p => p[2]) } : {}), marker, hoverinfo: "none", showlegend: false };
  const plain = i => ({ title: { text: title(i) }, gridcolor: css("--line"), color: css("--soft"), backgroundcolor: css("--card") });
  const layout = dims === 3 ? { scene: { xaxis: plain(0), yaxis: plain(1), zaxis: plain(2) }, margin: { l: 0, r: 0, t: 0, b: 0 }, dragmode: "orbit" } : { xaxis: axis(title(0), { constrain: "domain" }), yaxis: axis(title(1), { scaleanchor: "x", constrain: "domain" }) };
  const row = point => cloud[places[point.pointNumber ?? point.pointIndex]];
  const symbols = dims === 2 && chosen.length <= 6 ? " Marks differ by class." : "";
  return { traces: [trace], layout, clicked: point => showSamples({}, row(point)), hovered: (point, event) => showHover(run, row(point), event || { clientX: innerWidth / 2, clientY: innerHeight / 2 }), note: `${run.name}, ${count(places.length)} samples, shaded by ${weight ? "weight" : "adversarial margin (all weigh the same)"}. Hover to see a sample, click to find it among all.${symbols}`, table: { head: ["sample", "class", ...found.at[0].map((_, i) => title(i)), weight ? "weight" : "adversarial margin"], rows: places.slice(0, 200).map((i, n) => [run.pool.place[cloud[i]], className(run, run.pool.y[cloud[i]]), ...found.at[n].map(value => number(value)), number(shade[n])]) } };
}
