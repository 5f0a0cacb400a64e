// What one run's samples weigh, and what they are taken for: figures of the first run that is chosen above.

function errors() {
  const part = section("errors", "Mistakes", "What an attacked sample is taken for: how near that class was before, and which classes are confused.");
  const held = grid(part);
  addPanel(held, { title: "Rank of the adversarial class", note: "Where the class that an attacked sample is taken for stood among its clean logits. Samples that the attack did not move are left out.", draw: drawRanks, height: 440 });
  const which = el("select", { "aria-label": "Clean or under attack", onchange: () => redraw([panel]) }, el("option", { value: "adversarial" }, "under PGD-20"), el("option", { value: "clean" }, "as they are"));
  const panel = addPanel(held, { title: "Confusion matrix", draw: () => drawConfusion(which.value), height: 430, tools: [which], id: "confusion" });
  whenChosen(() => redraw([panel]));
}

function drawRanks() {
  const data = facts.figures.ranks;
  if (typeof data.missing === "string") return data; // a run may be called "missing"
  const names = Object.keys(data), most = Math.min(20, Math.max(...names.map(name => data[name].rank.length)));
  const traces = names.map(name => {
    const held = data[name], trained = held.eps === null ? "plain" : `eps ${number(held.eps, 4)}`;
    return { type: "bar", name: shown(`${name} (${trained})`), x: held.rank.slice(0, most), y: held.count.slice(0, most), marker: bars(place(name)), hovertemplate: "rank %{x}: %{y} samples<extra></extra>" };
  });
  const rows = names.flatMap(name => data[name].rank.map((rank, i) => [name, rank, count(data[name].count[i])]));
  return { traces, layout: { barmode: "group", showlegend: true, xaxis: axis("rank among the clean logits (1: the runner-up)", { dtick: 1 }), yaxis: axis("samples") }, table: { head: ["run", "rank", "samples"], rows } };
}

function drawConfusion(which) {
  const run = runA(), data = run.figures.confusion;
  if (typeof data.missing === "string") return data; // a run may be called "missing"
  const counts = data[which], order = [...data.which.keys()];
  const name = c => data.classes[c], at = (i, j) => counts[i][j];
  const z = order.map((_, i) => order.map((_, j) => (i === j ? null : at(i, j))));
  const top = Math.max(1, ...z.flat().filter(isNumber));
  const dim = value => (isDark() ? value > top * 0.55 : value < top * 0.55);
  const annotations = order.length > 12 ? [] : order.flatMap((_, i) => order.map((_, j) => ({ x: j, y: i, text: count(at(i, j)), showarrow: false, font: { size: 11, color: i === j ? css("--ink") : dim(at(i, j)) ? "#1b1f24" : "#ffffff" } })));
  const ticks = { tickvals: order.map((_, i) => i), ticktext: order.map(c => shown(short(name(c), 12))), showgrid: false, zeroline: false };
  const trace = { type: "heatmap", z, hoverongaps: false, ...shades(), zmin: 0, zmax: top, xgap: 1, ygap: 1, text: order.map(i => order.map(j => `${shown(name(i))} taken for ${shown(name(j))}`)), hovertemplate: "%{text}: %{z}<extra></extra>", colorbar: { thickness: 10, outlinewidth: 0, title: { text: "mistakes", side: "right" } } };
  const clear = "rgba(0,0,0,0)"; // the diagonal, which can be pointed at all the same
  const diagonal = { type: "heatmap", z: order.map((_, i) => order.map((_, j) => (i === j ? 1 : null))), colorscale: [[0, clear], [1, clear]], showscale: false, hoverongaps: false, text: order.map(i => order.map(() => `${shown(name(i))} stays itself: ${count(counts[i][i])}`)), hovertemplate: "%{text}<extra></extra>" };
  const open = (i, j) => showSamples({ label: data.which[i], [which === "clean" ? "predicted" : "adversarial"]: data.which[j] });
  const clicked = point => open(point.pointIndex[0], point.pointIndex[1]);
  const cell = (i, j) => el("button", { type: "button", "aria-label": `${name(order[i])} taken for ${name(order[j])}: ${at(i, j)} samples`, onclick: () => open(i, j) }, count(at(i, j)));
  const rows = order.map((c, i) => [name(c), ...order.map((_, j) => (at(i, j) ? cell(i, j) : "0"))]);
  const many = order.length < data.of ? ` The ${order.length} of ${data.of} classes that are mistaken most are shown.` : "";
  const layout = { annotations, showlegend: false, margin: { l: 90, r: 10, t: 10, b: 80 }, xaxis: axis(which === "clean" ? "taken for" : "taken for, under PGD-20", { ...ticks, tickangle: -45, range: [-0.5, order.length - 0.5] }), yaxis: axis("class", { ...ticks, range: [order.length - 0.5, -0.5] }) };
  return { traces: [trace, diagonal], layout, clicked, note: `${run.name}. Click a cell to see its samples; the table below has the same as buttons. The diagonal, what stays itself, is left uncoloured.${many}`, table: { head: ["class ＼ taken for", ...order.map(name)], rows, matrix: true } };
}

