// SPDX-License-Identifier: Apache-2.0
// What stands around the timeline: each memory in small, and runs and programs to its scale.

import type { Memory } from "../data/profile";
import type { Session } from "../session";
import { color, h } from "../ui/dom";
import { Figure } from "../ui/figure";
import { CanvasPen, type Pen } from "../ui/pen";

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
    return (operation: number) => 64 + ((operation - from) / (to - from || 1)) * (width - 64);
  };
  const draw = (pen: Pen) => {
    const x = place(pen.width);
    const { programs, header } = session.timeline;
    const depth = lanes();
    let end = -1;
    for (let at = 0; at < depth.length; at++) {
      const left = Math.max(64, x(programs.first_operation[at]!));
      const right = Math.min(pen.width, x(programs.end_operation[at]!));
      if (right < 64 || left > pen.width || right < left) continue;
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
        pen.text(left + 4, 10 + lane * 18, lane ? name : `run ${programs.run[at]!} ${name}`, color("text"), {
          size: 10.5,
          most: right - left - 6,
        });
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
    const operation = from + ((at - 64) / Math.max(1, figure.canvas.clientWidth - 64)) * (to - from);
    const { first_operation, end_operation } = session.timeline.programs;
    const run = session.timeline
      .tops()
      .find((top) => first_operation[top]! <= operation && operation < end_operation[top]!);
    if (run !== undefined) session.zoom(first_operation[run]!, end_operation[run]!);
  });
  return figure;
}
