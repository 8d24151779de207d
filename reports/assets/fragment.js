// What is shown is in the URL's fragment, `#view?name=value`, so that a view can be sent to someone.

const VIEWS = ["summary", "matrix", "cell", "issues", "compare", "integrations", "rules", "reading"];

// The view and its parameters; null where the fragment names none.
function readFragment() {
  const text = location.hash.slice(1);
  const cut = text.indexOf("?");
  const view = cut < 0 ? text : text.slice(0, cut);
  if (!VIEWS.includes(view)) return text === "" ? { view: "summary", query: new URLSearchParams() } : null;
  return { view, query: new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1)) };
}

function fragment(view, query) {
  const entries = Object.entries(query || {}).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  // Slashes, commas and colons are legal in a fragment, and links stay readable with them.
  const text = new URLSearchParams(entries).toString().replace(/%2F/g, "/").replace(/%2C/g, ",").replace(/%3A/g, ":").replace(/%7E/g, "~");
  return "#" + view + (text ? "?" + text : "");
}

// Keep the address in step with what is shown, without a step in the history for each keystroke.
function replaceFragment(view, query) {
  history.replaceState(null, "", fragment(view, query));
}

const stale = document.querySelector(".stale");

// Say that a link does not lead quite where it did.
function tellStale(...lines) {
  const told = lines.filter(Boolean);
  stale.hidden = !told.length;
  stale.replaceChildren(...told.flatMap((line, number) => (number ? [el("br"), line] : [line])));
}

// The column that a link names, and what to say where it is not quite that one. Links of before had the commit behind
// the name; a link to a run of its own names the run.
function columnNamed(slug, run) {
  const ofRun = run ? COLUMNS.find((column) => column.runs.includes(run) && (!slug || column.slug.split("@")[0] === slug.split("@")[0])) : null;
  if (ofRun) return { column: ofRun, trouble: "" };
  const exact = COLUMNS.find((column) => column.slug === slug);
  if (exact) return { column: exact, trouble: run ? `Run ${run} is not in this report. Shown is the newest run of ${exact.label}.` : "" };
  const cut = /^(.*)[~@]([0-9a-f]{7,40}|none)\+?$/.exec(slug || "");
  const near = cut ? COLUMNS.find((column) => column.slug === cut[1]) : null;
  if (near && near.commit.startsWith(cut[2])) return { column: near, trouble: "" };
  if (near) return { column: near, trouble: `The link is of a run with commit ${cut[2]}, which is not in this report. Shown is ${near.label} with commit ${near.commit.slice(0, 10) || "none"}; it may say something else.` };
  if (slug) return { column: null, trouble: `This report has no column ${slug}.` };
  return { column: null, trouble: run ? `Run ${run} is not in this report.` : "" };
}
