// Keeps an open page as fresh as the log. The page works without it: it only spares a reload.
const root = document.documentElement;
const page = () => document.getElementById("page");
let title = document.title;
let seq = Number(root.dataset.seq);
let source = null;
let waiting = 0;
let fetching = false;

// A field that has the focus, or holds something else than it came with, is being typed in; what is selected is about to be copied.
const typing = () => !getSelection().isCollapsed ||
  [...page().querySelectorAll("input, textarea, select")].some((field) =>
    field === document.activeElement || changed(field));

function changed(field) {
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (field.tagName === "SELECT") return [...field.options].some((option) => option.selected !== option.defaultSelected && option.index > 0);
  return field.type !== "hidden" && field.value !== field.defaultValue;
}

// What the reader opened, and where the focus is, known again by its id or by what it says, but for numbers.
const key = (one) => one && one.tagName + (one.getAttribute("href") ?? one.textContent.replace(/\d+/g, ""));
const name = (fold) => fold.id || key(fold.firstElementChild);
const folds = () => [...page().querySelectorAll("details")];
const stops = () => [...page().querySelectorAll("a, button, summary")];

function swap(next) {
  const open = new Set(folds().filter((fold) => fold.open).map(name));
  const focus = stops().includes(document.activeElement) && key(document.activeElement);
  const fresh = next.getElementById("page");
  const nav = next.querySelector("header nav");
  if (!fresh) return;
  page().replaceWith(document.adoptNode(fresh));
  if (nav) document.querySelector("header nav")?.replaceWith(document.adoptNode(nav));
  folds().forEach((fold) => { if (open.has(name(fold))) fold.open = true; });
  if (focus) stops().find((stop) => key(stop) === focus)?.focus({ preventScroll: true });
  title = next.title;
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
  if (source || document.hidden) return;
  const mine = source = new EventSource(`/-/live?after=${seq}`);
  source.onmessage = (message) => {
    seq = Number(message.lastEventId);
    waiting += JSON.parse(message.data).new;
    refresh();
  };
  // A server that is away is asked for again by the browser, one that refuses by nobody but us.
  source.onerror = () => { if (mine.readyState === EventSource.CLOSED && mine === source) { source = null; setTimeout(listen, 5000); } };
}

function rest() { source?.close(); source = null; }

// A hidden tab holds no stream; what it missed comes when it is looked at again.
document.addEventListener("visibilitychange", () => document.hidden ? rest() : listen());
document.addEventListener("selectionchange", refresh);
addEventListener("focusout", () => setTimeout(refresh));
addEventListener("pagehide", rest);
addEventListener("pageshow", listen);
listen();
