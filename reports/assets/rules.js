// The rules, and what the shown columns say of each.

async function showRules() {
  await loadCells();
  const place = document.querySelector(".rules-table");
  const columns = columnsShown();
  const byRule = data.rules.map(() => []);
  for (const cell of CELLS) for (const rule of cell.rules) byRule[rule].push(cell);
  const rows = data.rules.map(([id, text, source], number) => el("tr", { id: "rule-" + id },
    el("th", { scope: "row" },
      el("a", { class: "mono", href: fragment("matrix", { rule: id }) }, id), " ",
      el("span", { class: "text" }, text),
      el("span", { class: "quiet" }, "Source: ", reference(source), ". Cases: " + [...new Set(byRule[number].map((cell) => cell.key))].join(", ")),
    ),
    columns.map((column) => el("td", {}, tally(byRule[number].map((cell) => column.verdicts[cell.number])))),
  ));
  place.replaceChildren(
    el("div", { class: "chooser-here" }),
    rows.length ? el("div", { class: "scroll" + (columns.length > FIRST ? " wide" : ""), tabindex: 0, role: "region", "aria-label": "Verdicts by rule and column" },
      el("table", { class: "rules" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Rule"), columns.map(columnHead))), el("tbody", {}, rows)))
      : el("p", {}, "No record names a rule."),
  );
  placeChooser(sections.get("rules"));
}
