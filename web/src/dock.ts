// SPDX-License-Identifier: Apache-2.0
// The bar at the lower edge: the whole run in small, the cursor on it, and what is there. It moves all views at once.

import type { Session } from "./session";
import { color, h, perFrame } from "./ui/dom";
import { mib, percent, placeText, signedMib, thousands } from "./ui/format";
import { CanvasPen } from "./ui/pen";

export function dock(session: Session): { element: HTMLElement; redraw: () => void } {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const slider = h("input", { type: "range", "aria-label": "Operation at the cursor", "data-role": "scrubber" });
  const text = h("output", { class: "cursor-text", "data-role": "cursor" });
  const scrub = h("div", { class: "scrub" }, canvas, slider);
  let width = 0;
  const button = (label: string, name: string, act: () => void) =>
    h("button", { type: "button", class: "icon", "aria-label": name, title: name, click: act }, label);
  const element = h(
    "div",
    { class: "dock", role: "region", "aria-label": "Cursor" },
    h(
      "div",
      { class: "dock-row" },
      button("⇤", "Previous peak (p)", () => session.stepPeak(-1)),
      button("‹", "Previous operation (left)", () => session.toOperation(session.operation - 1)),
      text,
      button("›", "Next operation (right)", () => session.toOperation(session.operation + 1)),
      button("⇥", "Next peak (n)", () => session.stepPeak(1)),
    ),
    scrub,
  );
  slider.addEventListener("input", () => session.toOperation(Number(slider.value)));
  const draw = () => {
    if (width < 10 || !session.timeline) return;
    const pen = new CanvasPen(canvas, width, 34);
    const [first, last] = session.timeline.range;
    const x = (operation: number) => ((operation - first) / (last - first || 1)) * width;
    const series = session.timeline.series(session.memory);
    if (series) {
      const top = Math.max(1, series.allocated[series.levels.extremes(0, series.allocated.length)[1]]!);
      const points: number[] = [];
      for (const at of series.levels.pick(0, series.allocated.length, Math.max(100, width))) {
        if (points.length) points.push(x(series.places[at]!), points.at(-1)!);
        points.push(x(series.places[at]!), 33 - (series.allocated[at]! / top) * 29);
      }
      if (points.length) {
        points.push(width, points.at(-1)!);
        pen.area([...points, width, 34, points[0]!, 34], color("accent"), 0.2);
        pen.line(points, color("accent"), 1);
      }
    }
    const [from, to] = session.range;
    if (from > first || to < last) {
      pen.rect(0, 0, x(from), 34, color("panel"), 0.65);
      pen.rect(x(to), 0, width - x(to), 34, color("panel"), 0.65);
    }
    pen.rect(x(session.operation) - 1, 0, 2, 34, color("text"));
  };
  const show = () => {
    if (!session.timeline) return;
    const [first, last] = session.timeline.range;
    slider.min = String(first);
    slider.max = String(last);
    slider.value = String(session.operation);
    const { operation, state, memory, timeline } = session;
    const figures = session.profile.figures(session.timelineNumber, memory, state);
    const change = timeline.changeAt(memory, operation);
    const parts = [state >= 0 ? timeline.stateLabel(state) : timeline.label(operation)];
    if (figures)
      parts.push(
        `${memory} ${mib(figures[2]!)} MiB/bank (${percent(figures[1] ? (100 * figures[2]!) / figures[1] : null)})`,
      );
    if (change) parts.push(`${signedMib(change)} MiB by this operation`);
    const place = timeline.location(operation);
    if (place) parts.push(placeText(place));
    text.dataset["op"] = String(operation);
    text.dataset["state"] = String(state);
    if (figures) text.dataset["bytes"] = String(figures[2]);
    text.textContent = parts.join(" · ").replace(/[\p{C}]/gu, " ");
    slider.setAttribute("aria-valuetext", `operation ${thousands(operation)}, ${text.textContent}`);
    draw();
  };
  const later = perFrame(show);
  session.on(["cursor", "memory", "range", "theme"], later);
  new ResizeObserver((seen) => {
    width = seen[0]!.contentRect.width;
    later();
  }).observe(scrub);
  return { element, redraw: show };
}
