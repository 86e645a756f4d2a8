// SPDX-License-Identifier: Apache-2.0
// What stands around the timeline: each memory in small, and ranks, runs and programs to its scale.

import type { Memory } from "../data/profile";
import type { Session } from "../session";
import { color, h } from "../ui/dom";
import { Figure } from "../ui/figure";
import { amount, counted, thousands } from "../ui/format";
import { CanvasPen, type Pen } from "../ui/pen";

/** Where the chart begins, behind its axis, and how far from the right edge it ends. */
export const [LEFT, RIGHT] = [64, 22];
const MOST_RANKS = 64;

/** Numbers of operations below a drawing that begins and ends where the chart does. */
export function operationAxis(pen: Pen, from: number, to: number, y: number): void {
  const room = pen.width - LEFT - RIGHT;
  const least = ((to - from) / Math.max(1, room)) * 84;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  const step = Math.max(1, [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least) ?? 1);
  for (let at = Math.ceil(from / step) * step; at <= to; at += step)
    pen.text(LEFT + ((at - from) / (to - from || 1)) * room, y, `#${thousands(at)}`, color("muted"), {
      align: "center",
    });
}

/** What each colour of a drawing stands for. */
export function legendOf(entries: [string, string][]): HTMLElement[] {
  return entries.map(([name, fill]) => {
    const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = fill;
    return h("span", { class: "legend-item" }, swatch, name);
  });
}

/** One memory in small, for the button that chooses it. */
export function spark(session: Session, memory: Memory): { canvas: HTMLCanvasElement; draw: () => void } {
  const canvas = h("canvas", { class: "spark", "aria-hidden": "true" });
  const draw = () => {
    const series = session.timeline?.series(memory);
    const pen = new CanvasPen(canvas, 110, 26);
    if (!series) return;
    const picked = series.levels.pick(0, series.allocated.length, 160);
    const [first, last] = session.timeline.range;
    const top = Math.max(1, series.allocated[series.levels.extremes(0, series.allocated.length)[1]]!);
    const points: number[] = [];
    for (const at of picked) {
      const x = ((series.places[at]! - first) / (last - first || 1)) * 110;
      if (points.length) points.push(x, points.at(-1)!);
      points.push(x, 25 - (series.allocated[at]! / top) * 22);
    }
    if (!points.length) return;
    points.push(110, points.at(-1)!);
    pen.area([...points, 110, 26, points[0]!, 26], color("accent"), 0.18);
    pen.line(points, color("accent"), 1.2);
  };
  return { canvas, draw };
}

/** Runs, and the programs inside them, below the chart and to its scale. */
export function trackFigure(session: Session): Figure {
  const lanes = () => {
    const { parent } = session.timeline.programs;
    const depth: number[] = [];
    for (let at = 0; at < parent.length; at++)
      depth[at] = parent[at]! < 0 ? 0 : Math.min(3, (depth[parent[at]!] ?? 0) + 1);
    return depth;
  };
  const place = (width: number) => {
    const [from, to] = session.range;
    return (operation: number) => LEFT + ((operation - from) / (to - from || 1)) * (width - LEFT - RIGHT);
  };
  const draw = (pen: Pen) => {
    const x = place(pen.width);
    const { programs, header } = session.timeline;
    const depth = lanes();
    let end = -1;
    for (let at = 0; at < depth.length; at++) {
      const left = Math.max(LEFT, x(programs.first_operation[at]!));
      const right = Math.min(pen.width - RIGHT, x(programs.end_operation[at]!));
      if (right < LEFT || left > pen.width - RIGHT || right < left) continue;
      const lane = depth[at]!;
      if (lane === 0 && right - left < 0.6 && left - end < 0.6) continue; // a thousand runs in one pixel are one
      end = left;
      pen.rect(
        left,
        2 + lane * 18,
        Math.max(1, right - left - 0.5),
        15,
        color(lane ? "band-uploads" : "accent"),
        lane ? 0.55 : programs.run[at]! % 2 ? 0.28 : 0.42,
      );
      if (right - left > 40) {
        const name = header.program_names[at] ?? "";
        const told = lane ? name : `run ${programs.run[at]!} ${name}`;
        pen.text(left + 4, 10 + lane * 18, told, color("text"), { size: 10.5, most: right - left - 6, isName: true });
      }
    }
    if (depth.length) pen.text(58, 10, "runs", color("muted"), { align: "right" });
    if (depth.some((one) => one > 0)) pen.text(58, 28, "programs", color("muted"), { align: "right" });
  };
  const figure = new Figure({
    label: "Runs and programs",
    file: "programs",
    height: () => 4 + 18 * (Math.max(-1, ...lanes().slice(0, 10000)) + 1),
    draw,
    describe: () => `${session.timeline.tops().length} runs`,
  });
  figure.canvas.addEventListener("click", (event) => {
    const [at] = figure.place(event);
    const [from, to] = session.range;
    const operation = from + ((at - LEFT) / Math.max(1, figure.canvas.clientWidth - LEFT - RIGHT)) * (to - from);
    const { first_operation, end_operation } = session.timeline.programs;
    const run = session.timeline
      .tops()
      .find((top) => first_operation[top]! <= operation && operation < end_operation[top]!);
    if (run !== undefined) session.zoom(first_operation[run]!, end_operation[run]!);
  });
  return figure;
}

