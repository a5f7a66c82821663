// Writes what the package ships; with --check only says whether it is what the sources build.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const here = new URL("./", import.meta.url);
const shipped = new URL("../python/paceline/web/", here);
/** Pages of the package, and those of the playground, which is built apart. */
const entries = ["report", "serve", "playground", "worker"];
const apart = new URL("playground/", here);
const ours = ["playground.js", "worker.js"];

const sources = ["build.mjs", "package-lock.json", "tsconfig.json"];
sources.push(...readdirSync(new URL("src/", here)).map((name) => `src/${name}`));
const hash = createHash("sha256");
for (const name of sources.sort()) hash.update(`${name}\0`).update(readFileSync(new URL(name, here))).update("\0");

const { outputFiles } = await build({
  absWorkingDir: new URL(".", here).pathname,
  entryPoints: entries.map((name) => `src/${name}.ts`),
  bundle: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  outdir: "built",
  write: false,
  banner: { js: `// Built from web/ by \`make web\`. Sources: sha256 ${hash.digest("hex")}` },
});
const files = new Map(outputFiles.map((file) => [file.path.split("/").at(-1), Buffer.from(file.contents)]));
for (const name of ["uPlot.iife.min.js", "uPlot.min.css"]) {
  files.set(name, readFileSync(new URL(`node_modules/uplot/dist/${name}`, here)));
}
files.set("uPlot.LICENSE", readFileSync(new URL("node_modules/uplot/LICENSE", here)));

for (const [name, made] of files) {
  const place = new URL(name, ours.includes(name) ? apart : shipped);
  if (!process.argv.includes("--check")) writeFileSync(place, made);
  else if (!made.equals(readFileSync(place))) {
    console.error(`error: ${name} is not what its sources build\nhint: make web`);
    process.exitCode = 1;
  }
}
