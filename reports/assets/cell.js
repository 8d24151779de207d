// One cell: what was asked, what happened on one lane, why it counts, and how to repeat it.

const cellView = document.querySelector(".view-cell");

async function showCell(query) {
  await loadCells();
  const id = query.get("id") || "";
  const cell = CELLS[NUMBER_OF.get(id)];
  if (!cell) {
    const near = id.split("[")[0];
    const same = CELLS.filter((each) => each.key === near);
    cellView.replaceChildren(
      el("h1", { tabindex: -1 }, "No such cell"),
      el("p", { class: "mono" }, id || "The address names no cell."),
      el("p", {}, same.length ? ["It is not in this report, or has other axes by now: ", el("a", { href: fragment("matrix", { q: near }) }, plural(same.length, "cell") + " of " + near)] : "It is not in this report.", " ", el("a", { href: "#matrix" }, "To the matrix")),
    );
    return [];
  }
  const named = columnNamed(query.get("at"), query.get("run"));
  const holds = (column) => column.verdicts[cell.number] !== ABSENT;
  const column = named.column || columnsChosen().find(holds) || COLUMNS.find(holds) || COLUMNS[0];
  const block = await detailsOf(cell.suite, column.number).catch((error) => ({ error }));
  const suite = data.suites[cell.suite];
  cellView.replaceChildren(
    el("p", { class: "trail" }, el("a", { href: "#matrix" }, "Matrix"), " › ", el("a", { href: fragment("matrix", { open: suite }) }, suite), " › ", el("a", { href: fragment("matrix", { open: suite + "," + cell.key }) }, cell.case)),
    el("h1", { tabindex: -1 }, cell.title || cell.id),
    el("p", { class: "id mono" }, cell.id),
    el("p", { class: "on" }, el("strong", {}, column.label), ": " + ground(column)),
    ...(data.since[cell.number] || []).map((line) => el("p", { class: "since" }, "DeepSpeed: " + line + ".")),
    told(cell, column, block),
    el("h2", {}, "The same cell elsewhere"),
    el("ul", { class: "across", "aria-label": "This cell in each column" }, COLUMNS.filter((each) => holds(each) || excludedOf(each, cell) || each === column).map((each) => across(cell, each, each === column))),
    addresses(cell, column),
  );
  return [named.column || !query.get("at") ? named.trouble : named.trouble + ` Shown is ${column.label}.`];
}

// On what it ran, in one line.
function ground(column) {
  return [
    column.device,
    column.wine ? `under Wine ${column.wine}, which is not Windows itself` : "",
    column.deepspeed ? "DeepSpeed " + column.deepspeed : "",
    column.torch ? "torch " + column.torch : "",
    "driven by " + column.name,
  ].filter(Boolean).join(", ");
}

// The address that stays with the newest run, and the one that stays with this run.
function addresses(cell, column) {
  const lasting = fragment("cell", { id: cell.id, at: column.slug.split("@")[0] });
  const run = column.runs[column.runs.length - 1];
  return el("p", { class: "quiet addresses" }, el("a", { href: lasting }, "Link to the newest run of this column"), " · ", el("a", { href: fragment("cell", { id: cell.id, at: column.slug, run }) }, "Link to this very run"));
}

function across(cell, column, current) {
  const letter = column.verdicts[cell.number];
  const what = letter === ABSENT ? el("span", { class: "quiet" }, excludedOf(column, cell) ? "left out" : "not in its plan") : chip(letter);
  return el("li", {}, el("a", { href: fragment("cell", { id: cell.id, at: column.slug }), "aria-current": current ? "true" : null }, el("span", { class: "name" }, column.label, column.partial ? [" ", el("span", { class: "flag" }, "partial")] : null), what));
}

