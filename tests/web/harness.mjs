// Pages made by the real program, shown in a real browser.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const root = fileURLToPath(new URL("../../", import.meta.url));
const require = createRequire(join(root, "web/package.json"));
const { chromium } = require("playwright-core");
export const axe = require("axe-core").source;

/** The program: $HOPBYTE, or a build from here. */
export function program() {
  if (process.env.HOPBYTE) return process.env.HOPBYTE;
  const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
  execFileSync("cargo", ["build", "--quiet", "--locked", "-p", "hopbyte-cli"], {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
  });
  return join(target, "debug/hopbyte");
}

/** The browser: $CHROMIUM, or Debian's path. */
function browserPath() {
  const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  const found = places.find((p) => p && existsSync(p));
  if (!found) throw new Error("no Chromium found: install Debian's chromium or set CHROMIUM");
  return found;
}

const torus = "data/infiniband/opensm-torus-5x4x3/ibnetdiscover.out.zst";

/** Command lines of the pages, by name; the output is added. */
const PAGES = {
  // A job on eight hosts scattered over the committed torus of OpenSM, with its own forwarding tables.
  mapped: [
    "map",
    "stencil:4x4x4:27:20000,400,8",
    "--fabric",
    torus,
    "--nodes",
    ["0-0-0-0", "2-0-0-0", "4-3-2-0", "1-1-1-1", "3-2-0-0", "0-3-1-1", "4-0-2-0", "2-2-1-0"]
      .map((n) => `n-${n} HCA-1`)
      .join(","),
    "--ranks-per-node",
    "8",
    "--trials",
    "20000",
    "--report",
  ],
  machine: ["view", "--fabric", "fattree:k=8,levels=3", "-o"],
  whole: ["view", "--fabric", "gemini:16x12x24", "-o"],
  large: ["map", "stencil:16x16x8:27", "--fabric", "gemini:16x12x24", "--nodes", "@NODES", "--ranks-per-node", "16", "--trials", "200", "--report"],
};

/** A browser with its own profile folder. */
export async function browser(profile) {
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: browserPath(),
    headless: true,
    viewport: { width: 1280, height: 900 },
    args: [
      ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  // A machine may be busy.
  context.setDefaultTimeout(120_000);
  return context;
}

/** A folder of pages and a browser without network access; close it at the end. */
export async function open() {
  const folder = mkdtempSync(join(tmpdir(), "hopbyte-web-"));
  const hopbyte = program();
  const pages = {};
  for (const [name, words] of Object.entries(PAGES)) {
    const path = join(folder, `${name}.html`);
    const nodes = Array.from({ length: 128 }, (_, i) => 2 * 7 * i).join(",");
    const line = words.map((w) => (w === "@NODES" ? nodes : w));
    execFileSync(hopbyte, ["--quiet", ...line, path], { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
    pages[name] = pathToFileURL(path).href;
  }
  const context = await browser(join(folder, "profile"));
  await context.setOffline(true);
  return {
    pages,
    context,
    async close() {
      await context.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Opens a page and stores its console messages and requests. */
export async function visit(context, url, { width = 1280, height = 900, dark = false } = {}) {
  const page = await context.newPage();
  const said = [];
  const asked = [];
  page.on("console", (m) => said.push(`${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => said.push(`error: ${e.message}`));
  page.on("request", (r) => asked.push(r.url()));
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
  await page.goto(url);
  return { page, said, asked };
}
