// SPDX-License-Identifier: Apache-2.0
// How the chart of the timeline is drawn: its axes, bands and marks, on the screen and in an exported file.

import uPlot from "uplot";
import { lowerBound } from "../data/lookup";
import { KINDS } from "../data/profile";
import type { Session } from "../session";
import { color } from "../ui/dom";
import { amount, byteSteps, byteTicks, thousands } from "../ui/format";
import { type Pen, SvgPen } from "../ui/pen";

export interface Drawn {
  x: number[];
  /** Lines from the lowest to the highest: sums of the bands, then the total, then with programs. */
  lines: number[][];
  total: number[];
}

export const BANDS = [...KINDS, "unattributed", "programs"] as const;
export const bandColor = (name: string): string => color(name === "unattributed" ? "band-none" : `band-${name}`);

/** Between two numbers of operations at an axis. */
const WHOLE_STEPS = Array.from({ length: 8 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

/** Operations below, megabytes on the left: the same for every curve over operations. */
export const axes = (): uPlot.Axis[] => [
  {
    stroke: () => color("muted"),
    size: 34,
    grid: { stroke: () => color("grid"), width: 1 },
    ticks: { show: false },
    values: (_, at) => at.map((v) => `#${thousands(v)}`),
    incrs: WHOLE_STEPS,
  },
  {
    stroke: () => color("muted"),
    grid: { stroke: () => color("grid"), width: 1 },
    ticks: { show: false },
    size: 64,
    values: (_, at, __, ___, step) => byteTicks(at, step),
    incrs: byteSteps,
  },
];

export function visible(session: Session, most: number): Drawn | null {
  const series = session.timeline?.series(session.memory);
  if (!series) return null;
  const bands = session.timeline.bands(session.memory);
  const from = Math.max(0, lowerBound(series.places, Math.floor(session.range[0])) - 1);
  const to = Math.min(series.places.length, lowerBound(series.places, Math.ceil(session.range[1]) + 1) + 1);
  const picked = series.levels.pick(from, to, most);
  const drawn: Drawn = { x: [], lines: KINDS.map(() => []), total: [] };
  drawn.lines.push([]);
  if (bands.programs) drawn.lines.push([]);
  for (const at of picked) {
    const total = series.allocated[at]!;
    drawn.x.push(series.places[at]!);
    let sum = 0;
    KINDS.forEach((_, kind) => {
      sum = Math.min(total, sum + bands.held[kind]![at]!);
      drawn.lines[kind]!.push(sum);
    });
    drawn.lines[KINDS.length]!.push(total);
    if (bands.programs) drawn.lines[KINDS.length + 1]!.push(total + bands.programs[at]!);
    drawn.total.push(total);
  }
  // The last level holds until the end of the stretch.
  if (drawn.x.length && drawn.x.at(-1)! < session.range[1]) {
    drawn.x.push(session.range[1]);
    for (const line of drawn.lines) line.push(line.at(-1)!);
    drawn.total.push(drawn.total.at(-1)!);
  }
  return drawn;
}

export function marks(u: uPlot, session: Session, capacity: number): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - 7 * uPlot.pxRatio, bbox.top, bbox.width + 14 * uPlot.pxRatio, bbox.height);
  ctx.clip();
  const ratio = uPlot.pxRatio;
  /** Readable on whatever lies below it. */
  const label = (text: string, x: number, y: number) => {
    ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
    ctx.setLineDash([]);
    ctx.lineWidth = 4 * ratio;
    ctx.lineJoin = "round";
    ctx.strokeStyle = color("panel");
    ctx.strokeText(text, x, y);
    ctx.fillStyle = color("alarm");
    ctx.fillText(text, x, y);
  };
  const vertical = (operation: number, stroke: string, dash: number[], text = "") => {
    const x = u.valToPos(operation, "x", true);
    ctx.strokeStyle = stroke;
    ctx.lineWidth = 1.5 * ratio;
    ctx.setLineDash(dash.map((d) => d * ratio));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (text) {
      ctx.textAlign = x > bbox.left + bbox.width / 2 ? "right" : "left";
      label(text, x + (ctx.textAlign === "right" ? -5 : 5) * ratio, bbox.top + bbox.height - 8 * ratio);
    }
  };
  if (capacity && capacity <= (u.scales["y"]?.max ?? 0)) {
    const y = u.valToPos(capacity, "y", true);
    ctx.strokeStyle = color("alarm");
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    ctx.lineWidth = 1.5 * ratio;
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.textAlign = "left";
    const isTight = y - bbox.top < 14 * ratio;
    label(`full bank, ${amount(capacity)}`, bbox.left + 6 * ratio, y + (isTight ? 14 : -5) * ratio);
  }
  const failed = session.profile.header.failure?.operation;
  if (failed !== null && failed !== undefined) vertical(failed, color("alarm"), [], "failed");
  vertical(session.operation, color("text"), [3, 3]);
  const peak = session.peak(session.memory);
  if (peak && peak[0] === session.timelineNumber) {
    const place = session.timeline.places[peak[1]]!;
    const bytes = session.profile.header.document.memories[session.memory]!.peak_bytes_per_bank;
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.arc(u.valToPos(place, "x", true), u.valToPos(bytes, "y", true), 4.5 * ratio, 0, 2 * Math.PI);
    ctx.fillStyle = color("panel");
    ctx.fill();
    ctx.strokeStyle = color("alarm");
    ctx.lineWidth = 2.2 * ratio;
    ctx.stroke();
  }
  ctx.restore();
}

