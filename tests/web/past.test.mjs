// The page of a collector's store: live, and back in time.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { browser, program, root } from "./harness.mjs";

const CAPACITY = 9.375e9;

test("earlier readings of a store are a slide away, and a link has its curve", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hopbyte-past-"));
  const started = [];
  const start = (...words) => {
    const process = spawn(program(), words, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
    started.push(process);
    return process;
  };
  // A router whose link is idle for five seconds and then half used, with 21 of its 24 lanes.
  const began = Date.now();
  let bytes = 0;
  const count = setInterval(() => {
    if (Date.now() - began > 5000) bytes += CAPACITY / 20;
    const lanes = Date.now() - began > 5000 ? 21 : 24;
    const counters = `timestamp ${Date.now()} ms\ntraffic_X+ ${Math.round(bytes)} B\nrecvlinkstatus_X+ ${lanes} 1\n`;
    writeFileSync(join(folder, "next"), counters);
    renameSync(join(folder, "next"), join(folder, "metrics"));
  }, 100);
  // Job 7 ran on the router's node before job 8.
  const jobs = (id) => {
    writeFileSync(join(folder, "next.csv"), `job,node\n${id},nid00000\n`);
    renameSync(join(folder, "next.csv"), join(folder, "jobs.csv"));
  };
  jobs(7);
  let later;
  const context = await browser(join(folder, "profile"));
  try {
    const kept = ["--store", join(folder, "store"), "--jobs", join(folder, "jobs.csv")];
    const collector = start("collect", "--listen", "127.0.0.1:0", ...kept, "--print", "none");
    const [said] = await once(createInterface(collector.stderr), "line");
    const address = /127\.0\.0\.1:\d+/.exec(said)[0];
    later = setTimeout(() => jobs(8), 5000);
    start("agent", "--root", "/nonexistent", "--to", address, "--name", "c0-0c0s0g0", "--file", join(folder, "metrics"));
    await new Promise((done) => setTimeout(done, 8000));
    const words = ["view", join(folder, "store"), "--fabric", "gemini:4x4x24", "--serve", "--json", "--quiet"];
    const [line] = await once(createInterface(start(...words).stdout), "line");
    const page = await context.newPage();
    const errors = [];
    page.on("pageerror", (e) => errors.push(e.message));
    await page.goto(JSON.parse(line).url);
    const status = page.getByRole("status").first();
    await status.filter({ hasText: /Live: reading \d+/ }).waitFor();
    const share = page.locator("#links-table tbody tr").first();
    await page.waitForFunction(() => /[45]\d(\.\d)? %/.test(document.querySelector("#links-table tbody tr")?.innerText));
    const slider = page.getByRole("slider", { name: "Time of the reading" });
    // The store's history: readings of the time before the page.
    assert.ok(Number(await slider.getAttribute("max")) >= 4);
    await share.click();
    const curve = page.locator(".of-link figure").first();
    await curve.waitFor();
    assert.match(await curve.innerText(), /c1-0c0s0g0 X-: used share/);
    const fault = page.locator("#faults li.lasts button");
    await fault.filter({ hasText: /since .*: c1-0c0s0g0 X- with 88 % of its lanes/ }).waitFor();
    await fault.click();
    await slider.focus();
    await page.keyboard.press("Home");
    await fault.waitFor({ state: "detached" });
    await status.filter({ hasText: "Earlier:" }).waitFor();
    const job = page.locator("#jobs tbody tr th");
    await job.filter({ hasText: /^7$/ }).waitFor();
    assert.equal(await job.count(), 1);
    await page.waitForFunction(() => !/[45]\d(\.\d)? %/.test(document.querySelector("#links-table tbody tr")?.innerText ?? ""));
    await page.getByRole("button", { name: "Latest" }).click();
    await status.filter({ hasText: /Live: reading \d+/ }).waitFor();
    await page.waitForFunction(() => /[45]\d(\.\d)? %/.test(document.querySelector("#links-table tbody tr")?.innerText));
    await job.filter({ hasText: /^8$/ }).waitFor();
    await fault.waitFor();
    assert.deepEqual(errors, []);
  } finally {
    clearInterval(count);
    clearTimeout(later);
    for (const process of started) process.kill("SIGKILL");
    await context.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
