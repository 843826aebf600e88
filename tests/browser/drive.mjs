// Opens a page in a browser without a window, waits for its report, and prints it.

import puppeteer from "puppeteer-core";

const [executablePath, ...urls] = process.argv.slice(2);
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
try {
  const reports = [];
  for (const url of urls) {
    const page = await browser.newPage();
    await page.goto(url);
    await page.waitForFunction("window.report", { timeout: 60_000 });
    reports.push(await page.evaluate("window.report"));
  }
  console.log(JSON.stringify(reports));
} finally {
  await browser.close();
}
