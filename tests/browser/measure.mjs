// Measures pages of the documentation in a browser without a window: what is wider than there is room for.
//
// Arguments: the browser, widths with commas between them, addresses.  Prints one report for each page and width.

import puppeteer from "puppeteer-core";

const [executablePath, widths, ...urls] = process.argv.slice(2);

/** Pixels by which the page scrolls sideways, and which tables scroll in their own boxes. */
function measure() {
  const { scrollWidth, clientWidth } = document.documentElement;
  const tables = [...document.querySelectorAll("article table")].map((table) => {
    const box = table.closest(".table-wrapper") ?? table.parentElement;
    return { head: table.querySelector("th")?.textContent.trim() ?? "", over: table.scrollWidth - box.clientWidth };
  });
  return { over: scrollWidth - clientWidth, tables: tables.length, wide: tables.filter(({ over }) => over > 1) };
}

const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
try {
  const page = await browser.newPage();
  const reports = [];
  for (const url of urls) {
    await page.goto(url);
    for (const width of widths.split(",").map(Number)) {
      await page.setViewport({ width, height: 900 });
      reports.push({ url, width, ...(await page.evaluate(measure)) });
    }
  }
  console.log(JSON.stringify(reports));
} finally {
  await browser.close();
}