/** The same chart for an export. */
export function svgOf(session: Session, capacity: number, highest: number): SVGSVGElement {
  const pen = new SvgPen(
    1100,
    380,
    `${session.memory} over operations of ${session.profile.header.title}`,
    color("panel"),
  );
  const drawn = visible(session, 1500);
  if (drawn) paint(pen, session, drawn, capacity, highest);
  return pen.root;
}

function paint(pen: Pen, session: Session, drawn: Drawn, capacity: number, highest: number): void {
  const [left, right, top, bottom] = [70, pen.width - 16, 26, pen.height - 36];
  const [from, to] = session.range;
  const x = (operation: number) => left + ((operation - from) / (to - from || 1)) * (right - left);
  const y = (bytes: number) => bottom - (bytes / (highest * 1.06)) * (bottom - top);
  const steps = (line: number[]) =>
    line.flatMap((value, at) => [x(drawn.x[at]!), at ? y(line[at - 1]!) : y(value), x(drawn.x[at]!), y(value)]);
  BANDS.slice(0, drawn.lines.length).forEach((name, at) => {
    const lower = at ? steps(drawn.lines[at - 1]!) : [right, bottom, x(drawn.x[0]!), bottom];
    const back: number[] = [];
    if (at) for (let i = lower.length - 2; i >= 0; i -= 2) back.push(lower[i]!, lower[i + 1]!);
    pen.area([...steps(drawn.lines[at]!), ...(at ? back : lower)], bandColor(name));
  });
  pen.line(steps(drawn.total), color("text"), 1.4);
  for (let tick = 0; tick <= 4; tick++) {
    const bytes = (highest * tick) / 4;
    pen.line([left, y(bytes), right, y(bytes)], color("grid"), 0.7);
    pen.text(left - 6, y(bytes), amount(bytes), color("muted"), { align: "right" });
    const operation = Math.round(from + ((to - from) * tick) / 4);
    pen.text(x(operation), bottom + 14, `#${thousands(operation)}`, color("muted"), {
      align: tick === 4 ? "right" : "center",
    });
  }
  if (capacity <= highest * 1.06) pen.line([left, y(capacity), right, y(capacity)], color("alarm"), 1.5, [6, 4]);
  pen.text(
    left,
    12,
    `${session.memory}, bytes per bank over operations: ${session.profile.header.title}`,
    color("text"),
    { bold: true, size: 12 },
  );
}
