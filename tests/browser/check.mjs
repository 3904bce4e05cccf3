// What a browser makes of the server's pages: nothing of the log acts, axe finds no fault, and an open page moves by itself.
//
//     node check.mjs <address> <folder for pictures> [page…]
//
// Ends with 1 and the faults, a line each. Forms are filled in with the command `chat` and the page `chat` of lessons/chat.

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
const runs = await reader.evaluate(() => { const runs = [...document.querySelectorAll("details.run")].slice(-2); runs.forEach((run) => { run.open = true; }); return runs.map((run) => run.id); });
await writer.fill("#message", `${word} for the reader`);
await writer.click("button[type=submit]");
await reader.waitForFunction((word) => document.querySelector("#page").textContent.includes(`${word} for the reader`), word, { timeout: 10_000 })
  .catch(() => fault("the reader", "saw nothing of it"));
const stayed = await reader.evaluate(() => [...document.querySelectorAll("details[open]")].map((fold) => fold.id));
if (runs.length === 0 || stayed.join() !== runs.join()) fault("the reader", `had ${runs} open, and then ${stayed}`);

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