function weighing() {
  const part = section("weights", "Weights", "What the method did about fragile samples. A weight of 1 means as much as all others. Figures are of the first run chosen above.");
  const held = grid(part), none = el("p", { class: "empty", id: "weightless" });
  part.append(none);
  const half = el("select", { "aria-label": "Which samples", onchange: () => redraw([made[0]]) }, el("option", { value: "held-out" }, "held-out samples"), el("option", { value: "training" }, "training samples, last epoch recorded"));
  const label = el("select", { "aria-label": "Class of the sample", onchange: () => redraw([made[2]]) });
  const heuristic = el("select", { "aria-label": "Heuristic", onchange: () => redraw([made[3]]) }, [["mail", "MAIL"], ["gairat", "GAIRAT"], ["wmmr", "WMMR"]].map(([value, name]) => el("option", { value }, name)));
  const made = [
    addPanel(held, { title: "Weights of each class", draw: () => drawDistribution(half.value), height: 340, tools: [half] }),
    addPanel(held, { title: "Weights over the epochs", draw: drawProgress, height: 340 }),
    addPanel(held, { title: "The learned weight function", draw: () => drawOmega(Number(label.value) || 0), height: 330, tools: [el("span", { class: "note" }, "class"), label] }),
    addPanel(held, { title: "Beside the heuristics", draw: () => drawSchemes(heuristic.value), height: 330, tools: [heuristic] }),
    addPanel(held, { title: "Mean weight of each class, and what heuristics would give", draw: drawMeans, wide: true, height: 300 }),
  ];
  whenChosen(() => {
    const found = runA().figures.omega;
    label.replaceChildren(...(found.labels || []).map(c => el("option", { value: c }, found.labels.length > 1 ? found.classes[c] : "every class")));
    const why = runA().figures.schemes.missing;
    const bare = why && ["weights", "progress", "omega"].every(name => runA().figures[name].missing);
    none.hidden = !bare;
    none.textContent = bare ? `${runA().name}: ${why}` : "";
    held.hidden = Boolean(bare);
    if (!bare) redraw(made);
  });
}

