// Jobs on the live page: their links, and the jobs of a link.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { browser, program, root } from "./harness.mjs";

test("a job shows its links, a link its jobs, and a new list is taken", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hopbyte-jobs-"));
  const put = (name, text) => {
    writeFileSync(join(folder, "next"), text);
    renameSync(join(folder, "next"), join(folder, name));
  };
  // On a line of six routers job a sends from one end to the other, b from the third to the fourth; 1 GB is of neither.
  const counters = () => {
    const links = { "r0 X+": 9, "r1 X+": 9, "r2 X+": 11, "r3 X+": 9, "r4 X+": 9 };
    const hosts = { "n0->r0 host": 9, "r5->n5 host": 9, "n2->r2 host": 1, "r3->n3 host": 1 };
    const idle = { "n5->r5 host": 0, "r0->n0 host": 0, "n3->r3 host": 0, "r2->n2 host": 0 };
    const rows = Object.entries({ ...links, ...hosts, ...idle }).map(([link, gigabytes]) => ({
      schema: "hopbyte.link/1",
      link,
      received_bytes: gigabytes * 1e9,
    }));
    rows.push({ schema: "hopbyte.link/1", summary: { window_seconds: 10 } });
    put("links.jsonl", rows.map((r) => JSON.stringify(r) + "\n").join(""));
  };
  counters();
  put("jobs.csv", "job,node\na <b>x</b>,n0\na <b>x</b>,n5\nb,n2\nb,n3\n");
  const words = ["view", join(folder, "links.jsonl"), "--fabric", "mesh:6", "--serve", "--every", "0.1"];
  const jobs = ["--jobs", join(folder, "jobs.csv"), "--json", "--quiet"];
  const server = spawn(program(), [...words, ...jobs], { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
  const context = await browser(join(folder, "profile"));
  try {
    const [line] = await once(createInterface(server.stdout), "line");
    const page = await context.newPage();
    const errors = [];
    page.on("pageerror", (e) => errors.push(e.message));
    await page.goto(JSON.parse(line).url);
    const rows = page.locator("#jobs tbody tr");
    await rows.first().waitFor();
    assert.equal(await rows.count(), 2);
    assert.match(await rows.first().innerText(), /^a <b>x<\/b>\s+2\s+45\.0 GB/);
    assert.match(await rows.nth(1).innerText(), /^b\s+2\s+1\.00 GB\s+r2 X\+\s+9\.09 %/);
    assert.match(await page.locator("#jobs .note").innerText(), /assumed/);
    await rows.first().click();
    assert.equal(await page.locator("#jobs tr.lit").count(), 1);
    await rows.first().click();
    assert.equal(await page.locator("#jobs tr.lit").count(), 0);
    await page.locator("#links-table tbody tr", { hasText: "r2 X+" }).first().click();
    const said = page.locator(".jobs-of-link");
    await said.waitFor();
    assert.match(await said.innerText(), /a <b>x<\/b> 81\.8 % .*b 9\.09 % .*of no listed job 9\.09 %/);
    await page.getByPlaceholder("name of a job").fill("B");
    assert.equal(await rows.count(), 2);
    await page.getByPlaceholder("name of a job").fill("");
    put("jobs.csv", "job,node\nc,n0\nc,n5\n");
    counters();
    await page.locator("#jobs tbody tr", { hasText: "c" }).first().waitFor();
    assert.equal(await rows.count(), 1);
    assert.deepEqual(errors, []);
  } finally {
    server.kill("SIGKILL");
    await context.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
