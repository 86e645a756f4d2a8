// SPDX-License-Identifier: Apache-2.0
// Two profiles: curves over one another, what appeared, grew, went.

import uPlot from "uplot";
import type { Alignment, DiffHeader, MemoryChange } from "../data/document";
import { lowerBound } from "../data/lookup";
import { type Memory, MEMORIES, type Profile } from "../data/profile";
import { color, fill, h, perFrame } from "../ui/dom";
import { canvasIn, exportTools } from "../ui/figure";
import { amount, mib, percent, placeText, short, signedMib, thousands, UNKNOWN } from "../ui/format";
import { SvgPen } from "../ui/pen";
import { cards } from "./overview";
import { axes } from "./bands";
import { changesTable, countsTable, stepsOf, stepsTable, testsTable } from "./compare_tables";
import { choice, section, type View } from "./view";

const MOST_POINTS = 1500;
const NOT_ALIGNED: Alignment = { anchors: [], pairs: [] };

interface Curve {
  x: number[];
  y: number[];
}

export function compare(
  header: DiffHeader,
  before: Profile,
  after: Profile,
): View & { filter: (words: string[]) => void; step: (by: number) => void } {
  const known = header.document;
  const shown = MEMORIES.filter((memory) => memory in known.memories);
  let memory: Memory = mostChanged(header, shown);
  let plot: uPlot | null = null;
  const choices = h("div", { class: "choices", role: "group", "aria-label": "Memory" });
  const host = h("div", { class: "plot" });
  const readout = h("p", { class: "readout", "data-role": "cursor" });

  const aligned = () => header.alignments[memory] ?? NOT_ALIGNED;
  /** Operations of the first run where the second has them. */
  const moved = (operation: number): number => {
    const { anchors } = aligned();
    if (!anchors.length) return operation;
    const at = Math.max(
      0,
      lowerBound(
        anchors.map(([first]) => first),
        operation + 1,
      ) - 1,
    );
    const [first, second] = anchors[at]!;
    const next = anchors[at + 1];
    const place = second + (operation - first);
    return next ? Math.min(place, next[1]) : place;
  };
  const timelineOf = (profile: Profile) => profile.timelines[profile.header.peak_states[memory]?.[0] ?? 0];
  const whole = (): [number, number] => {
    const ranges = [before, after].map(
      (profile, side) => timelineOf(profile)?.range.map((at) => (side ? at : moved(at))) ?? [0, 1],
    );
    return [Math.min(...ranges.map((r) => r[0]!)), Math.max(...ranges.map((r) => r[1]!), 1)];
  };
  /** What both programs have; uploads before it would take half of the drawing. */
  const common = (): [number, number] | null => {
    const [first, last] = whole();
    const start = aligned().pairs[0]?.[1];
    return start === undefined || start - first < 3 ? null : [start - Math.ceil((last - start) / 50), last];
  };
  let range: [number, number] | null = common();
  const curve = (profile: Profile, side: number): Curve => {
    const series = timelineOf(profile)?.series(memory);
    if (!series) return { x: [], y: [] };
    const [from, to] = range ?? whole();
    const place = (at: number) => (side ? series.places[at]! : moved(series.places[at]!));
    let [first, end] = [0, series.places.length];
    while (first < end && place(first + 1) < from && first + 1 < end) first++;
    while (end > first && place(end - 1) > to && end - 2 > first && place(end - 2) > to) end--;
    const picked = series.levels.pick(first, end, MOST_POINTS);
    return { x: picked.map(place), y: picked.map((at) => series.allocated[at]!) };
  };
  const joined = (): { data: uPlot.AlignedData; curves: Curve[] } => {
    const curves = [curve(before, 0), curve(after, 1)];
    const tables = curves.map((one) => [one.x.map((x, at) => x + at * 1e-7), one.y] as uPlot.AlignedData);
    return { data: uPlot.join(tables.filter((table) => table[0].length) as uPlot.AlignedData[]), curves };
  };
  const make = () => {
    plot?.destroy();
    fill(host);
    const { data, curves } = joined();
    const both = curves.filter((one) => one.x.length).length;
    if (!both) {
      plot = null;
      return;
    }
    const stepped = uPlot.paths.stepped!({ align: 1 });
    const line = (name: string, dash?: number[]) => ({
      stroke: () => color(name),
      width: 1.8,
      paths: stepped,
      spanGaps: true,
      points: { show: false },
      ...(dash ? { dash } : {}),
    });
    const series = [
      curves[0]!.x.length ? line("before", [5, 3]) : null,
      curves[1]!.x.length ? line("after") : null,
    ].filter((one) => one !== null);
    plot = new uPlot(
      {
        width: host.clientWidth || 800,
        height: 320,
        legend: { show: false },
        cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
        scales: {
          x: { time: false, range: () => range ?? whole() },
          y: { range: (_, __, high) => [0, (high || 1) * 1.08] },
        },
        axes: axes(),
        series: [{}, ...series],
        hooks: {
          setSelect: [
            (u) => {
              if (u.select.width > 3) {
                range = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
                update();
              }
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
          setCursor: [
            (u) => {
              if ((u.cursor.left ?? -1) >= 0) tell(u.posToVal(u.cursor.left!, "x"));
            },
          ],
          draw: [
            ({ ctx, bbox, valToPos }) => {
              const at = valToPos(operation, "x", true);
              if (at < bbox.left || at > bbox.left + bbox.width) return;
              ctx.save();
              ctx.setLineDash([4, 4]);
              ctx.strokeStyle = color("text");
              ctx.lineWidth = devicePixelRatio;
              ctx.beginPath();
              ctx.moveTo(at, bbox.top);
              ctx.lineTo(at, bbox.top + bbox.height);
              ctx.stroke();
              ctx.restore();
            },
          ],
        },
      },
      data,
      host,
    );
    plot.over.addEventListener("dblclick", () => wholeRuns());
  };
  const wholeRuns = () => {
    range = null;
    update();
  };
  const update = perFrame(() => {
    plot?.setData(joined().data);
  });
  /** It begins where the second run is fullest. */
  const peakOperation = () => {
    const state = after.header.peak_states[memory]?.[1];
    return state === undefined ? 0 : (timelineOf(after)?.places[state] ?? 0);
  };
  let operation = peakOperation();
  const at = (profile: Profile, side: number, place: number) => {
    const timeline = timelineOf(profile);
    const series = timeline?.series(memory);
    if (!timeline || !series) return null;
    let [low, high] = [0, series.places.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((side ? series.places[middle]! : moved(series.places[middle]!)) <= place) low = middle + 1;
      else high = middle;
    }
    const found = Math.max(0, low - 1);
    const state = series.states[found]!;
    const place2 = placeText(timeline.location(timeline.stateOperation[state]!));
    return {
      bytes: series.allocated[found]!,
      label: `${timeline.stateLabel(state)}${place2 ? ` (${short(place2, 60)})` : ""}`,
    };
  };
  const tell = (place: number) => {
    operation = Math.round(place);
    readout.dataset["op"] = String(operation);
    const [first, second] = [at(before, 0, operation), at(after, 1, operation)];
    const delta = first && second ? ` · ${signedMib(second.bytes - first.bytes)} MiB` : "";
    readout.textContent = `#${thousands(operation)}: before ${first ? `${mib(first.bytes)} MiB/bank ${first.label}` : "-"} · after ${second ? `${mib(second.bytes)} MiB/bank ${second.label}` : "-"}${delta}`;
  };
  const choose = () =>
    fill(
      choices,
      ...shown.map((one) =>
        choice(
          one,
          one === memory,
          () => {
            memory = one;
            range = common();
            operation = peakOperation();
            choose();
            make();
            tell(operation);
            steps?.setRows(stepsOf(header, memory));
          },
          { "data-memory": one },
        ),
      ),
      h("button", { type: "button", class: "choice", "data-role": "zoom-out", click: () => wholeRuns() }, "Whole runs"),
    );
  choose();

  const hasSteps = Object.values(header.alignments).some((one) => one.pairs.length > 0);
  const steps = hasSteps ? stepsTable(header, before, after, () => memory) : null;
  const grew = changesTable(known.grew, "grew", "What takes more of a peak", header.title);
  const shrank = changesTable(known.shrank, "shrank", "What takes less of a peak", header.title);
  const counts = countsTable(header);
  const tests = header.tests.length ? testsTable(header) : null;
  const swatch = (name: string, text: string) => {
    const mark = h("span", { class: "swatch", "aria-hidden": "true" });
    mark.style.background = `var(--${name})`; // of whatever theme is on
    return h("span", { class: "legend-item" }, mark, text);
  };
  const svg = () => {
    const pen = new SvgPen(1100, 360, `${memory}: ${known.before} and ${known.after}`, color("panel"));
    const { curves } = joined();
    const [from, to] = range ?? whole();
    const top = Math.max(1, ...curves.flatMap((one) => one.y)) * 1.08;
    curves.forEach((one, side) => {
      const points: number[] = [];
      one.x.forEach((x, i) => {
        const px = 70 + ((x - from) / (to - from || 1)) * 1010;
        if (points.length) points.push(px, points.at(-1)!);
        points.push(px, 330 - (one.y[i]! / top) * 300);
      });
      pen.line(points, color(side ? "after" : "before"), 1.8, side ? [] : [5, 3]);
      pen.text(
        80 + side * 400,
        14,
        `${side ? "after" : "before"}: ${side ? known.after : known.before}`,
        color(side ? "after" : "before"),
        { most: 380 },
      );
    });
    for (let tick = 0; tick <= 4; tick++)
      pen.text(64, 330 - (300 * tick) / 4, amount((top * tick) / 4), color("muted"), { align: "right" });
    return pen.root;
  };
  const figure = h("div", { class: "chart" }, host);
  const legend = h(
    "div",
    { class: "legend" },
    swatch("before", `before: ${known.before}`),
    swatch("after", `after: ${known.after}`),
  );
  const exports = exportTools(`${header.title}-compare`, "comparison", canvasIn(host), svg);
  figure.append(h("div", { class: "chart-foot" }, legend, exports));
  /** How full the bank was, which compares where boards do not. */
  const shares = (one: Memory) => {
    const [first, second] = [before, after].map(
      (profile) => profile.header.document.memories[one]?.peak_percent ?? null,
    );
    return first === null || second === null ? "" : `; of a bank ${percent(first!)} → ${percent(second!)}`;
  };
  const element = section(
    "compare",
    "What changed?",
    header.subtitle,
    known.remarks.length > 0 &&
      h(
        "ul",
        { class: "notes" },
        known.remarks.map((text) => h("li", {}, text)),
      ),
    cards(
      shown.map((one) => {
        const change = known.memories[one]!;
        const grown = change.delta_bytes_per_bank;
        return {
          title: `Peak ${one}`,
          figure: signedMib(grown),
          unit: grown === null ? "" : "MiB / bank",
          detail: peaksText(change) + shares(one),
          bar_percent: null,
          level: grown === null || grown > 0 ? ("warn" as const) : ("ok" as const),
        };
      }),
    ),
    choices,
    figure,
    readout,
    h(
      "p",
      { class: "muted" },
      steps
        ? "Two programs of one model: steps with the same operator and the same number of elements are aligned."
        : aligned().anchors.length
          ? "Matching operations are aligned."
          : "Operations are counted from the start of each run.",
    ),
    tests && h("h3", { class: "sub" }, "Tests that need more or less"),
    tests && tests.element,
    steps && h("h3", { class: "sub" }, "Step by step"),
    steps && steps.element,
    h("h3", { class: "sub" }, "What takes more of a peak"),
    grew.element,
    h("h3", { class: "sub" }, "What takes less of a peak"),
    shrank.element,
    known.operation_counts.length > 0 && h("h3", { class: "sub" }, "Operations that ran more or less often"),
    known.operation_counts.length > 0 && counts.element,
  );
  new ResizeObserver(() => {
    if (plot && host.clientWidth > 10 && Math.abs(host.clientWidth - plot.width) > 1)
      plot.setSize({ width: host.clientWidth, height: plot.height });
  }).observe(host);
  return {
    name: "compare",
    title: "Compare",
    element,
    redraw: () => {
      make();
      tell(operation);
    },
    filter: (words) => {
      for (const table of [grew, shrank, counts, steps, tests]) table?.filter(words);
    },
    step: (by) => {
      const [first, last] = whole();
      tell(Math.min(last, Math.max(first, operation + by)));
      plot?.redraw(false);
    },
  };
}

/** `1.000 → 2.000 MiB (100.0%)`; without a share where one of the peaks is not known. */
export function peaksText(change: MemoryChange): string {
  const [before, after] = [change.before, change.after].map((peak) => (peak === null ? UNKNOWN : mib(peak)));
  if (change.delta_bytes_per_bank === null) return `${before} → ${after} MiB`;
  return `${before} → ${after} MiB (${change.delta_percent === null ? "new" : percent(change.delta_percent)})`;
}

/** What the page opens with: the first memory whose peak changed, else the first that holds anything. */
function mostChanged({ document: known }: DiffHeader, shown: Memory[]): Memory {
  const changed = shown.filter((memory) => (known.memories[memory]!.delta_bytes_per_bank ?? 0) !== 0);
  const held = shown.filter((memory) => (known.memories[memory]!.before || known.memories[memory]!.after || 0) > 0);
  return changed[0] ?? held[0] ?? shown[0] ?? "DRAM";
}
