// SPDX-License-Identifier: Apache-2.0
// When? One memory over the operations, with who held it; brush to zoom, click to look at a moment.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { lowerBound } from "../data/lookup";
import { KINDS, type Memory } from "../data/profile";
import type { Session } from "../session";
import { color, fill, h, perFrame } from "../ui/dom";
import { canvasIn, exportTools } from "../ui/figure";
import { amount, mib, percent, short, signedMib, thousands } from "../ui/format";
import { type Pen, SvgPen } from "../ui/pen";
import { processChoice, ranksTable, runsTable } from "./runs";
import { rankFigure, RIGHT, spark, trackFigure } from "./tracks";
import { choice, section, type View } from "./view";

const MOST_POINTS = 3000;
const CAPACITY_FROM = 0.4; // below this the line of the full bank would press the curve flat against the floor

interface Drawn {
  x: number[];
  /** Lines from the lowest to the highest: sums of the bands, then the total, then with programs. */
  lines: number[][];
  total: number[];
}

export const BANDS = [...KINDS, "unattributed", "programs"] as const;
export const bandColor = (name: string): string => color(name === "unattributed" ? "band-none" : `band-${name}`);

export function timeline(session: Session): View {
  const host = h("div", { class: "plot" });
  const legend = h("div", { class: "legend" });
  const readout = h("p", { class: "readout", "data-role": "readout" });
  const memories = h("div", { class: "choices memories", role: "group", "aria-label": "Memory" });
  const processes = processChoice(session);
  const zoomed = h("span", { class: "muted", "data-role": "range" });
  const sparks = session.profile.memories.map((memory) => spark(session, memory));
  let plot: uPlot | null = null;

  const capacity = () => session.profile.header.document.memories[session.memory]?.bytes_per_bank ?? 0;
  const highest = () => {
    const series = session.timeline.series(session.memory);
    if (!series) return 1;
    const top = series.allocated[series.levels.extremes(0, series.allocated.length)[1]]!;
    const programs = session.timeline.bands(session.memory).programs;
    let high = top;
    if (programs)
      for (let at = 0; at < programs.length; at++) high = Math.max(high, series.allocated[at]! + programs[at]!);
    return Math.max(1, capacity() && high >= capacity() * CAPACITY_FROM ? Math.max(high, capacity()) : high);
  };

  const make = () => {
    plot?.destroy();
    const drawn = visible(session, MOST_POINTS);
    fill(legend, ...legendItems(drawn));
    if (!drawn) {
      fill(host, h("p", { class: "muted" }, `No state of ${session.memory} was recorded.`));
      plot = null;
      return;
    }
    fill(host);
    const names = lineNames(drawn);
    const stepped = uPlot.paths.stepped!({ align: 1 });
    const options: uPlot.Options = {
      width: host.clientWidth || 800,
      height: Math.max(220, Math.min(340, window.innerHeight * 0.42)),
      padding: [10, RIGHT, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
      scales: { x: { time: false, range: () => session.range }, y: { range: () => [0, highest() * 1.06] } },
      axes: axes(),
      series: [
        {},
        ...names.map((name) => ({
          paths: stepped,
          points: { show: false },
          stroke: () => (name === "total" ? color("text") : "transparent"),
          width: name === "total" ? 1.4 : 0,
        })),
      ],
      bands: names
        .flatMap((name, at) =>
          name === "total" ? [] : [{ series: [at + 1, at] as [number, number], fill: () => bandColor(name) }],
        )
        .filter((band) => band.series[1] > 0),
      hooks: {
        setSelect: [
          (u) => {
            if (u.select.width > 3)
              session.zoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        setCursor: [(u) => hover(u)],
        draw: [(u) => marks(u, session, capacity())],
      },
    };
    plot = new uPlot(options, data(drawn), host);
    plot.over.addEventListener("click", (event) => {
      const [left] = [event.clientX - plot!.over.getBoundingClientRect().left];
      const at = nearest(session, plot!.posToVal(left, "x"));
      if (at >= 0) session.toState(session.timeline.series(session.memory)!.states[at]!);
    });
    plot.over.addEventListener("dblclick", () => session.zoomOut());
  };
  const hover = (u: uPlot) => {
    const left = u.cursor.left ?? -1;
    if (left < 0) return;
    readout.textContent = momentText(session, nearest(session, u.posToVal(left, "x")));
  };
  const update = perFrame(() => {
    if (!plot) return;
    const drawn = visible(session, MOST_POINTS);
    if (drawn) plot.setData(data(drawn));
    tracks.redraw();
    ranked?.redraw();
    whereText();
  });
  const whereText = () => {
    const [from, to] = session.range;
    const [first, last] = session.timeline.range;
    const whole = from <= first && to >= last;
    zoomed.textContent = whole
      ? `all of #${thousands(first)} to #${thousands(last)}`
      : `#${thousands(Math.ceil(from))} to #${thousands(Math.floor(to))}`;
  };
  const tracks = trackFigure(session);
  const ranked = rankFigure(session);
  const chooseMemories = () => {
    fill(
      memories,
      ...session.profile.memories.map((memory, at) => {
        const button = choice(memory, memory === session.memory, () => session.chooseMemory(memory), {
          "data-memory": memory,
        });
        button.append(sparks[at]!.canvas, h("span", { class: "muted" }, peakText(session, memory)));
        return button;
      }),
    );
    for (const one of sparks) one.draw();
  };
  const redraw = () => {
    chooseMemories();
    make();
    tracks.element.hidden = !session.timeline?.programs.parent.length;
    tracks.draw();
    ranked?.draw();
    whereText();
    readout.textContent = momentText(session, nearest(session, session.operation));
  };
  session.on(["memory", "theme"], redraw);
  session.on(["range"], update);
  session.on(
    ["cursor"],
    perFrame(() => {
      plot?.redraw(false);
      readout.textContent = momentText(session, stateAt(session));
    }),
  );

  const zoomTools = h(
    "div",
    { class: "choices" },
    h("button", { type: "button", class: "choice", click: () => session.zoomBy(0.5), "aria-label": "Zoom in" }, "+"),
    h("button", { type: "button", class: "choice", click: () => session.zoomBy(2), "aria-label": "Zoom out" }, "−"),
    h(
      "button",
      { type: "button", class: "choice", "data-role": "zoom-out", click: () => session.zoomOut() },
      "Whole run",
    ),
    h(
      "button",
      {
        type: "button",
        class: "choice",
        click: () => {
          session.toPeak(session.memory);
        },
      },
      "To the peak",
    ),
    zoomed,
  );
  const frame = h(
    "div",
    { class: "chart" },
    host,
    exportTools(`${session.profile.header.title}-${session.memory}`, "timeline", canvasIn(host), () =>
      svgOf(session, capacity(), highest()),
    ),
  );
  const runs = runsTable(session);
  const ranks = ranksTable(session);
  const element = section(
    "timeline",
    "When?",
    "Bytes per bank over operations. Drag over the chart to zoom, click to look at a moment, double click for the whole run.",
    processes,
    memories,
    zoomTools,
    frame,
    legend,
    readout,
    tracks.element,
    ranked && ranked.element,
    runs &&
      h(
        "details",
        {},
        h("summary", {}, "Runs"),
        h("p", { class: "muted" }, session.profile.header.remarks["runs"] ?? ""),
        runs.element,
      ),
    ranks && h("details", {}, h("summary", {}, "Ranks"), ranks.element),
  );
  session.on(["search"], () => {
    runs?.filter(session.words);
    ranks?.filter(session.words);
  });
  new ResizeObserver(() => {
    if (plot && host.clientWidth > 10 && Math.abs(host.clientWidth - plot.width) > 1)
      plot.setSize({ width: host.clientWidth, height: plot.height });
    for (const one of sparks) one.draw();
  }).observe(host);
  return { name: "timeline", title: "Timeline", element, redraw };
}

/** Steps of an axis of bytes that read well in KB, MB and GB. */
/** Operations below, megabytes on the left: the same for every curve over operations. */
export const axes = (): uPlot.Axis[] => [
  {
    stroke: () => color("muted"),
    size: 34,
    grid: { stroke: () => color("grid"), width: 1 },
    ticks: { show: false },
    values: (_, at) => at.map((v) => (Number.isInteger(v) ? `#${thousands(v)}` : "")),
  },
  {
    stroke: () => color("muted"),
    grid: { stroke: () => color("grid"), width: 1 },
    ticks: { show: false },
    size: 64,
    values: (_, at) => at.map((v) => (v ? amount(v) : "0")),
    incrs: increments,
  },
];

export function increments(): number[] {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500];
  return [1, 1024, 1048576, 1073741824].flatMap((unit) => steps.map((step) => step * unit));
}

function lineNames(drawn: Drawn): string[] {
  const names: string[] = [...KINDS, "total"];
  if (drawn.lines.length > names.length) names.push("programs");
  return ["floor", ...names.map((name) => (name === "total" ? "unattributed" : name))].concat("total");
}

/** x, a floor, the sums of the bands upwards, the total once more as a line. */
function data(drawn: Drawn): uPlot.AlignedData {
  return [drawn.x, drawn.x.map(() => 0), ...drawn.lines, drawn.total] as uPlot.AlignedData;
}

function visible(session: Session, most: number): Drawn | null {
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

function legendItems(drawn: Drawn | null): HTMLElement[] {
  if (!drawn) return [];
  const seen = BANDS.filter((name, at) => {
    if (name === "programs")
      return drawn.lines.length > KINDS.length + 1 && drawn.lines.at(-1)!.some((v, i) => v > drawn.total[i]!);
    return drawn.lines[at]!.some((value, i) => value > (at ? drawn.lines[at - 1]![i]! : 0));
  });
  return seen.map((name) => {
    const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = bandColor(name);
    return h("span", { class: "legend-item" }, swatch, name);
  });
}

function nearest(session: Session, operation: number): number {
  const series = session.timeline?.series(session.memory);
  if (!series) return -1;
  return Math.min(series.places.length - 1, Math.max(0, lowerBound(series.places, Math.floor(operation) + 1) - 1));
}

function stateAt(session: Session): number {
  const series = session.timeline?.series(session.memory);
  return series ? Math.min(lowerBound(series.states, session.state), series.states.length - 1) : -1;
}

function momentText(session: Session, at: number): string {
  const series = session.timeline?.series(session.memory);
  if (!series || at < 0) return "";
  const state = series.states[at]!;
  const operation = session.timeline.stateOperation[state]!;
  const change = operation >= session.timeline.first ? session.timeline.changeAt(session.memory, operation) : 0;
  const location = operation >= 0 ? session.timeline.location(operation) : "";
  const parts = [`${mib(series.allocated[at]!)} MB/bank ${session.timeline.stateLabel(state)}`];
  if (location) parts.push(location);
  if (change) parts.push(`it changes ${session.memory} by ${signedMib(change)} MB`);
  if (session.timeline.isFollowed(state)) {
    const alive = session.profile.alive(session.timelineNumber, session.memory, state);
    const largest = alive
      .slice(0, 3)
      .map((row) => `${short(session.profile.nameOf(row), 40)} ${amount(session.profile.lives.bytes[row]!)}`);
    parts.push(`${thousands(alive.length)} tensors alive${largest.length ? `, most in ${largest.join(", ")}` : ""}`);
  }
  return parts.join(" · ");
}

function peakText(session: Session, memory: Memory): string {
  const peak = session.profile.header.document.memories[memory]!;
  return `peak ${mib(peak.peak_bytes_per_bank)} MB (${percent(peak.peak_percent)})`;
}

function marks(u: uPlot, session: Session, capacity: number): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const ratio = uPlot.pxRatio;
  const vertical = (operation: number, stroke: string, dash: number[], label = "") => {
    const x = u.valToPos(operation, "x", true);
    ctx.strokeStyle = stroke;
    ctx.lineWidth = 1.5 * ratio;
    ctx.setLineDash(dash.map((d) => d * ratio));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (label) {
      ctx.fillStyle = stroke;
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      ctx.textAlign = x > bbox.left + bbox.width / 2 ? "right" : "left";
      ctx.fillText(label, x + (ctx.textAlign === "right" ? -5 : 5) * ratio, bbox.top + 12 * ratio);
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
    ctx.fillStyle = color("alarm");
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "right";
    ctx.fillText("full bank", bbox.left + bbox.width - 4 * ratio, y + 13 * ratio);
  }
  const failed = session.profile.header.failure?.operation;
  if (failed !== null && failed !== undefined) vertical(failed, color("alarm"), [], "failed");
  vertical(session.operation, color("accent"), [3, 3]);
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
function svgOf(session: Session, capacity: number, highest: number): SVGSVGElement {
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
