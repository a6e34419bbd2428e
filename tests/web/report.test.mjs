// A report's interactions: view, sort, filter, hover, rotate; with mouse, touch and keyboard.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { axe, open, visit } from "./harness.mjs";

let site;
before(async () => {
  site = await open();
});
after(async () => {
  await site?.close();
});

/** Numbers of a column, converted to one unit. */
async function column(page, index) {
  const cells = await page.locator(`#links-table tbody tr td:nth-of-type(${index}) `).allInnerTexts();
  const units = { s: 1, ms: 1e-3, µs: 1e-6, ns: 1e-9 };
  return cells.map((text) => {
    const [, number, unit] = /([\d.]+) (s|ms|µs|ns)$/.exec(text) ?? [];
    return Number(number) * units[unit];
  });
}

async function lines(page, side) {
  const d = await page.locator(`figure[data-side=${side}] .layer .over:not(.boxes)`).first().getAttribute("d");
  return (d ?? "").split("M").length - 1;
}

for (const name of ["mapped", "machine", "large"]) {
  for (const dark of [false, true]) {
    for (const width of [1280, 390]) {
      test(`${name}, ${width} px, ${dark ? "dark" : "light"}: silent, offline, no sideways scrolling`, async () => {
        const { page, said, asked } = await visit(site.context, site.pages[name], { width, dark });
        await page.waitForLoadState("load");
        assert.deepEqual(said, []);
        assert.deepEqual(
          asked.filter((url) => !url.startsWith("data:")),
          [site.pages[name]],
        );
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `the page is ${wide} px wider than the window`);
        const cut = await page.evaluate(() =>
          [...document.querySelectorAll(".canvas")].filter((frame) =>
            frame.querySelector("svg.hb").getBoundingClientRect().width > frame.clientWidth + 1).length,
        );
        assert.equal(cut, 0, "pictures wider than their frames");
        if (process.env.SHOTS) {
          mkdirSync(process.env.SHOTS, { recursive: true });
          const path = join(process.env.SHOTS, `${name}-${width}-${dark ? "dark" : "light"}.png`);
          await page.screenshot({ path, fullPage: true });
        }
        await page.close();
      });
    }
  }
}

