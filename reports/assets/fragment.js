// What is shown is in the URL's fragment, `#view?name=value`, so that a view can be sent to someone.

const VIEWS = ["summary", "matrix", "cell", "compare", "integrations", "rules", "reading"];

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
