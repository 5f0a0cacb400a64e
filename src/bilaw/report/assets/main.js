// Opening the page: data, the choice of runs, the sections, and the plotting library while they are read.

function choosers() {
  if (runs.length < 2) return;
  const names = runs.map((run, i) => [String(i), run.name]);
  const pick = (id, label, choices, set) => el("label", {}, label, el("select", { id, onchange: event => set(event.target.value) }, choices.map(([value, name]) => el("option", { value }, name))));
  const first = pick("run-a", "run", names, value => choose({ a: Number(value), b: state.b === Number(value) ? state.a : state.b }));
  const second = pick("run-b", "against", [["", "none"], ...names], value => choose({ b: value === "" || Number(value) === state.a ? null : Number(value) }));
  byId("choice").append(first, second);
  whenChosen(() => {
    byId("run-a").value = String(state.a);
    byId("run-b").value = state.b === null ? "" : String(state.b);
  });
}

function where() {
  const links = [...byId("nav").querySelectorAll("a")];
  const spy = new IntersectionObserver(entries => {
    for (const entry of entries) if (entry.isIntersecting) links.forEach(link => link.setAttribute("aria-current", String(link.hash === `#${entry.target.id}`)));
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("main section, #overview").forEach(part => spy.observe(part));
}

const dark = matchMedia("(prefers-color-scheme: dark)");
setTheme(dark.matches ? "dark" : "light");
const turn = theme => { setTheme(theme); redraw(); };
dark.addEventListener("change", () => turn(dark.matches ? "dark" : "light"));
byId("theme").addEventListener("click", () => turn(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

try {
  await Promise.all([unpack(), library()]);
  byId("loading").remove();
  choosers();
  overview();
  comparison();
  robustness();
  errors();
  weighing();
  likelihoods();
  explore();
  training();
  audit();
  where();
  choose({});
  byId("main").append(el("p", { class: "note" }, `Made by bilaw ${facts.made.bilaw}. Everything is in this file; nothing is loaded from a network.`));
  performance.mark("shown");
  await openSheets();
  document.documentElement.dataset.ready = "yes";
} catch (error) {
  byId("main").prepend(el("p", { class: "empty" }, `This report cannot be shown: ${error}. It needs a browser of 2023 or later.`));
  throw error;
}
