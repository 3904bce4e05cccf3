// What a browser makes of the server's pages: nothing of the log acts, axe finds no fault, and an open page moves by itself.
//
//     node check.mjs <address> <folder for pictures> [page…]
//
// Ends with 1 and the faults, a line each. Forms are filled in with the command `chat` and the page `chat` of lessons/chat. The program
// `self` on the path is started once more over the same home, to be killed under an open page.

import { execFileSync, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [address, pictures, ...pages] = process.argv.slice(2);
const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const faults = [];
const fault = (where, what) => faults.push(`${where}: ${what}`);
const SIZES = [{ width: 1280, height: 900 }, { width: 360, height: 740 }];

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

// A page that is not there, and a run that fails, are told by the browser too.
const expected = (line, where) => line.includes("404 (Not Found)") || (where === "the picky form" && line.includes("500 ("));

async function open(options, path, where) {
  const context = await browser.newContext({ ...options, bypassCSP: false });
  const page = await context.newPage();
  page.on("dialog", (dialog) => { fault(where, `a dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("console", (line) => { if (["error", "warning"].includes(line.type()) && !expected(line.text(), where)) fault(where, `console: ${line.text()}`); });
  page.on("pageerror", (error) => fault(where, `error: ${error}`));
  page.on("request", (request) => { if (!request.url().startsWith(address) && !request.url().startsWith("data:")) fault(where, `asks for ${request.url()}`); });
  await page.goto(new URL(path, address).href, { waitUntil: "load" });
  return page;
}

for (const path of pages) {
  for (const viewport of SIZES) {
    for (const colorScheme of ["light", "dark"]) {
      for (const javaScriptEnabled of [true, false]) {
        const where = `${path} ${viewport.width} ${colorScheme}${javaScriptEnabled ? "" : " without script"}`;
        const page = await open({ viewport, colorScheme, javaScriptEnabled }, path, where);
        const name = `${path.replaceAll("/", "_")}-${viewport.width}-${colorScheme}`;
        if (javaScriptEnabled) {
          await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          if (wide > 0) fault(where, `scrolls sideways by ${wide} px`);
          const edges = await page.evaluate(() => {
            const { left } = document.querySelector("#page").getBoundingClientRect();
            const words = [".bar > nav a", "footer.bar > p > a", "footer.bar label"].map((place) => {
              const range = document.createRange();
              range.selectNodeContents(document.querySelector(place));
              return range.getBoundingClientRect().left;
            });
            return [left + parseFloat(getComputedStyle(document.querySelector("#page")).paddingLeft), ...words].map(Math.round);
          });
          if (new Set(edges).size > 1) fault(where, `page, navigation and footer begin at ${edges} px`);
          if (await page.evaluate(() => window.acted === true)) fault(where, "text of the log acted");
          const found = await axeOn(page);
          found.forEach(({ id, nodes }) => fault(where, `axe ${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`));
        }
        await page.context().close();
      }
    }
  }
}

// axe is put in past the policy of the page, by the debugger and not by a tag.
async function axeOn(page) {
  const { readFile } = await import("node:fs/promises");
  await page.evaluate(await readFile(axe, "utf8"));
  return page.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations);
}

// A form works, and another page that is open shows it without a reload.
const watcher = await open({}, "/chat", "the watcher");
const writer = await open({}, "/chat", "the writer");
const word = `said at ${Date.now()}`;
await writer.fill("#message", word);
await writer.click("button[type=submit]");
await writer.waitForURL(/\/chat\?done=\d+$/);
if (!(await writer.content()).includes(word)) fault("the writer", "its words are not on the page");
await watcher.waitForFunction((word) => document.querySelector("#page").textContent.includes(word), word, { timeout: 10_000 })
  .catch(() => fault("the watcher", "saw nothing of it"));

// While somebody types, nothing is swapped: it says what is new.
await watcher.fill("#message", "half a sentence");
await writer.fill("#message", `${word} again`);
await writer.click("button[type=submit]");
await watcher.waitForSelector("header .new a", { timeout: 10_000 }).catch(() => fault("the watcher", "was not told what is new"));
if ((await watcher.inputValue("#message")) !== "half a sentence") fault("the watcher", "lost what was typed");
if (!/^\(\d+\) /.test(await watcher.title())) fault("the watcher", `has the title ${await watcher.title()}`);
await watcher.screenshot({ path: `${pictures}/typing.png` });
await watcher.fill("#message", "");
await watcher.evaluate(() => document.activeElement.blur());
await watcher.waitForFunction((word) => document.querySelector("#page").textContent.includes(`${word} again`), word, { timeout: 10_000 })
  .catch(() => fault("the watcher", "did not catch up once nothing was typed"));
if (/^\(/.test(await watcher.title())) fault("the watcher", `still has the title ${await watcher.title()}`);

// What somebody opened in the log stays open when an event comes.
const reader = await open({}, "/-/log", "the reader");
const runs = await reader.evaluate(() => { const runs = [...document.querySelectorAll("details.run")].slice(0, 2); runs.forEach((run) => { run.open = true; }); return runs.map((run) => run.id); });
await writer.fill("#message", `${word} for the reader`);
await writer.click("button[type=submit]");
await reader.waitForFunction((word) => document.querySelector("#page").textContent.includes(`${word} for the reader`), word, { timeout: 10_000 })
  .catch(() => fault("the reader", "saw nothing of it"));
const stayed = await reader.evaluate(() => [...document.querySelectorAll("details[open]")].map((fold) => fold.id));
if (runs.length === 0 || stayed.join() !== runs.join()) fault("the reader", `had ${runs} open, and then ${stayed}`);

// The box on today's page: what is typed stays, and so does what was opened.
const today = await open({}, "/-/today", "today's box");
const box = today.locator("details", { has: today.locator("form[action='/run/chat']") });
const field = box.locator("[name=message]");
await box.locator("summary").click();
await field.fill("half a command");
execFileSync("self", ["run", "chat", `${word} past the server`]);
await today.waitForFunction(() => /^\(\d+\) /.test(document.title), null, { timeout: 10_000 }).catch(() => fault("today's box", "counts nothing in the title"));
if ((await field.inputValue()) !== "half a command") fault("today's box", "lost what was typed");
await field.fill("");
await box.locator("summary").focus();
await today.waitForFunction((word) => document.querySelector("#page").textContent.includes(`${word} past the server`), word, { timeout: 10_000 })
  .catch(() => fault("today's box", "did not catch up once nothing was typed"));
if (!(await box.evaluate((box) => box.open))) fault("today's box", "was shut");
if (!(await box.locator("summary").evaluate((summary) => summary === document.activeElement))) fault("today's box", "lost the focus");

// A hidden tab closes its stream, and catches up when it is looked at.
const hide = (hidden) => today.evaluate((hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}, hidden);
const ended = today.waitForEvent("requestfailed", { predicate: (request) => request.url().includes("/-/live"), timeout: 10_000 });
await hide(true);
await ended.catch(() => fault("a hidden tab", "holds its stream"));
execFileSync("self", ["run", "chat", `${word} unseen`]);
const anew = today.waitForRequest((request) => request.url().includes("/-/live?after="), { timeout: 10_000 });
await hide(false);
await anew.catch(() => fault("a hidden tab", "asks for no stream when it is shown"));
await today.waitForFunction((word) => document.querySelector("#page").textContent.includes(`${word} unseen`), word, { timeout: 10_000 })
  .catch(() => fault("a hidden tab", "did not catch up when it was shown"));

// A server that is killed and comes back under an open page is found again, and nothing is missed.
async function serve(port) {
  const server = spawn("self", ["serve"], { env: { ...process.env, SELF_BIND: `127.0.0.1:${port}` }, stdio: ["ignore", "pipe", "ignore"] });
  const line = await new Promise((heard) => server.stdout.once("data", heard));
  return { server, address: String(line).trim() };
}
const first = await serve(0);
const context = await browser.newContext();
const visitor = await context.newPage();
await visitor.goto(new URL("/chat", first.address).href);
first.server.kill("SIGKILL");
execFileSync("self", ["run", "chat", `${word} while it was away`]);
const second = await serve(new URL(first.address).port);
await visitor.waitForFunction((word) => document.querySelector("#page").textContent.includes(`${word} while it was away`), word, { timeout: 20_000 })
  .catch(() => fault("a server that came back", "was not found again"));
second.server.kill("SIGTERM");
await context.close();

// Without script a form works too.
const plain = await open({ javaScriptEnabled: false }, "/chat", "without script");
await plain.fill("#message", `${word} plainly`);
await plain.click("button[type=submit]");
if (!(await plain.content()).includes(`${word} plainly`)) fault("without script", "its words are not on the page");

// A run that fails says why where the focus is, keeps what was typed, and leads back once it went well.
const picky = await open({}, "/-/capability/command/picky", "the picky form");
await picky.fill("#run-0", "two\nlines");
await picky.selectOption("#run-1", "false");
await picky.click("form[action='/run/picky'] button");
await picky.waitForSelector("#fault[role=alert]").catch(() => fault("the picky form", "did not say what went wrong"));
if ((await picky.evaluate(() => document.activeElement.id)) !== "fault") fault("the picky form", "has the focus elsewhere");
if ((await picky.inputValue("#field-0")) !== "two\nlines" || (await picky.inputValue("#field-1")) !== "false") fault("the picky form", "lost what was typed");
(await axeOn(picky)).forEach(({ id, nodes }) => fault("the picky form", `axe ${id}: ${nodes[0].html.slice(0, 120)}`));
await picky.screenshot({ path: `${pictures}/failed.png`, fullPage: true });
await picky.fill("#field-0", "good");
await picky.click("form button");
await picky.waitForURL(/\/-\/capability\/command\/picky\?done=\d+$/).catch(() => fault("the picky form", "did not lead back"));
const told = await picky.textContent(".done").catch(() => "");
if (!/^Recorded good.taken as event \d+/.test(told)) fault("the picky form", `says: ${told}`);
(await axeOn(picky)).forEach(({ id, nodes }) => fault("after a run", `axe ${id}: ${nodes[0].html.slice(0, 120)}`));
await picky.screenshot({ path: `${pictures}/done.png` });

await browser.close();
console.log(faults.length ? [...new Set(faults)].join("\n") : `no fault on ${pages.join(" ")}`);
process.exit(faults.length ? 1 : 0);
