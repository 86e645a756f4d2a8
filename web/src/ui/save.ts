// SPDX-License-Identifier: Apache-2.0
// What leaves the page: tables as CSV and Markdown, drawings as SVG and PNG.

import { clean } from "./format";

export function download(name: string, content: string | Blob, type = "text/plain"): void {
  const blob = typeof content === "string" ? new Blob([content], { type: `${type};charset=utf-8` }) : content;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** RFC 4180; a cell that a spreadsheet would take for a formula is marked as text. */
export function csv(heads: readonly string[], rows: Iterable<readonly string[]>): string {
  const cell = (text: string) => {
    const tidy = clean(text);
    const safe = /^[=+@\t]|^-(?![\d.])/.test(tidy) && !/^[+-]?[\d.,]+%?$/.test(tidy) ? `'${tidy}` : tidy;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const lines = [heads.map(cell).join(",")];
  for (const row of rows) lines.push(row.map(cell).join(","));
  return `${lines.join("\n")}\n`;
}

export function markdown(
  heads: readonly string[],
  numeric: readonly boolean[],
  rows: Iterable<readonly string[]>,
): string {
  const cell = (text: string) => clean(text).replaceAll("\\", "\\\\").replaceAll("|", "\\|").replaceAll("<", "&lt;");
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(" | ")} |`;
  const lines = [line(heads), `| ${numeric.map((is) => (is ? "---:" : "---")).join(" | ")} |`];
  for (const row of rows) lines.push(line(row));
  return `${lines.join("\n")}\n`;
}

/** The clipboard's own interface needs a secure page; a file from disk is none in every browser. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "off-screen";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

let line: HTMLElement | null = null;
export function announceIn(element: HTMLElement): void {
  line = element;
}
/** Said to everyone: shown for a moment, and read out. */
export function announce(text: string): void {
  if (!line) return;
  const mine = line;
  mine.textContent = clean(text);
  mine.classList.add("shown");
  setTimeout(() => mine.classList.remove("shown"), 2500);
}

export const fileName = (text: string): string =>
  clean(text)
    .replace(/[^\w.-]+/g, "-")
    .slice(0, 80) || "ttmem";
