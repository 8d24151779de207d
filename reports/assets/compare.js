// Two columns side by side: what is worse, better, new or gone.

const compareForm = document.querySelector(".view-compare form");
const KINDS = ["worse", "no longer tested", "better", "tested now", "new", "gone", "changed otherwise"];

// Everything that has verdicts: each column as it is, followed by its earlier runs, youngest first.
let SIDES = [];

function setUpCompare() {
  SIDES = COLUMNS.flatMap((column) => [
    column,
    ...column.past.map((run) => Object.assign({}, column, run, { slug: column.slug + "@" + run.started, label: column.label + ", " + run.started.slice(0, 10), partial: "", issues: {} })).reverse(),
  ]);
  for (const name of ["a", "b"]) compareForm.elements[name].append(...SIDES.map((side) => el("option", { value: side.slug }, side.label)));
}

async function showCompare(query) {
  await loadCells();
  if (!SIDES.length) setUpCompare();
  // The first column against its last run before; where there is none, against the next column.
  const [first, second] = SIDES;
  const usual = second && first && second.lane === first.lane && first.past.length ? { a: second, b: first } : { a: first, b: second || first };
  const troubles = [];
  for (const name of ["a", "b"]) {
    const asked = query.get(name);
    const exact = SIDES.find((side) => side.slug === asked);
    const near = exact || !asked ? { column: null, trouble: "" } : columnNamed(asked);
    troubles.push(near.trouble);
    const wanted = exact || near.column || usual[name];
    compareForm.elements[name].value = wanted ? wanted.slug : "";
  }
  showChanges();
  return troubles;
}

// The same rules as `python -m reports diff`.
function changeOf(before, after) {
  if (before === after) return null;
  if (before === ABSENT) return "new";
  if (after === ABSENT) return "gone";
  const ran = (letter) => !UNTESTED.includes(letter);
  if (HOLDS.includes(before) && !HOLDS.includes(after) && after !== "N") return "worse";
  if (ran(before) && !ran(after)) return "no longer tested";
  if (!ran(before) && ran(after)) return "tested now";
  return HOLDS.includes(after) && !HOLDS.includes(before) ? "better" : "changed otherwise";
}

function showChanges() {
  const [before, after] = ["a", "b"].map((name) => SIDES.find((side) => side.slug === compareForm.elements[name].value));
  const place = document.querySelector(".view-compare .changes");
  if (!before || !after) return;
  replaceFragment("compare", { a: before.slug, b: after.slug });
  const found = new Map(KINDS.map((kind) => [kind, []]));
  for (const cell of CELLS) {
    const kind = changeOf(before.verdicts[cell.number], after.verdicts[cell.number]);
    if (kind) found.get(kind).push(cell);
  }
  const shared = CELLS.filter((cell) => before.verdicts[cell.number] !== ABSENT && after.verdicts[cell.number] !== ABSENT);
  const passing = (side) => shared.filter((cell) => side.verdicts[cell.number] === "P").length.toLocaleString("en");
  const sum = el("p", {}, `Of the ${plural(shared.length, "cell")} that both have, ${passing(before)} pass before and ${passing(after)} after.`);
  const parts = [...found].filter(([, cells]) => cells.length).map(([kind, cells]) => el("section", {},
    el("h2", {}, kind[0].toUpperCase() + kind.slice(1), el("span", { class: "quiet" }, plural(cells.length, "cell"))),
    [...groupBy(cells, (cell) => causeOf(cell, before, after))].sort(([, a], [, b]) => b.length - a.length).map(([cause, some]) => changesOf(cause, some, before, after))));
  const none = el("p", {}, before === after ? "Choose two that differ." : "No verdict differs.");
  place.replaceChildren(...(before === after ? [none] : [sum, ...(parts.length ? parts : [none])]));
}

// One cause shows as many changes: the known issue behind it, or the reason.
function causeOf(cell, before, after) {
  for (const side of [after, before]) {
    const issue = side.issues[cell.number];
    if (issue !== undefined) return data.issues[issue][1];
  }
  return reasonOf(after, cell) || (before.issues === after.issues ? "" : reasonOf(before, cell));
}

function changesOf(cause, cells, before, after) {
  const table = scrolling(cause || "Cells", el("table", { class: "matrix" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Cell"), [before, after].map(columnHead))),
    el("tbody", {}, cells.map((cell) => el("tr", {},
      el("th", { scope: "row" }, el("a", { class: "mono", href: fragment("cell", { id: cell.id, at: COLUMNS[after.number].slug }) }, cell.id)),
      [before, after].map((column) => el("td", {}, column.verdicts[cell.number] === ABSENT ? el("span", { class: "quiet" }, "absent") : chip(column.verdicts[cell.number]))))))));
  return el("details", { open: cells.length <= 5 }, el("summary", {}, el("strong", {}, plural(cells.length, "cell")), cause ? ": " + cause.slice(0, 240) : ""), table);
}