function told(cell, column, block) {
  const letter = column.verdicts[cell.number];
  const rules = el("section", {}, el("h2", {}, "Why it counts"), cell.rules.length ? cell.rules.map(ruleText) : el("p", { class: "quiet" }, "No record names its rules."));
  if (letter === ABSENT) {
    const why = excludedOf(column, cell);
    return el("div", {}, el("div", { class: "told" }, el("p", {}, why ? "Left out on this lane: " + why : "This cell is not in the plan of this lane's runs.")), rules);
  }
  const records = block && block.cells ? block.cells[cell.number] || [] : [];
  if (!records.length) {
    const trouble = block && block.error ? el("p", {}, "The details cannot be opened in this browser: ", String(block.error)) : null;
    return el("div", {}, verdictBox(letter, reasonOf(column, cell), {}), trouble, rules);
  }
  const parts = [];
  if (records.length > 1) {
    const verdicts = records.map((each) => VERDICTS.get(each.verdict).name).join(", ");
    parts.push(el("p", { class: "notice" }, el("strong", {}, column.disagree.has(cell.number) ? "Records disagree: " : "Several records: "), verdicts + ". The worst counts; all are below."));
  }
  records.forEach((each, number) => parts.push(recordOf(cell, column, each, block.provenances[each.provenance], number === 0 ? rules : null)));
  return el("div", {}, parts, pastOf(cell, column));
}

// What earlier runs of this column came to, oldest first.
function pastOf(cell, column) {
  const runs = column.past.filter((run) => run.verdicts[cell.number] !== ABSENT);
  if (!runs.length) return null;
  return el("section", {}, el("h2", {}, "Earlier runs"), el("ol", { class: "past" }, runs.map((run) =>
    el("li", {}, chip(run.verdicts[cell.number]), el("span", { class: "quiet", title: run.commit }, run.started.slice(0, 10))))));
}

function verdictBox(letter, reason, record) {
  const { name, meaning } = VERDICTS.get(letter);
  const issue = record.issue;
  return el("div", { class: "told t-" + name },
    el("p", {}, chip(letter), " ", el("span", { class: "quiet" }, meaning)),
    reason ? el("p", { class: "reason" }, reason) : null,
    record.remedy ? el("p", {}, el("strong", {}, "Remedy: "), record.remedy) : null,
    issue ? el("p", {}, el("strong", {}, "Known issue: "), el("a", { href: "#" + issue.id }, issue.title), issue.explanation ? [". ", issue.explanation] : null, " ", reference(issue.reference, "Report upstream")) : null,
  );
}

function recordOf(cell, column, record, origin, rules) {
  return el("article", {},
    verdictBox(record.verdict, record.reason, record),
    el("div", { class: "facts" },
      el("div", {},
        record.numbers ? numbers(record.numbers) : null,
        el("section", {}, el("h2", {}, "Repeat"), command("Command that repeats it", record.repeat)),
        alone(cell, column, record),
        record.log ? el("section", {}, el("h2", {}, "Log"), passage("Log", record.log)) : null,
        record.stacks ? el("section", {}, el("h2", {}, "Stacks at the deadline"), passage("Stacks", record.stacks)) : null,
        record.ranks ? ranks(record.ranks) : null,
        record.observations ? el("section", {}, el("h2", {}, "Observations of rank 0"), passage("Observations", JSON.stringify(record.observations, null, 2))) : null,
      ),
      el("div", {}, rules, circumstances(column, record, origin)),
    ),
  );
}

// The command that writes a script for an upstream report: bare DeepSpeed, unless another integration is the point.
function alone(cell, column, record) {
  if (!["FAIL", "CRASH", "TIMEOUT", "XFAIL", "XPASS"].includes(VERDICTS.get(record.verdict).name)) return null;
  const integration = ["reference", "deepspeed"].includes(column.integration) ? "" : " --integration " + column.integration;
  const words = `python -m conformance repro "${cell.id}" --lane ${column.lane} --transport ${column.transport}${integration}`;
  const exact = command("Command that writes a file which replays the cell", words + " --exact --into repro.pyz");
  // Ranks that mpiexec starts have no short form.
  const short = column.lane.endsWith("_mpi") ? [] : [command("Command that writes a script", words + " --into repro.py")];
  return el("section", {}, el("h2", {}, "Show it without the harness"), ...short, exact);
}