export const rankName = (session: Session, at: number): string => {
  const { rank } = session.profile.timelines[at]!.header;
  return rank >= 0 ? `rank ${rank}` : `process ${at}`;
};

/** The memory that is shown, for every rank (or device of a mesh) on one scale: each from its own first operation. */
export function rankFigure(session: Session): Figure | null {
  const { timelines } = session.profile;
  if (timelines.length < 2) return null;
  const shown = timelines.slice(0, MOST_RANKS);
  const lane = shown.length <= 8 ? 26 : shown.length <= 24 ? 16 : 11;
  const peak = (at: number) => {
    const series = shown[at]!.series(session.memory);
    return series ? series.allocated[series.levels.extremes(0, series.allocated.length)[1]]! : 0;
  };
  const draw = (pen: Pen) => {
    const [from, to] = session.range.map((one) => one - session.timeline.first) as [number, number];
    const peaks = shown.map((_, at) => peak(at));
    const top = Math.max(1, ...peaks);
    const right = pen.width - RIGHT;
    const within = (x: number) => Math.min(right, Math.max(LEFT, x));
    shown.forEach((one, at) => {
      const [upper, bottom] = [at * lane + 1, (at + 1) * lane - 2];
      const isChosen = at === session.timelineNumber;
      pen.rect(LEFT, upper, right - LEFT, lane - 3, color("grid"), isChosen ? 0.9 : 0.35);
      pen.text(LEFT - 6, bottom - lane / 2 + 1, rankName(session, at), color(isChosen ? "text" : "muted"), {
        align: "right",
        size: Math.min(10.5, lane - 1),
        bold: isChosen,
      });
      const series = one.series(session.memory);
      if (!series) return;
      const x = (place: number) => within(LEFT + ((place - one.first - from) / (to - from || 1)) * (right - LEFT));
      const points: number[] = [];
      for (const state of series.levels.pick(0, series.allocated.length, 1200)) {
        const left = x(series.places[state]!);
        if (points.length) points.push(left, points.at(-1)!);
        points.push(left, bottom - (series.allocated[state]! / top) * (lane - 4));
      }
      if (!points.length) return;
      const end = x(one.end);
      points.push(end, points.at(-1)!);
      pen.area([...points, end, bottom, points[0]!, bottom], color("accent"), isChosen ? 0.55 : 0.3);
      pen.line(points, color("accent"), isChosen ? 1.6 : 1);
      if (lane < 12) return;
      pen.rect(LEFT + 1, upper, 54, 13, color("panel"), 0.8);
      pen.text(LEFT + 4, upper + 7, amount(peaks[at]!), color("text"), { size: 10 });
    });
  };
  const figure = new Figure({
    label: "Ranks",
    file: "ranks",
    height: () => shown.length * lane + 2,
    draw,
    describe: () =>
      `${counted(timelines.length, "rank")}, peaks of ${session.memory}: ${shown
        .slice(0, 16)
        .map((_, at) => `${rankName(session, at)} ${amount(peak(at))}`)
        .join(", ")}`,
  });
  figure.canvas.addEventListener("click", (event) => {
    const [across, down] = figure.place(event);
    const at = Math.floor(down / lane);
    if (at < 0 || at >= shown.length) return;
    const [from, to] = session.range;
    const share = Math.max(0, (across - LEFT) / Math.max(1, figure.canvas.clientWidth - LEFT - RIGHT));
    const offset = from + share * (to - from) - session.timeline.first;
    if (at !== session.timelineNumber) session.chooseTimeline(at);
    session.toOperation(shown[at]!.first + offset);
  });
  return figure;
}
