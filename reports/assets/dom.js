// Making elements. Text goes in as text, so that nothing from a record can become markup.

function el(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== "").map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

const ICONS = new Map();

// A copy of a shape: in hundreds of rows much cheaper than as many references to it.
function icon(name) {
  if (!ICONS.has(name)) {
    const symbol = document.getElementById("i-" + name);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "i");
    svg.setAttribute("viewBox", symbol.getAttribute("viewBox"));
    svg.setAttribute("aria-hidden", "true");
    svg.append(...[...symbol.childNodes].map((node) => node.cloneNode(true)));
    ICONS.set(name, svg);
  }
  return ICONS.get(name).cloneNode(true);
}

// A part that scrolls by itself can be reached and scrolled with the keyboard.
function scrolling(label, child) {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, child);
}

function passage(label, text) {
  return el("pre", { tabindex: 0, role: "region", "aria-label": label }, text);
}

function plural(count, noun) {
  return count.toLocaleString("en") + " " + noun + (count === 1 ? "" : "s");
}

// A reference that can be followed becomes a link; any other stays text.
function reference(text, label) {
  return /^https?:\/\/[^\s"'<>]+$/.test(text) ? el("a", { href: text, rel: "noopener noreferrer" }, label || text) : label ? label + " (" + text + ")" : text;
}
