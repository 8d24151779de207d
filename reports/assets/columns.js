// Which columns are shown: a few at first, others by facets or one by one; on a phone one at a time.

const FACETS = {
  lane: { of: (column) => column.lane, name: (value) => value },
  device: { of: (column) => column.kind, name: (value) => value },
  stack: { of: (column) => column.stack, name: (value) => value },
  integration: { of: (column) => column.integration, name: (value) => (COLUMNS.find((column) => column.integration === value) || { name: value }).name },
  mpi: { of: (column) => column.mpi || "none", name: (value) => value },
};
const FIRST = 5;
const narrow = window.matchMedia("(max-width: 40rem)");

const chosen = { facets: {}, named: null, one: 0 };
const chooser = document.querySelector(".chooser");

function setUpColumns(changed) {
  for (const [name, facet] of Object.entries(FACETS)) {
    const values = [...new Set(COLUMNS.map(facet.of))];
    const select = chooser.elements[name];
    select.append(el("option", { value: "" }, "all"), ...values.map((value) => el("option", { value }, facet.name(value))));
    if (name === "lane") select.append(...data.never.map((lane) => el("option", { disabled: true }, lane + ": never run")));
    if (name === "device" && !values.includes("GPU")) select.append(el("option", { disabled: true }, "GPU: never run"));
    select.parentElement.hidden = values.length < 2 && !select.querySelector("[disabled]");
  }
  chooser.addEventListener("submit", (event) => event.preventDefault());
  chooser.addEventListener("input", (event) => {
    if (event.target.name === "one") chosen.one = Number(event.target.value);
    else if (event.target.name === "pick") chosen.named = [...chooser.querySelectorAll("[name=pick]:checked")].map((box) => Number(box.value));
    else {
      chosen.facets = Object.fromEntries(Object.keys(FACETS).map((name) => [name, chooser.elements[name].value]).filter(([, value]) => value));
      chosen.named = null;
    }
    changed();
  });
  chooser.addEventListener("reset", () => setTimeout(() => {
    Object.assign(chosen, { facets: {}, named: null, one: 0 });
    changed();
  }));
  for (const [name, step] of [["before", -1], ["after", 1]]) {
    chooser.querySelector("." + name).addEventListener("click", () => {
      const count = columnsChosen().length;
      chosen.one = (chosen.one + step + count) % count;
      changed();
    });
  }
  narrow.addEventListener("change", changed);
}

function candidates() {
  return COLUMNS.filter((column) => Object.entries(chosen.facets).every(([name, value]) => FACETS[name].of(column) === value));
}

// The chosen columns, in the order of the report.
function columnsChosen() {
  if (chosen.named && chosen.named.length) return chosen.named.map((number) => COLUMNS[number]);
  if (!Object.keys(chosen.facets).length) return data.first.map((number) => COLUMNS[number]);
  return candidates().slice(0, FIRST);
}

// Those of the chosen that there is room for.
function columnsShown() {
  const all = columnsChosen();
  if (!narrow.matches || all.length < 2) return all;
  chosen.one = Math.min(chosen.one, all.length - 1);
  return [all[chosen.one]];
}

// Lanes that never ran are shown beside the first columns, so that nobody takes them for forgotten.
function neverShown() {
  const untouched = !chosen.named && !Object.keys(chosen.facets).length;
  return untouched && !narrow.matches && columnsChosen().length + data.never.length <= FIRST ? data.never : [];
}

// Take the columns from the fragment, if it names some; what cannot be found is returned in words.
function readColumns(query) {
  const facets = Object.fromEntries(Object.keys(FACETS).map((name) => [name, query.get(name)]).filter(([, value]) => value));
  const at = query.get("at");
  if (!at && !Object.keys(facets).length) return [];
  const troubles = [];
  for (const [name, value] of Object.entries(facets)) {
    if (COLUMNS.some((column) => FACETS[name].of(column) === value)) continue;
    troubles.push(data.never.includes(value) ? `${value} has never run.` : `This report has no column with ${name} ${value}.`);
    delete facets[name];
  }
  const found = (at || "").split(",").filter(Boolean).map((slug) => columnNamed(slug));
  const named = found.filter(({ column }) => column).map(({ column }) => column.number);
  Object.assign(chosen, { facets, named: named.length ? named : null, one: 0 });
  return [...troubles, ...found.map(({ trouble }) => trouble)];
}