function drawDistribution(half) {
  const data = runA().figures.weights;
  if (typeof data.missing === "string") return data; // a run may be called "missing"
  const part = data[half] ? half : data["held-out"] ? "held-out" : "training";
  const rows = data[part].slice(0, CLASSES), colour = look(state.a).line.color, pick = i => rows.map(row => row[i]);
  const trace = { type: "box", orientation: "h", y: data.classes.slice(0, rows.length).map(name => shown(short(name, 18))), lowerfence: pick(0), q1: pick(1), median: pick(2), q3: pick(3), upperfence: pick(4), line: { color: colour, width: 1.5 }, fillcolor: fade(colour, 0.25), showlegend: false, hoverinfo: "x" };
  const many = rows.length < data.classes.length ? ` The first ${CLASSES} of ${data.classes.length} classes are shown.` : "";
  const told = part === "training" ? `training samples in epoch ${data.epoch + 1}` : "held-out samples under the kept weights";
  const fallback = part !== half ? ` There is nothing of ${half} samples.` : "";
  return { traces: [trace], note: `${runA().name}, ${told}. Box: the middle half; whiskers: 5 to 95 %.${many}${fallback}`, height: Math.max(240, 60 + 26 * rows.length), layout: { xaxis: axis("weight (1: as much as all others)", { zeroline: false }), yaxis: axis("", { autorange: "reversed", type: "category" }), shapes: [{ type: "line", x0: 1, x1: 1, y0: 0, y1: 1, yref: "paper", line: { dash: "dot", width: 1, color: css("--soft") } }] }, table: { head: ["class", "5 %", "25 %", "median", "75 %", "95 %"], rows: data[part].map((row, c) => [data.classes[c], ...row.map(value => number(value))]) } };
}

function drawProgress() {
  const data = runA().figures.progress;
  if (typeof data.missing === "string") return data; // a run may be called "missing"
  const x = data.epoch.map(e => e + 1), two = data.panels.length > 1, traces = [], layout = { showlegend: false, margin: { l: 50, r: 10, t: 30, b: 44 }, annotations: [], shapes: [] };
  data.panels.forEach((panel, p) => {
    const at = p ? { xaxis: "x2", yaxis: "y2" } : {}, colour = css(p ? "--run-5" : "--run-0"), samples = panel.weight[0].length;
    for (let i = 0; i < samples; i++) traces.push({ x, y: panel.weight.map(row => row[i]), ...at, mode: "lines", type: "scatter", line: { width: 1, color: fade(colour, 0.3) }, hoverinfo: "skip" });
    traces.push({ x, y: panel.bands.map(row => row[1]), ...at, mode: "lines", type: "scatter", line: { width: 2.5, color: css("--ink") }, hovertemplate: `median, ${panel.name}: %{y:.3g}<extra></extra>` });
    layout.shapes.push(...data.steps.map(step => ({ type: "line", xref: p ? "x2" : "x", yref: "paper", x0: step + 1, x1: step + 1, y0: 0, y1: 1, line: { dash: "dot", width: 1, color: css("--soft") } })));
    layout.annotations.push({ text: `${panel.name} (${count(panel.count)})`, x: p ? 0.54 : 0, xref: "paper", xanchor: "left", y: 1.02, yref: "paper", yanchor: "bottom", showarrow: false, font: { color: css("--ink"), size: 12 } });
  });
  Object.assign(layout, { xaxis: axis("epoch", { domain: [0, two ? 0.46 : 1] }), yaxis: axis("weight") }, two ? { xaxis2: axis("epoch", { domain: [0.54, 1], anchor: "y2" }), yaxis2: axis("", { anchor: "x2", matches: "y", showticklabels: false }) } : {});
  const rows = data.epoch.map((epoch, i) => [epoch + 1, ...data.panels.flatMap(panel => panel.bands[i].map(value => number(value)))]);
  const head = ["epoch", ...data.panels.flatMap(panel => ["10 %", "50 %", "90 %"].map(share => `${panel.name}: ${share}`))];
  return { traces, layout, note: `${runA().name}: the same training samples in every epoch, a thin line each. Thick: the median of all; dotted: learning-rate steps.`, table: { head, rows } };
}

