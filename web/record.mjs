// SPDX-License-Identifier: Apache-2.0
// Writes down what the built app was made from, so that a test can tell whether it is current without npm.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = new URL(".", import.meta.url).pathname;
const out = join(root, "../src/ttmem/reports/templates");
const sources = ["package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];
const walk = (folder) =>
  readdirSync(join(root, folder), { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .forEach((entry) =>
      entry.isDirectory() ? walk(`${folder}/${entry.name}`) : sources.push(`${folder}/${entry.name}`),
    );
walk("src");

const digest = (text) => createHash("sha256").update(text).digest("hex");
const whole = createHash("sha256");
for (const name of sources.sort()) whole.update(`${name}\n${digest(readFileSync(join(root, name)))}\n`);
const record = { sources: whole.digest("hex") };
for (const name of ["app.js", "app.css"]) {
  const text = readFileSync(join(out, name), "utf8");
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${name} holds what would end its element`);
  record[name] = digest(text);
}
writeFileSync(join(out, "app.json"), `${JSON.stringify(record, null, 2)}\n`);