describe("the page of a mapping", () => {
  let page;
  before(async () => {
    ({ page } = await visit(site.context, site.pages.mapped));
  });
  after(async () => {
    await page.close();
  });

  test("columns sort both ways and announce it", async () => {
    const head = page.locator("#links-table th[data-key=a0]");
    await head.getByRole("button").click();
    assert.equal(await head.getAttribute("aria-sort"), "descending");
    const down = await column(page, 4);
    assert.ok(down.length >= 20 && down.every((v, i) => i === 0 || down[i - 1] >= v), String(down));
    await head.getByRole("button").press("Enter");
    assert.equal(await head.getAttribute("aria-sort"), "ascending");
    const up = await column(page, 4);
    assert.ok(up.every((v, i) => i === 0 || up[i - 1] <= v), String(up));
    assert.equal(await page.locator("#links-table [aria-sort]").count(), 1);
  });

  test("the worst link of the table is the worst of the page", async () => {
    await page.locator("#links-table th[data-key=b0] button").click();
    const first = page.locator("#links-table tbody tr").first();
    const shown = (await first.locator("td.n").first().innerText()).replace(/^\d+\s+/, "");
    const lead = await page.locator(".lead").innerText();
    assert.ok(lead.includes(`from ${shown} to`), `${shown} is not in: ${lead}`);
    assert.equal(await first.locator(".no").first().innerText(), "1");
  });

  test("the filter hides rows and shows the number left", async () => {
    const all = await page.locator("#shown").innerText();
    await page.locator("#filter").fill("sw-4-3-2");
    const names = await page.locator("#links-table tbody tr").allInnerTexts();
    assert.ok(names.length > 0 && names.every((n) => n.includes("sw-4-3-2")), names.join("\n"));
    assert.notEqual(await page.locator("#shown").innerText(), all);
    await page.locator("#filter").fill("no such link");
    assert.match(await page.locator("#shown").innerText(), /^0 of 0/);
    await page.locator("#filter").fill("");
    assert.equal(await page.locator("#shown").innerText(), all);
  });

  test("more rows come on demand", async () => {
    const rows = page.locator("#links-table tbody tr");
    const before = await rows.count();
    await page.locator("#more").click();
    assert.ok((await rows.count()) > before);
  });

  test("a link in the table lights up in both pictures, with its users", async () => {
    await page.locator("#links-table tbody tr").first().hover();
    assert.deepEqual([await lines(page, "before"), await lines(page, "after")], [1, 1]);
    assert.ok((await page.locator(".ranks .r.lit").count()) > 0);
    await page.mouse.move(2, 2);
    assert.equal(await lines(page, "before"), 0);
    assert.equal(await page.locator(".lit").count(), 0);
  });

  test("a rank lights its nodes and the links they use", async () => {
    const chip = page.locator("[data-rank='17']").first();
    await chip.hover();
    assert.equal(await page.locator("[data-rank='17'].lit").count(), 2);
    assert.ok((await lines(page, "before")) > 1 && (await lines(page, "after")) > 1);
    assert.match(await page.locator(".tip").innerText(), /^Rank 17\s+before: n-.*\s+after: n-/);
    await page.mouse.move(2, 2);
    assert.equal(await page.locator(".tip").isVisible(), false);
  });

  test("a stroke of the picture names its link and the pairs that use it", async () => {
    const place = await page.evaluate(() => {
      const data = JSON.parse(document.getElementById("data").textContent);
      const link = data.views[0].numbered_before[0];
      const raw = Uint8Array.from(atob(data.places.links), (c) => c.charCodeAt(0));
      const four = new Uint16Array(raw.buffer).slice(4 * link, 4 * link + 4);
      const svg = document.querySelector("figure[data-side=before] svg.hb");
      svg.scrollIntoView({ block: "center" });
      const box = svg.getBoundingClientRect();
      const scale = box.width / data.places.width / 10;
      return {
        name: data.links.name[link],
        x: box.left + ((four[0] + four[2]) / 2) * scale,
        y: box.top + ((four[1] + four[3]) / 2) * scale,
      };
    });
    await page.mouse.move(place.x, place.y);
    const tip = await page.locator(".tip").innerText();
    assert.ok(tip.startsWith(place.name), `${place.name} does not match its tooltip: ${tip}`);
    assert.match(tip, /link time: .* before, .* after/);
    assert.match(tip, / → /);
    await page.mouse.move(2, 2);
  });

  test("rows answer the keyboard: Enter pins, Escape lets go", async () => {
    const row = page.locator("#links-table tbody tr").nth(1);
    await row.focus();
    await row.press("Enter");
    await page.mouse.move(300, 300);
    assert.equal(await row.evaluate((r) => r.classList.contains("lit")), true);
    await row.press("Escape");
    await page.locator("h1").click();
    assert.equal(await page.locator("tr.lit").count(), 0);
  });

  test("a pinned link is in the address: opened again it is pinned, and Back lets go", async () => {
    const row = page.locator("#links-table tbody tr").nth(1);
    await row.focus();
    await row.press("Enter");
    await page.mouse.move(300, 300);
    const address = page.url();
    assert.match(address, /#link=.+/);
    await page.goBack();
    assert.equal(await page.locator("tr.lit").count(), 0);
    await page.goForward();
    assert.equal(await row.evaluate((r) => r.classList.contains("lit")), true);
    const other = await page.context().newPage();
    await other.goto(address);
    assert.equal(await other.locator("#links-table tbody tr").nth(1).evaluate((r) => r.classList.contains("lit")), true);
    await other.close();
    await row.press("Escape");
    assert.ok(!page.url().includes("#"));
  });

  test("classes of load can be hidden", async () => {
    const button = page.locator(".legend [data-mark=l1] button").first();
    const light = page.locator(".pictures .s .l1").first();
    assert.equal(await light.isVisible(), true);
    await button.click();
    assert.equal(await button.getAttribute("aria-pressed"), "false");
    assert.equal(await light.isVisible(), false);
    await button.click();
    assert.equal(await light.isVisible(), true);
  });

  test("the machine turns in space", async () => {
    const canvas = page.locator(".space canvas").first();
    await canvas.scrollIntoViewIfNeeded();
    const picture = () => canvas.evaluate((c) => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(c.toDataURL())))));
    const first = await picture();
    await canvas.press("ArrowRight");
    const turned = await picture();
    assert.notEqual(turned, first);
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + 80, box.y + 80);
    await page.mouse.down();
    await page.mouse.move(box.x + 140, box.y + 100, { steps: 3 });
    await page.mouse.up();
    assert.notEqual(await picture(), turned);
    const blank = await canvas.evaluate((c) => {
      const empty = document.createElement("canvas");
      [empty.width, empty.height] = [c.width, c.height];
      return empty.toDataURL() === c.toDataURL();
    });
    assert.equal(blank, false);
  });

  for (const dark of [false, true]) {
    test(`no breach of WCAG 2.1 AA that axe can find, ${dark ? "dark" : "light"}`, async () => {
      await page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
      await page.addScriptTag({ content: axe });
      const found = await page.evaluate(async () => {
        const options = { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] };
        const { violations } = await globalThis.axe.run(document, options);
        return violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html)}`);
      });
      assert.deepEqual(found, []);
    });
  }
});

test("without its script the page still shows everything that matters", async () => {
  const page = await site.context.newPage();
  const session = await site.context.newCDPSession(page);
  await session.send("Emulation.setScriptExecutionDisabled", { value: true });
  await page.goto(site.pages.mapped);
  assert.equal(await page.locator("figure .canvas svg").count(), 2);
  assert.ok((await page.locator("#links-table tbody tr").count()) >= 20);
  assert.ok((await page.locator("#ranks-table [data-rank]").count()) === 128);
  assert.equal(await page.locator(".tools").isVisible(), false);
  await page.close();
});

test("a machine of 36,864 links answers the pointer at once", async () => {
  const { page } = await visit(site.context, site.pages.large);
  // Time in the page's own handlers, which excludes the machine's load and the connection to the browser.
  const middle = await page.evaluate(() => {
    const svg = document.querySelector("figure[data-side=before] svg.hb");
    const box = svg.getBoundingClientRect();
    const times = Array.from({ length: 41 }, (_, i) => {
      const place = { clientX: box.left + (i * box.width) / 42, clientY: box.top + 40 + 3 * i, bubbles: true };
      const started = performance.now();
      svg.dispatchEvent(new PointerEvent("pointermove", place));
      return performance.now() - started;
    });
    return times.sort((a, b) => a - b)[20];
  });
  assert.ok(middle < 25, `${middle} ms a move`);
  await page.close();
});
