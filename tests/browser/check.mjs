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

async function open(options, path, where) {
  const context = await browser.newContext({ ...options, bypassCSP: false });
  const page = await context.newPage();
  page.on("dialog", (dialog) => { fault(where, `a dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("console", (line) => { if (["error", "warning"].includes(line.type()) && !line.text().includes("404 (Not Found)")) fault(where, `console: ${line.text()}`); });
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

// Without script a form works too.
const plain = await open({ javaScriptEnabled: false }, "/chat", "without script");
await plain.fill("#message", `${word} plainly`);
await plain.click("button[type=submit]");
if (!(await plain.content()).includes(`${word} plainly`)) fault("without script", "its words are not on the page");

await browser.close();
console.log(faults.length ? [...new Set(faults)].join("\n") : `no fault on ${pages.join(" ")}`);
process.exit(faults.length ? 1 : 0);
