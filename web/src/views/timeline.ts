// SPDX-License-Identifier: Apache-2.0
// When? One memory over the operations, with who held it; brush to zoom, click to look at a moment.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { lowerBound } from "../data/lookup";
import { KINDS, type Memory } from "../data/profile";
import type { Session } from "../session";
import { color, fill, h, perFrame } from "../ui/dom";
import { canvasIn, exportTools, Tip } from "../ui/figure";
import { amount, counted, fixed, mib, percent, placeText, short, signedMib, thousands } from "../ui/format";
import { axes, bandColor, BANDS, type Drawn, marks, svgOf, visible } from "./bands";
import { processChoice, ranksTable, runsTable } from "./runs";
import { rankFigure, RIGHT, spark, trackFigure } from "./tracks";
import { choice, failureButton, section, type View } from "./view";

const MOST_POINTS = 3000;
const CAPACITY_FROM = 0.4; // below this the line of the full bank would press the curve flat against the floor

export function timeline(session: Session): View {
  const host = h("div", { class: "plot" });
  const legend = h("div", { class: "legend" });
  const readout = h("p", { class: "readout", "data-role": "readout" });
  const memories = h("div", { class: "choices memories", role: "group", "aria-label": "Memory" });
  const processes = processChoice(session);
  const zoomed = h("span", { class: "muted", "data-role": "range" });
  const room = h("span", { class: "muted" });
  const tip = new Tip();
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
    plot.over.addEventListener("pointermove", (event) => {
      const box = plot!.over.getBoundingClientRect();
      const lines = momentLines(session, nearest(session, plot!.posToVal(event.clientX - box.left, "x")));
      if (lines.length && !event.buttons) tip.show(event, lines);
      else tip.hide();
    });
    plot.over.addEventListener("pointerleave", () => tip.hide());
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
  /** The line of the full bank is left out where it would press the curve flat; the words stay. */
  const roomText = () => {
    const bytes = capacity();
    const times = bytes / highest();
    return times > 1 ? `a full bank (${amount(bytes)}) is ${fixed(times, times < 10 ? 1 : 0)} times as high` : "";
  };
  const whereText = () => {
    const [from, to] = session.range;
    const [first, last] = session.timeline.range;
    const whole = from <= first && to >= last;
    zoomed.textContent = whole
      ? `all of #${thousands(first)} to #${thousands(last)}`
      : `#${thousands(Math.ceil(from))} to #${thousands(Math.floor(to))}`;
    room.textContent = roomText();
  };
  const tracks = trackFigure(session);
  const ranked = rankFigure(session);
  const chooseMemories = () => {
    fill(
      memories,
      ...session.profile.memories.map((memory, at) => {
        const button = choice(memory, memory === session.memory, () => session.showMemory(memory), {
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
    session.failed !== null && failureButton(session),
    zoomed,
    room,
  );
  const frame = h(
    "div",
    { class: "chart" },
    host,
    h(
      "div",
      { class: "chart-foot" },
      legend,
      exportTools(`${session.profile.header.title}-${session.memory}`, "timeline", canvasIn(host), () =>
        svgOf(session, capacity(), highest()),
      ),
    ),
    tip.element,
  );
  const runs = runsTable(session);
  const ranks = ranksTable(session);
  const element = section(
    "timeline",
    "When?",
    "Bytes per bank over operations. Drag over the chart to zoom, click to move the cursor, double-click for the whole run.",
    processes,
    memories,
    zoomTools,
    frame,
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

function lineNames(drawn: Drawn): string[] {
  const names: string[] = [...KINDS, "total"];
  if (drawn.lines.length > names.length) names.push("programs");
  return ["floor", ...names.map((name) => (name === "total" ? "unattributed" : name))].concat("total");
}

/** x, a floor, the sums of the bands upwards, the total once more as a line. */
function data(drawn: Drawn): uPlot.AlignedData {
  return [drawn.x, drawn.x.map(() => 0), ...drawn.lines, drawn.total] as uPlot.AlignedData;
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

/** A moment in words: how full, before what, where that is in the program, what it changes, who is alive. */
function momentLines(session: Session, at: number): string[] {
  const series = session.timeline?.series(session.memory);
  if (!series || at < 0) return [];
  const { timeline, memory, profile } = session;
  const state = series.states[at]!;
  const operation = timeline.stateOperation[state]!;
  const change = operation >= timeline.first ? timeline.changeAt(memory, operation) : 0;
  const location = operation >= 0 ? placeText(timeline.location(operation)) : "";
  const parts = [`${mib(series.allocated[at]!)} MiB/bank ${short(timeline.stateLabel(state), 120)}`];
  if (location) parts.push(short(location, 120));
  if (operation >= 0 && operation === profile.header.failure?.operation) parts.push("it failed");
  else if (change) parts.push(`it changes ${memory} by ${signedMib(change)} MiB`);
  const programs = memory === "L1" ? timeline.programBytes(operation) : 0;
  if (programs) parts.push(`its program's buffers take another ${amount(programs)} per core`);
  if (timeline.isFollowed(state)) {
    const alive = profile.alive(session.timelineNumber, memory, state);
    const largest = alive
      .slice(0, 3)
      .map((row) => `${short(profile.nameOf(row), 40)} ${amount(profile.lives.bytes[row]!)}`);
    parts.push(
      `${counted(alive.length, "tensor")} alive${largest.length ? `, the largest: ${largest.join(", ")}` : ""}`,
    );
  }
  return parts;
}

const momentText = (session: Session, at: number): string => momentLines(session, at).join(" · ");

function peakText(session: Session, memory: Memory): string {
  const peak = session.profile.header.document.memories[memory]!;
  return `peak ${mib(peak.peak_bytes_per_bank)} MiB (${percent(peak.peak_percent)})`;
}
