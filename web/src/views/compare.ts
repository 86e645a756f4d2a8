// SPDX-License-Identifier: Apache-2.0
// Two profiles: curves over one another, what appeared, grew, went.

import uPlot from "uplot";
import type { DiffHeader, TensorChange } from "../data/document";
import { lowerBound } from "../data/lookup";
import { type Memory, MEMORIES, type Profile } from "../data/profile";
import { color, fill, h, perFrame } from "../ui/dom";
import { canvasIn, exportTools } from "../ui/figure";
import { amount, mib, percent, placeText, shapeText, short, signedMib, thousands } from "../ui/format";
import { SvgPen } from "../ui/pen";
import { Table } from "../ui/table";
import { cards } from "./overview";
import { axes } from "./bands";
import { choice, section, type View } from "./view";

const MOST_POINTS = 1500;

interface Curve {
  x: number[];
  y: number[];
}

export function compare(
  header: DiffHeader,
  before: Profile,
  after: Profile,
): View & { filter: (words: string[]) => void; step: (direction: 1 | -1) => void } {
  const known = header.document;
  const shown = MEMORIES.filter((memory) => memory in known.memories);
  let memory: Memory = mostChanged(header, shown);
  let plot: uPlot | null = null;
  const choices = h("div", { class: "choices", role: "group", "aria-label": "Memory" });
  const host = h("div", { class: "plot" });
  const readout = h("p", { class: "readout", "data-role": "cursor" });

  /** Operations of the first run where the second has them. */
  const moved = (operation: number): number => {
    const { anchors } = header;
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
    const start = header.pairs[0]?.[1];
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
  let operation = 0;
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
    const delta = first && second ? ` · ${signedMib(second.bytes - first.bytes)} MB` : "";
    readout.textContent = `#${thousands(operation)}: before ${first ? `${mib(first.bytes)} MB/bank ${first.label}` : "-"} · after ${second ? `${mib(second.bytes)} MB/bank ${second.label}` : "-"}${delta}`;
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
            choose();
            make();
            steps?.redraw();
          },
          { "data-memory": one },
        ),
      ),
      h("button", { type: "button", class: "choice", "data-role": "zoom-out", click: () => wholeRuns() }, "Whole runs"),
    );
  choose();

  const changes = (list: TensorChange[], key: string, title: string) => {
    const typeText = (change: TensorChange) => {
      const text = (type: { shape: number[]; dtype: string } | null) => (type ? shapeText(type.shape, type.dtype) : "");
      const [old, now] = [text(change.before), text(change.after)];
      return old && now && old !== now ? `${now} (was ${old})` : now || old;
    };
    return new Table<number>({
      key,
      label: title,
      file: header.title,
      rows: list.map((_, at) => at),
      empty: key === "grew" ? "Nothing takes more." : "Nothing takes less.",
      columns: [
        { head: "Memory", kind: "text", text: (at) => list[at]!.memory },
        { head: "Tensor", kind: "name", text: (at) => list[at]!.tensor },
        ...(list.some((one) => one.counterpart)
          ? [{ head: "In the other run", kind: "name" as const, text: (at: number) => list[at]!.counterpart || "-" }]
          : []),
        { head: "Why", kind: "text", text: (at) => list[at]!.reason },
        { head: "Shape", kind: "text", text: (at) => typeText(list[at]!) },
        {
          head: "MB/bank",
          kind: "number",
          text: (at) => signedMib(list[at]!.delta_bytes_per_bank),
          value: (at) => list[at]!.delta_bytes_per_bank,
        },
        {
          head: "Bytes",
          kind: "number",
          text: (at) => thousands(list[at]!.delta_bytes),
          value: (at) => list[at]!.delta_bytes,
        },
        {
          head: "Operation",
          kind: "name",
          text: (at) =>
            `${list[at]!.operation.index === null ? "" : `#${list[at]!.operation.index} `}${list[at]!.operation.name}`,
        },
        {
          head: "Location",
          kind: "name",
          text: (at) => list[at]!.operation.location || "-",
          shown: (at) => placeText(list[at]!.operation.location) || "-",
        },
      ],
    });
  };
  const counts = new Table<number>({
    key: "counts",
    label: "Operations that ran more or less often",
    file: header.title,
    rows: known.operation_counts.map((_, at) => at),
    columns: [
      { head: "Operation", kind: "name", text: (at) => known.operation_counts[at]!.name },
      {
        head: "Before",
        kind: "number",
        text: (at) => thousands(known.operation_counts[at]!.before),
        value: (at) => known.operation_counts[at]!.before,
      },
      {
        head: "After",
        kind: "number",
        text: (at) => thousands(known.operation_counts[at]!.after),
        value: (at) => known.operation_counts[at]!.after,
      },
    ],
  });
  const steps = header.pairs.length ? stepsTable(header, before, after, () => memory) : null;
  const grew = changes(known.grew, "grew", "What takes more of a peak");
  const shrank = changes(known.shrank, "shrank", "What takes less of a peak");
  const swatch = (name: string, text: string) => {
    const mark = h("span", { class: "swatch", "aria-hidden": "true" });
    mark.style.background = color(name);
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
  const element = section(
    "compare",
    "What changed?",
    header.subtitle,
    cards(
      shown.map((one) => {
        const change = known.memories[one]!;
        const grown = change.delta_bytes_per_bank;
        return {
          title: `Peak ${one}`,
          figure: signedMib(grown),
          unit: "MB / bank",
          detail: `${change.before === null ? "-" : mib(change.before)} → ${change.after === null ? "-" : mib(change.after)} MB (${change.delta_percent === null ? "new" : percent(change.delta_percent)})`,
          bar_percent: null,
          level: grown > 0 ? ("warn" as const) : ("ok" as const),
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
        ? "Two programs of one model: steps with the same operator and the same number of elements lie above each other."
        : header.anchors.length
          ? "Operations of both runs that are the same one lie above each other."
          : "Operations are counted from the start of each run.",
    ),
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
      for (const table of [grew, shrank, counts, steps]) table?.filter(words);
    },
    step: (direction) => tell(operation + direction),
  };
}

/** What the page opens with: the first memory whose peak changed, else the first that holds anything. */
function mostChanged({ document: known }: DiffHeader, shown: Memory[]): Memory {
  const changed = shown.filter((memory) => known.memories[memory]!.delta_bytes_per_bank !== 0);
  const held = shown.filter((memory) => (known.memories[memory]!.before || known.memories[memory]!.after || 0) > 0);
  return changed[0] ?? held[0] ?? shown[0] ?? "DRAM";
}

/** Every step that both programs have: what ran there, and how full the memory was before it. */
function stepsTable(header: DiffHeader, before: Profile, after: Profile, memory: () => Memory): Table<number> {
  const { pairs } = header;
  const sides = [before.timelines[0]!, after.timelines[0]!];
  const level = (side: 0 | 1, at: number): number | null => {
    const [profile, timeline] = [side ? after : before, sides[side]!];
    return profile.figures(0, memory(), timeline.stateBefore(pairs[at]![side]))?.[2] ?? null;
  };
  const delta = (at: number) => (level(1, at) ?? 0) - (level(0, at) ?? 0);
  const columns = ([0, 1] as const).flatMap((side) => {
    const name = side ? "After" : "Before";
    const operation = (at: number) => sides[side]!.label(pairs[at]![side]);
    const place = (at: number) => sides[side]!.location(pairs[at]![side]) || "-";
    const bytes = (at: number) => level(side, at);
    return [
      { head: `${name}: operation`, kind: "name" as const, text: operation, value: (at: number) => at },
      { head: "Where", kind: "name" as const, text: place, shown: (at: number) => placeText(place(at)) },
      {
        head: "MB/bank",
        kind: "number" as const,
        text: (at: number) => (bytes(at) === null ? "-" : mib(bytes(at)!)),
        value: (at: number) => bytes(at) ?? -1,
      },
    ];
  });
  return new Table<number>({
    key: "steps",
    label: "Steps that both have",
    file: header.title,
    rows: pairs.map((_, at) => at),
    height: 360,
    columns: [...columns, { head: "Difference", kind: "number", text: (at) => signedMib(delta(at)), value: delta }],
  });
}
