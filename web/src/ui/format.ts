// SPDX-License-Identifier: Apache-2.0
// How the page writes amounts and names: as reports/kit/units.py does.

const MIB = 1048576;
const SHORT: Record<string, string> = {
  bfloat16: "bf16",
  float32: "f32",
  bfloat8_b: "bfp8",
  bfloat4_b: "bfp4",
  float16: "f16",
  int32: "si32",
  uint32: "ui32",
  uint16: "ui16",
  uint8: "ui8",
};

const grouped = new Map<number, Intl.NumberFormat>();

export function fixed(value: number, decimals: number): string {
  let format = grouped.get(decimals);
  if (!format) {
    // As Python rounds, so that the page and the terminal print the same digits.
    const options = { minimumFractionDigits: decimals, maximumFractionDigits: decimals, roundingMode: "halfEven" };
    format = new Intl.NumberFormat("en-US", options as Intl.NumberFormatOptions);
    grouped.set(decimals, format);
  }
  return format.format(value);
}

export const mib = (bytes: number, decimals = 3): string => fixed(bytes / MIB, decimals);
export const UNKNOWN = "unknown";
export const signedMib = (bytes: number | null): string =>
  bytes === null ? UNKNOWN : (bytes > 0 ? "+" : bytes < 0 ? "-" : "") + mib(Math.abs(bytes));
/** From one figure to another; null where one of them is not known. */
export const difference = (before: number | null, after: number | null): number | null =>
  before === null || after === null ? null : after - before;
export const thousands = (count: number): string => fixed(count, 0);
export const percent = (share: number | null, decimals = 1): string =>
  share === null ? "-" : `${fixed(share, decimals)}%`;
export const counted = (count: number, noun: string): string => `${thousands(count)} ${noun}${count === 1 ? "" : "s"}`;

/** A figure that reads at a glance: 12.5 MiB, 640 B. */
export function amount(bytes: number): string {
  const size = Math.abs(bytes);
  if (size >= 1024 * MIB) return `${fixed(bytes / MIB / 1024, 2)} GiB`;
  if (size >= MIB / 10) return `${fixed(bytes / MIB, size >= 100 * MIB ? 1 : 2)} MiB`;
  return size >= 10240 ? `${fixed(bytes / 1024, 1)} KiB` : `${fixed(bytes, 0)} B`;
}

/** Steps of an axis of bytes that read well, each in one unit. */
export function byteSteps(): number[] {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200];
  return [...steps, 500].concat(
    steps.slice(0, 6).map((step) => step * 1024),
    [0.1, 0.2, 0.5, ...steps].map((step) => step * MIB),
    [0.5, ...steps, 500].map((step) => step * 1024 * MIB),
  );
}

/** What stands at the ticks of such an axis: all in the unit of its step. */
export function byteTicks(values: readonly number[], step: number): string[] {
  const [unit, name] =
    step >= 512 * MIB ? [1024 * MIB, "GiB"] : step >= MIB / 10 ? [MIB, "MiB"] : step >= 1024 ? [1024, "KiB"] : [1, "B"];
  const decimals = step / unit < 1 ? 1 : 0;
  return values.map((value) => (value ? `${fixed(value / unit, decimals)} ${name}` : "0"));
}

/** A place in a file without the folders that all of them share: the last one and the file. */
export const placeText = (location: string): string =>
  location.replace(/(?:[^\s/:|"']*\/)+([^\s/:|"']+\/[^\s/:|"']+\.\w+)(?=:\d|$)/g, "$1");

export const shapeText = (shape: readonly number[], dtype = ""): string =>
  (shape.join("x") || "scalar") + (dtype ? ` (${SHORT[dtype] ?? dtype})` : "");

/** Texts come from logs: no control, escape or bidi character reaches the screen, a file or the clipboard. */
export const clean = (text: string): string => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, " ");

/** Cut in the middle, more of the head than of the tail. */
export function short(text: string, width = 160): string {
  const tidy = clean(text).replace(/\s+/g, " ").trim();
  if (tidy.length <= width) return tidy;
  const tail = Math.floor(((width - 1) * 2) / 3);
  return `${tidy.slice(0, width - 1 - tail)}…${tidy.slice(tidy.length - tail)}`;
}