// What the fragment says of the columns.
function columnQuery() {
  return Object.assign({}, chosen.facets, { at: chosen.named ? chosen.named.map((number) => COLUMNS[number].slug).join(",") : "" });
}

// Put the chooser into a view, and in step with what is chosen.
function placeChooser(section) {
  const place = section.querySelector(".chooser-here");
  chooser.hidden = !place || COLUMNS.length < 2;
  if (!place) return;
  if (chooser.parentElement !== place) place.append(chooser);
  const all = columnsChosen();
  const numbers = all.map((column) => column.number);
  for (const name of Object.keys(FACETS)) chooser.elements[name].value = chosen.facets[name] || "";
  chooser.querySelector(".chosen").textContent = `${all.length} of ${plural(COLUMNS.length, "column")}: choose others`;
  const offered = [...new Set([...candidates(), ...all])].sort((a, b) => a.number - b.number);
  chooser.querySelector(".picks div").replaceChildren(...(offered.length
    ? offered.map((column) => el("label", {}, pick(column, numbers.includes(column.number)), " " + column.label, " ", el("span", { class: "quiet mono" }, column.lane)))
    : [el("p", {}, "No column has this together: clear a choice.")]));
  const one = chooser.querySelector(".one");
  one.hidden = !narrow.matches || all.length < 2;
  chooser.elements.one.replaceChildren(...all.map((column, number) => el("option", { value: number }, `${number + 1} of ${all.length}: ${column.label}`)));
  chooser.elements.one.value = String(Math.min(chosen.one, all.length - 1));
}

function pick(column, checked) {
  const box = el("input", { type: "checkbox", name: "pick", value: column.number });
  box.checked = checked;
  return box;
}

// The summary's table of the shown columns, put together from the tables of all of them.
function showAnswers() {
  const place = document.querySelector(".chosen-answers");
  if (!place) return;
  const names = [...columnsShown().map((column) => String(column.number)), ...neverShown()];
  const table = document.querySelector(".all-answers table").cloneNode(false);
  const sources = [...document.querySelectorAll(".all-answers table")];
  const rows = sources.map((source) => [...source.rows]);
  let part = null;
  let made = null;
  rows[0].forEach((row, number) => {
    if (row.parentElement !== part) {
      part = row.parentElement;
      made = part.cloneNode(false);
      table.append(made);
    }
    const line = el("tr", {}, row.cells[0].cloneNode(true));
    for (const name of names) {
      const cell = rows.map((some) => [...some[number].cells].find((each) => each.dataset.column === name)).find(Boolean);
      line.append(cell.cloneNode(true));
    }
    made.append(line);
  });
  place.replaceChildren(table);
  place.classList.toggle("wide", names.length > FIRST);
  place.hidden = false;
  for (const card of document.querySelectorAll(".card")) card.hidden = !names.includes(card.dataset.column);
  tellShared();
}

// Columns have different cells; what they have in common can be compared.
function tellShared() {
  const place = document.querySelector(".shared");
  const columns = columnsChosen();
  place.hidden = !CELLS.length || columns.length < 2;
  if (place.hidden) return;
  const shared = CELLS.filter((cell) => columns.every((column) => column.verdicts[cell.number] !== ABSENT));
  const passing = (column) => shared.filter((cell) => column.verdicts[cell.number] === "P").length.toLocaleString("en");
  place.textContent = shared.length
    ? `Of the ${plural(shared.length, "cell")} that these ${columns.length} columns share, pass: ` + columns.map((column) => `${passing(column)} (${column.label})`).join(", ") + "."
    : "These columns share no cell, so their counts cannot be compared.";
}