const READS = { "multiclass-margin": "margin to the rival: p(class) − p(rival)", margin: "margin", "adversarial-loss": "adversarial loss", "loss-difference": "adversarial less clean loss" };
function drawOmega(y) {
  const data = runA().figures.omega;
  if (typeof data.missing === "string") return data; // a run may be called "missing"
  const many = data.labels.length > 1, label = many ? y : 0;
  const rivals = many ? [...data.labels.filter(j => j !== label), -1] : [-1];
  const traces = data.raw[label].map((curve, i) => {
    const rival = rivals[i], name = !many ? "weight" : rival < 0 ? "all others at once" : shown(data.classes[rival]);
    return { x: rival < 0 && data["x of all"] ? data["x of all"] : data.x, y: curve, type: "scatter", mode: "lines", name, line: rival < 0 ? { color: css("--ink"), width: 3 } : { ...look(rival).line, width: 1.5 }, hovertemplate: `${name}: %{y:.3g}<extra></extra>` };
  });
  const reversed = ["multiclass-margin", "margin"].includes(data.features);
  const told = many ? `From sure and right (left) to sure and wrong (right), for class ${data.classes[label]}: a line for each rival. ` : "";
  const first = data.labels.length < data.classes.length && many ? `The first ${data.labels.length} of ${data.classes.length} classes. ` : "";
  return { traces, layout: { showlegend: many, legend: { orientation: "v", font: { size: 11, color: css("--ink") } }, xaxis: axis(READS[data.features], { autorange: reversed ? "reversed" : true }), yaxis: axis("raw weight") }, note: `${runA().name}. ${told}${first}${data.features.includes("margin") ? `It reads margins at the ${data.margin_from} image.` : `It reads the ${READS[data.features]}.`}`, table: { head: traces.flatMap(trace => many ? [`margin to ${trace.name}`, "weight"] : [READS[data.features], "weight"]), rows: data.x.map((_, i) => traces.flatMap(trace => [number(trace.x[i]), number(trace.y[i])])) } };
}

function drawSchemes(name) {
  const run = runA(), data = run.figures.schemes;
  if (typeof data.missing === "string") return data; // a run may be called "missing"
  const cloud = run.columns.cloud, colour = look(state.a).line.color, rho = data.correlation[name];
  const trace = { type: "scatter", mode: "markers", x: Array.from(cloud, row => run.columns.weight[row]), y: Array.from(run.columns[name]), marker: { size: 4, color: fade(colour, 0.4) }, hoverinfo: "none", showlegend: false };
  const told = isNumber(rho) ? `Spearman's rank correlation is ${rho.toFixed(2)}` : "There is no rank correlation, for one of the two never varies";
  const rows = Object.entries(data.correlation).map(([key, value]) => [key.toUpperCase(), isNumber(value) ? value.toFixed(3) : "–"]);
  return { traces: [trace], layout: { xaxis: axis(shown(`weight of ${run.method}`)), yaxis: axis(`weight of ${name.toUpperCase()}`) }, clicked: point => showSamples({}, cloud[point.pointIndex]), hovered: (point, event) => showHover(run, cloud[point.pointIndex], event), note: `${run.name}, on the same model. ${told}, over all ${count(run.columns.known.reduce((sum, one) => sum + one, 0))} samples; ${count(cloud.length)} are shown.`, table: { head: ["heuristic", "rank correlation"], rows } };
}

function drawMeans() {
  const run = runA(), data = run.figures.schemes;
  if (typeof data.missing === "string") return data; // a run may be called "missing"
  const words = [run.method, "MAIL", "GAIRAT", "WMMR"], k = Math.min(data.classes.length, CLASSES);
  const traces = words.map((name, i) => ({ type: "scatter", mode: "markers", name: shown(name), x: data.classes.slice(0, k).map((_, c) => c + (i - 1.5) * 0.12), y: data["class means"][i].slice(0, k), marker: { ...look(i).marker, size: i ? 7 : 10 }, text: data.classes.slice(0, k).map(shown), hovertemplate: `%{text}, ${shown(name)}: %{y:.3g}<extra></extra>` }));
  const layout = { showlegend: true, xaxis: axis("", { tickvals: data.classes.slice(0, k).map((_, c) => c), ticktext: data.classes.slice(0, k).map(name => shown(short(name, 14))), zeroline: false }), yaxis: axis("mean weight") };
  return { traces, layout, note: `${run.name}: which classes get most of the weight.`, table: { head: ["class", ...words], rows: data.classes.map((name, c) => [name, ...words.map((_, i) => number(data["class means"][i][c]))]) } };
}
