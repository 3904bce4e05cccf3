// Keeps an open page as fresh as the log. The page works without it: it only spares a reload.
const root = document.documentElement;
const page = () => document.getElementById("page");
const title = document.title;
let seq = Number(root.dataset.seq);
let source = null;
let waiting = 0;
let fetching = false;

// A field that has the focus, or holds something else than it came with, is being typed in.
const typing = () =>
  [...page().querySelectorAll("input, textarea, select")].some((field) =>
    field === document.activeElement || changed(field));

function changed(field) {
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (field.tagName === "SELECT") return [...field.options].some((option) => option.selected !== option.defaultSelected && option.index > 0);
  return field.type !== "hidden" && field.value !== field.defaultValue;
}

// What the reader opened, by its name or else its place among its kind, and where the focus is, by its place.
const folds = () => [...page().querySelectorAll("details")];
const stops = () => [...page().querySelectorAll("a, button, summary")];

function swap(next) {
  const open = new Map(folds().map((fold, at) => [fold.id || at, fold.open]));
  const focus = stops().indexOf(document.activeElement);
  const fresh = next.getElementById("page");
  const nav = next.querySelector("header nav");
  if (!fresh) return;
  page().replaceWith(document.adoptNode(fresh));
  if (nav) document.querySelector("header nav")?.replaceWith(document.adoptNode(nav));
  folds().forEach((fold, at) => { if (open.get(fold.id || at)) fold.open = true; });
  if (focus >= 0) stops()[focus]?.focus({ preventScroll: true });
  root.dataset.seq = next.documentElement.dataset.seq;
}

// "3 new": a link to the page as it is now, announced politely, for whoever is typing.
const note = document.createElement("p");
const link = note.appendChild(document.createElement("a"));
note.className = "new";
note.setAttribute("role", "status");

function say() {
  document.title = waiting ? `(${waiting}) ${title}` : title;
  link.textContent = `${waiting} new`;
  link.href = location.pathname + location.search;
  if (waiting) document.querySelector("header").append(note);
  else note.remove();
}

async function refresh() {
  if (!waiting || fetching) return;
  if (typing()) return say();
  fetching = true;
  const had = waiting;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.ok && !typing()) {
      swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
      waiting -= had;
    }
  } catch { /* The stream says when the server is back. */ }
  fetching = false;
  say();
}

function listen() {
  source = new EventSource(`/-/live?after=${seq}`);
  source.onmessage = (message) => {
    seq = Number(message.lastEventId);
    waiting += JSON.parse(message.data).new;
    refresh();
  };
}

// A hidden tab holds no stream; what it missed comes when it is looked at again.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { source?.close(); source = null; }
  else if (!source) listen();
});
addEventListener("focusout", () => setTimeout(refresh));
addEventListener("pagehide", () => source?.close());
if (!document.hidden) listen();