function ruleText(number) {
  const [id, text, source] = data.rules[number];
  return el("div", { class: "rule" },
    el("p", {}, el("a", { href: fragment("matrix", { rule: id }), class: "mono" }, id), " ", text),
    el("p", { class: "quiet" }, "Source: ", reference(source)),
  );
}

function numbers(rows) {
  const cells = rows.map(([name, found, allowed]) => {
    const over = allowed !== null && !(Math.abs(Number(found)) <= Number(allowed));
    return el("tr", {},
      el("th", { scope: "row" }, name.replace(/_/g, " ")),
      el("td", { class: "num" + (over ? " over" : "") }, digits(found)),
      el("td", { class: "num" }, allowed === null ? "" : digits(allowed)),
      el("td", { class: over ? "over" : "quiet" }, allowed === null ? "" : over ? "beyond" : "within"),
    );
  });
  return el("section", {}, el("h2", {}, "Numbers"), scrolling("Numbers", el("table", {},
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "What"), el("th", { scope: "col", class: "num" }, "Measured"), el("th", { scope: "col", class: "num" }, "Allowed"), el("th", { scope: "col" }, el("span", { class: "quiet" }, "Tolerance")))),
    el("tbody", {}, cells),
  )));
}

function digits(value) {
  if (typeof value !== "number") return String(value);
  return value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(6)));
}

function command(label, text) {
  const button = navigator.clipboard ? el("button", { type: "button" }, "Copy") : null;
  if (button) {
    button.addEventListener("click", () => navigator.clipboard.writeText(text).then(
      () => { button.textContent = "Copied"; },
      () => { button.textContent = "Select it by hand"; },
    ));
  }
  return el("div", { class: "command" }, passage(label, text), button);
}

function ranks(rows) {
  return el("section", {}, el("h2", {}, "Ranks"), scrolling("Ranks", el("table", {},
    el("thead", {}, el("tr", {}, ["Step", "Rank", "Ended", "Exit code", "In the scenario"].map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows.map(([step, rank, status, code, seconds, error]) => el("tr", {},
      el("td", {}, step), el("td", {}, rank), el("td", {}, status + (error ? ": " + error : "")), el("td", {}, code === null ? "" : code), el("td", {}, seconds.toFixed(2) + " s")))),
  )));
}

function circumstances(column, record, origin) {
  const host = origin.host;
  const facts = [
    ["Lane", column.lane + (host.wine ? ", under Wine " + host.wine : ", native")],
    ["Device", column.device],
    ["Launcher", column.launcher],
    ["Transport", column.transport],
    ["Stack", column.stack],
    ["Integration", column.integration],
    ["Started", moment(record.started)],
    ["Took", record.seconds.toFixed(2) + " s" + (record.scenario ? ", " + record.scenario.toFixed(2) + " s of it in the scenario" : "")],
    ["Rank mode", record.mode],
    ["Host", [host.os_version, host.cpu, host.cpu_count + " CPUs", (host.memory_bytes / 2 ** 30).toFixed(0) + " GiB"].concat((host.gpus || []).map((gpu) => gpu.name)).join("; ")],
    ["The host has", Object.entries(column.capabilities).map(([name, told]) => name + ": " + told).join("; ")],
    ["MPI", origin.mpi],
    ["Python", origin.python],
    ...Object.entries(origin.packages),
    ["Harness", origin.git_commit ? origin.git_commit.slice(0, 12) + (origin.git_dirty ? ", with changes of its own" : "") : "outside a checkout"],
    ["Run", origin.ci_url ? reference(origin.ci_url, origin.run) : origin.run],
  ];
  const environment = Object.entries(origin.environment || {});
  return el("section", {}, el("h2", {}, "Circumstances"),
    el("dl", {}, facts.filter(([, value]) => value).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    environment.length ? [el("h2", {}, "Environment"), passage("Environment", environment.map(([name, value]) => name + "=" + value).join("\n"))] : null,
  );
}

function moment(text) {
  const at = new Date(text);
  return isNaN(at) ? text : at.toISOString().slice(0, 16).replace("T", " ") + " UTC";
}
