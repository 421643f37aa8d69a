// The few helpers that make elements. Text is always set as text: names of models may hold anything. What cannot be seen in them, or turns
// the direction of writing around, is written as the command line does it, \u202e.

const hidden = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/; // internal/plain has the same

// visible is a text without characters that act instead of being shown.
export function visible(text) {
  if (!hidden.test(text)) return text;
  return [...text].map((c) => {
    const code = c.codePointAt(0).toString(16);
    return !hidden.test(c) ? c : c.codePointAt(0) < 0x80 ? "\\x" + code.padStart(2, "0") : "\\u" + code.padStart(4, "0");
  }).join("");
}

function fill(node, props, children) {
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.setAttribute("class", value);
    else if (key === "text") node.textContent = visible(String(value));
    else if (key === "style") {
      for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v); // by CSSOM: the policy forbids attributes
    } else if (key === "data") Object.assign(node.dataset, value);
    else if (key === "value" || key === "checked" || key === "indeterminate" || key === "selected") node[key] = value;
    else node.setAttribute(key, value === true ? "" : key === "title" || key === "aria-label" ? visible(String(value)) : value);
  }
  add(node, children);
  return node;
}

// add appends nodes, texts and lists of them; what is null, undefined or false is passed over.
export function add(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : visible(String(child)));
  }
  return node;
}

// el makes an element: el("button", {class: "x", onclick: f, "aria-pressed": "true", style: {width: "3px"}}, "text", node, [more]).
export function el(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

const pictures = "http:" + "//www.w3.org/2000/svg"; // the name of a language; whoever looks for addresses in a page shall find none

// svg is el for pictures; title becomes the element that browsers show and screen readers read.
export function svg(tag, props, ...children) {
  const { title, ...rest } = props || {};
  const node = fill(document.createElementNS(pictures, tag), rest, children);
  if (title) node.prepend(fill(document.createElementNS(pictures, "title"), { text: title }, []));
  return node;
}

// replace empties a node and appends children.
export function replace(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

let uniqueIds = 0;

// unique is an id that no other element has.
export function unique(prefix) {
  return prefix + "-" + ++uniqueIds;
}

let announcer = null;

// announce says something to screen readers that eyes see elsewhere.
export function announce(text) {
  if (!announcer) document.body.append(announcer = el("div", { class: "unseen", role: "status", "aria-live": "polite" }));
  announcer.textContent = text;
}

// download offers a text or Blob as a file.
export function download(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: type || "text/plain" }));
  const a = el("a", { href: url, download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// termed is a word with its explanation: a dotted underline, read by screen readers and shown when pointed at.
export function termed(word, doc) {
  return el("abbr", { title: doc, tabindex: "0" }, word);
}

// copied puts a text into the clipboard; where pages may not write there, what stands in shown is selected.
export function copied(text, done, shown) {
  const select = () => getSelection().selectAllChildren(shown), said = () => {
    announce("Copied");
    done();
  };
  navigator.clipboard ? navigator.clipboard.writeText(text).then(said, select) : select();
}

// commandLine shows a command that does what a view says, with a button that copies it.
export function commandLine(command) {
  const done = () => {
    button.textContent = "Copied";
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1500);
  };
  const button = el("button", { class: "copy", type: "button", title: "Copy this command", onclick: () => copied(command, done, code) },
    "Copy");
  const code = el("code", null, command);
  return el("div", { class: "command" }, code, button);
}
