// The page that follows its counters, in a real browser.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { browser, program, root } from "./harness.mjs";

/** One link's bytes of one second, replaced atomically. */
function write(folder, gigabytes) {
  const lines = [
    { schema: "hopbyte.link/1", link: "r0-0 X+", received_bytes: gigabytes * 1e9, errors: 65535, errors_at_least: true },
    { schema: "hopbyte.link/1", summary: { window_seconds: 1 } },
  ];
  writeFileSync(join(folder, "next"), lines.map((l) => JSON.stringify(l) + "\n").join(""));
  renameSync(join(folder, "next"), join(folder, "links.jsonl"));
}

test("new counters reach the open page, errors too", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hopbyte-live-"));
  write(folder, 2.5);
  const words = ["view", join(folder, "links.jsonl"), "--fabric", "torus:4x4", "--serve", "--every", "0.1", "--json"];
  const server = spawn(program(), [...words, "--quiet"], { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
  const context = await browser(join(folder, "profile"));
  try {
    const [line] = await once(createInterface(server.stdout), "line");
    const page = await context.newPage();
    const said = [];
    page.on("pageerror", (e) => said.push(e.message));
    await page.goto(JSON.parse(line).url);
    const cells = page.locator("#links-table tbody tr", { hasText: "r0-0 X+" }).first();
    await page.getByRole("status").filter({ hasText: /Live: reading \d+/ }).waitFor();
    const before = await cells.innerText();
    await new Promise((done) => setTimeout(done, 50));
    write(folder, 10);
    await page.waitForFunction(
      (old) => [...document.querySelectorAll("#links-table tbody tr")].some((r) => r.innerText.includes("r0-0 X+") && r.innerText !== old),
      before,
      { timeout: 60_000 },
    );
    assert.match(await cells.innerText(), /80/);
    // A counter at its highest value counts at least so many.
    assert.match(await cells.innerText(), /≥ 65,535/);
    writeFileSync(join(folder, "links.jsonl"), "broken");
    await page.getByRole("status").filter({ hasText: "links.jsonl:1" }).waitFor({ timeout: 60_000 });
    server.kill("SIGKILL");
    await page.getByRole("status").filter({ hasText: "does not answer" }).waitFor({ timeout: 60_000 });
    assert.deepEqual(said, []);
  } finally {
    server.kill("SIGKILL");
    await context.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
