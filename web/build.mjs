// Builds dist/report.js and dist/report.css, or with --check reports whether they are up to date with src.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const result = await build({
  absWorkingDir: here,
  entryPoints: [
    { in: "src/main.ts", out: "report" },
    { in: "src/report.css", out: "report" },
  ],
  bundle: true,
  format: "iife",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  outdir: "dist",
  write: false,
  logLevel: "warning",
});

let drift = 0;
for (const file of result.outputFiles) {
  // A report holds the script inline: it must not contain its own element's end tag.
  const text = file.text.replaceAll("</script", "<\\/script");
  if (process.argv.includes("--check")) {
    const committed = await readFile(file.path, "utf8").catch(() => "");
    if (committed !== text) {
      console.error(`${file.path} is out of date with web/src; run: npm --prefix web run build`);
      drift = 1;
    }
  } else {
    await writeFile(file.path, text);
    console.log(`${file.path}  ${text.length} bytes`);
  }
}
process.exit(drift);
