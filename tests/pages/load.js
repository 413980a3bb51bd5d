// Loads pages in Chromium, in each of the looks (theme:width), and prints as JSON what is wrong: messages of the console, requests
// of the network, violations that axe finds, parts that are wider than the page; and the milliseconds of processor time that the
// page's main thread takes until it has answered two searches.
"use strict";
const { chromium } = require("playwright-core");
const axe = require("axe-core");

(async () => {
  const [, , browserPath, shots, looks, ...files] = process.argv;
  const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
  const found = [];
  for (const file of files) for (const look of looks.split(" ")) {
    const colorScheme = look.split(":")[0], width = Number(look.split(":")[1]);
    const context = await browser.newContext({ viewport: { width, height: 1000 }, colorScheme });
    const page = await context.newPage();
    const messages = [], requests = [];
    page.on("console", (m) => messages.push(m.text()));
    page.on("pageerror", (e) => messages.push(e.message));
    page.on("request", (r) => { if (!/^(file|data):/.test(r.url())) requests.push(r.url()); });
    const session = await context.newCDPSession(page);
    await session.send("Performance.enable", { timeDomain: "threadTicks" }); // processor time, on a machine that others use
    const began = Date.now();
    await page.goto(`file://${file}`);
    const search = await page.$("#search");
    if (search) {
      await search.fill("no such node at all");
      await page.waitForFunction(() => document.querySelector("#empty").textContent !== "");
      await search.fill("");
      await page.waitForFunction(() => document.querySelector("#empty").textContent === "");
    }
    const { metrics } = await session.send("Performance.getMetrics");
    const ready = Math.round(1000 * metrics.find((m) => m.name === "TaskDuration").value);
    if (process.env.TIMES) console.error(file, width, "ready", ready, "elapsed", Date.now() - began);
    await page.keyboard.press("Escape");
    await page.keyboard.press("n");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    await page.evaluate(axe.source);
    // axe looks at every element, shown or not; blocks that are closed are like those that are open
    await page.evaluate(() => document.querySelectorAll(".block[id]:not([open]) .inner").forEach((e) => e.remove()));
    const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
    if (shots !== "-") await page.screenshot({ path: `${shots}/${file.split("/").pop()}.${colorScheme}.${width}.png`, fullPage: (await page.evaluate(() => document.body.scrollHeight)) < 12000 });
    found.push({ file, colorScheme, width, messages, requests, wide, ready,
      violations: violations.map((v) => `${v.id}: ${v.nodes.length} x ${v.nodes[0].html.slice(0, 160)} ${v.nodes[0].failureSummary}`) });
    await context.close();
  }
  await browser.close();
  console.log(JSON.stringify(found));
})().catch((e) => { console.error(e); process.exit(1); });
