// SPDX-License-Identifier: Apache-2.0
// Any other report: cards, remarks, figures and tables, as Python prepared them (reports/kit/pages.py).

import type { Card } from "../data/document";
import { color, h } from "../ui/dom";
import { Figure, Tip } from "../ui/figure";
import type { Pen } from "../ui/pen";
import { Table } from "../ui/table";
import { cards } from "./overview";
import { section, type View } from "./view";

interface Tick {
  at: number;
  label: string;
}
interface Axis {
  label: string;
  first: number;
  last: number;
  ticks: Tick[];
}
interface LineChart {
  type: "lines";
  title: string;
  x: Axis;
  y: Axis;
  curves: { label: string; points: [number, number][]; remarks: string[]; low: number[]; steps: boolean }[];
}
interface Matrix {
  type: "matrix";
  title: string;
  rows: string[];
  columns: string[];
  /** Per row and column: number of an outcome, -1 where nothing was tried. */
  cells: number[][];
  remarks: string[][];
  outcomes: { name: string; level: "ok" | "warn" | "alarm" | "none" }[];
}
interface Lanes {
  type: "lanes";
  title: string;
  unit: string;
  end: number;
  lanes: { name: string; spans: [number, number, string][] }[];
}
type Drawing = LineChart | Matrix | Lanes;

interface TableData {
  title: string;
  columns: { head: string; kind: "text" | "name" | "number" }[];
  rows: string[][];
  bars: number | null;
  left_out: string;
}
export interface DocumentHeader {
  part: "document";
  title: string;
  subtitle: string;
  cards: Card[];
  notes: string[];
  sections: {
    key: string;
    title: string;
    about: string;
    remarks: string[];
    role: string;
    drawing: Drawing | null;
    tables: TableData[];
  }[];
  foot: string;
  ttmem: string;
}

export function documentViews(header: DocumentHeader): { views: View[]; filter: (words: string[]) => void } {
  const tables: Table<number>[] = [];
  const views: View[] = [];
  if (header.cards.length || header.notes.length) {
    const element = section(
      "overview",
      "At a glance",
      header.subtitle,
      cards(header.cards),
      header.notes.length > 0 &&
        h(
          "ul",
          { class: "notes" },
          header.notes.map((text) => h("li", {}, text)),
        ),
    );
    views.push({ name: "overview", title: "Overview", element });
  }
  for (const part of header.sections) {
    const drawn = part.drawing ? drawing(part.drawing, header.title) : null;
    if (drawn) drawn.element.dataset["role"] = part.role;
    const parts = part.tables.map((data, at) => {
      const table = tableOf(
        data,
        part.tables.length === 1 ? part.key : `${part.key}-${at}`,
        data.title || part.title,
        header.title,
      );
      tables.push(table);
      return h("div", {}, data.title ? h("h3", { class: "sub" }, data.title) : null, table.element);
    });
    const remarks =
      part.remarks.length > 0 &&
      h(
        "ul",
        { class: "remarks" },
        part.remarks.map((text) => h("li", {}, text)),
      );
    const element = section(part.key, part.title, part.about, remarks, drawn?.element ?? null, ...parts);
    element.id = part.key;
    views.push({ name: part.key, title: part.title, element, ...(drawn ? { redraw: () => drawn.draw() } : {}) });
  }
  return {
    views,
    filter: (words) => {
      for (const table of tables) table.filter(words);
    },
  };
}

const numberIn = (text: string): number => {
  const match = /[-+]?[\d.]+/.exec(text.replaceAll(",", ""));
  return match ? Number(match[0]) : -Infinity;
};

function tableOf(data: TableData, key: string, label: string, file: string): Table<number> {
  const bars = data.bars === null ? null : data.rows.map((row) => numberIn(row[data.bars!]!));
  const most = bars ? bars.reduce((high, value) => Math.max(high, value), 0) : 0;
  return new Table<number>({
    key,
    label,
    file,
    leftOut: data.left_out,
    rows: data.rows.map((_, at) => at),
    columns: data.columns.map(({ head, kind }, at) => ({
      head,
      kind,
      text: (row) => data.rows[row]![at]!,
      ...(kind === "number" ? { value: (row: number) => numberIn(data.rows[row]![at]!) } : {}),
      ...(bars && at === data.bars && most > 0 ? { bar: (row: number) => Math.max(0, bars[row]!) / most } : {}),
    })),
  });
}

const CURVES = ["area-1", "area-2", "area-3", "area-4", "area-5", "area-6", "area-7", "area-8"];

function drawing(data: Drawing, file: string): Figure {
  if (data.type === "lines") return lines(data, file);
  return data.type === "matrix" ? matrix(data, file) : lanes(data, file);
}

function lines(data: LineChart, file: string): Figure {
  const dots: { x: number; y: number; text: string }[] = [];
  const tip = new Tip();
  const draw = (pen: Pen) => {
    dots.length = 0;
    const [left, right, top, bottom] = [70, pen.width - (pen.width > 640 ? 170 : 12), 16, pen.height - 40];
    const share = (axis: Axis, value: number) => (value - axis.first) / (axis.last - axis.first || 1);
    const x = (value: number) => left + share(data.x, value) * (right - left);
    const y = (value: number) => bottom - share(data.y, value) * (bottom - top);
    for (const tick of data.y.ticks) {
      pen.line([left, y(tick.at), right, y(tick.at)], color("grid"), 1);
      pen.text(left - 7, y(tick.at), tick.label, color("muted"), { align: "right" });
    }
    let last = -Infinity;
    for (const tick of data.x.ticks) {
      if (x(tick.at) - last < 44) continue;
      last = x(tick.at);
      pen.text(last, bottom + 13, tick.label, color("muted"), { align: "center" });
    }
    pen.text((left + right) / 2, pen.height - 8, data.x.label, color("muted"), { align: "center" });
    pen.text(left, 6, data.y.label, color("muted"));
    const heights: number[] = [];
    data.curves.forEach((curve, number) => {
      const stroke = color(CURVES[number % CURVES.length]!);
      const points = curve.points.flatMap(([px, py]) => [x(px), y(py)]);
      if (curve.low.length) {
        const back = curve.low
          .map((low, at) => [x(curve.points[at]![0]), y(low)])
          .reverse()
          .flat();
        pen.area([...points, ...back], stroke, 0.16);
      }
      pen.line(points, stroke, 1.8);
      curve.points.forEach(([px, py], at) => {
        pen.rect(x(px) - 2.5, y(py) - 2.5, 5, 5, stroke);
        dots.push({ x: x(px), y: y(py), text: `${curve.label}: ${curve.remarks[at] ?? ""}` });
      });
      let height = points.at(-1) ?? top;
      while (heights.some((other) => Math.abs(other - height) < 14)) height += 2;
      heights.push(height);
      // The name in the colour of all text: not every curve's colour reads well on the page.
      const [at, level] = pen.width > 640 ? [right + 8, height] : [left + 6, top + 8 + number * 14];
      pen.rect(at, level - 4, 8, 8, stroke);
      pen.text(at + 13, level, curve.label, color("text"), { most: pen.width - at - 16 });
    });
  };
  const figure = new Figure({
    label: data.title,
    file: `${file}-${data.title}`,
    height: 360,
    draw,
    describe: () =>
      data.curves
        .map((curve) => `${curve.label}: ${curve.remarks.join("; ")}`)
        .join(". ")
        .slice(0, 600),
  });
  hints(figure, tip, (px, py) => dots.find((dot) => Math.hypot(dot.x - px, dot.y - py) < 9)?.text);
  return figure;
}

function matrix(data: Matrix, file: string): Figure {
  const tip = new Tip();
  const side = 18;
  const names = (width: number) => (width < 500 ? 92 : 180);
  const wide = (width: number) => Math.max(3, Math.min(34, (width - names(width)) / Math.max(1, data.columns.length)));
  const fills = { ok: "ok", warn: "warn", alarm: "alarm", none: "band-none" } as const;
  const signs = { ok: "", warn: "!", alarm: "×", none: "·" } as const;
  const draw = (pen: Pen) => {
    const cell = wide(pen.width);
    let at = 0;
    for (const outcome of data.outcomes) {
      pen.rect(at, 4, 12, 12, color(fills[outcome.level]));
      pen.text(at + 17, 10, outcome.name, color("muted"));
      at += 34 + outcome.name.length * 6.6;
    }
    data.rows.forEach((row, number) => {
      const y = 26 + number * side;
      pen.text(names(pen.width) - 8, y + side / 2, row, color("text"), { align: "right", most: names(pen.width) - 10 });
      data.cells[number]!.forEach((outcome, column) => {
        const look = outcome < 0 ? null : data.outcomes[outcome]!;
        pen.rect(
          names(pen.width) + column * cell,
          y,
          Math.max(1, cell - 1),
          side - 2,
          color(look ? fills[look.level] : "grid"),
          look ? 1 : 0.5,
        );
        if (look && signs[look.level] && cell > 9)
          pen.text(
            names(pen.width) + column * cell + cell / 2 - 0.5,
            y + side / 2 - 1,
            signs[look.level],
            color("panel"),
            { align: "center", bold: true },
          );
      });
    });
  };
  const figure = new Figure({
    label: data.title,
    file: `${file}-matrix`,
    height: 32 + data.rows.length * side,
    draw,
    describe: () => `${data.rows.length} rows, ${data.columns.length} columns`,
  });
  hints(figure, tip, (x, y) => {
    const width = figure.canvas.clientWidth;
    const [row, column] = [Math.floor((y - 26) / side), Math.floor((x - names(width)) / wide(width))];
    return data.cells[row]?.[column] === undefined
      ? undefined
      : `${data.rows[row]!} ${data.columns[column]!}: ${data.remarks[row]![column] || "not tried"}`;
  });
  return figure;
}

function lanes(data: Lanes, file: string): Figure {
  const tip = new Tip();
  const [left, height] = [110, 24];
  const fills: Record<string, string> = {
    busy: "band-programs",
    wait_front: "band-activations",
    reserve_back: "band-temporaries",
    held: "band-uploads",
    full: "band-weights",
  };
  const x = (width: number, at: number) => left + (at / (data.end || 1)) * (width - left - 4);
  const draw = (pen: Pen) => {
    const seen = [...new Set(data.lanes.flatMap((lane) => lane.spans.map(([, , kind]) => kind)))];
    let at = left;
    for (const kind of seen) {
      pen.rect(at, 3, 12, 12, color(fills[kind] ?? "band-none"));
      pen.text(at + 17, 9, kind.replace("_", " "), color("muted"));
      at += 40 + kind.length * 6.6;
    }
    data.lanes.forEach((lane, number) => {
      const y = 24 + number * height;
      pen.text(left - 8, y + height / 2 - 2, lane.name, color("text"), { align: "right", most: left - 10 });
      pen.rect(left, y, pen.width - left - 4, height - 5, color("grid"), 0.5);
      for (const [from, to, kind] of lane.spans)
        pen.rect(
          x(pen.width, from),
          y,
          Math.max(0.7, x(pen.width, to) - x(pen.width, from)),
          height - 5,
          color(fills[kind] ?? "band-none"),
        );
    });
    const foot = 24 + data.lanes.length * height + 8;
    for (let tick = 0; tick <= 4; tick++)
      pen.text(
        x(pen.width, (data.end * tick) / 4),
        foot,
        `${Math.round((data.end * tick) / 4).toLocaleString("en-US")}${tick === 4 ? ` ${data.unit}` : ""}`,
        color("muted"),
        { align: tick === 4 ? "right" : tick ? "center" : "left" },
      );
  };
  const figure = new Figure({
    label: data.title,
    file: `${file}-timeline`,
    height: 48 + data.lanes.length * height,
    draw,
    describe: () => data.lanes.map((lane) => lane.name).join(", "),
  });
  hints(figure, tip, (px, py) => {
    const lane = data.lanes[Math.floor((py - 24) / height)];
    const width = figure.canvas.clientWidth;
    const span = lane?.spans.findLast(([from, to]) => x(width, from) <= px && px <= x(width, to) + 1);
    return lane && span
      ? `${lane.name}: ${span[2].replace("_", " ")} from ${Math.round(span[0])} to ${Math.round(span[1])} ${data.unit}`
      : undefined;
  });
  return figure;
}

function hints(figure: Figure, tip: Tip, at: (x: number, y: number) => string | undefined): void {
  figure.element.append(tip.element);
  figure.canvas.addEventListener("pointermove", (event) => {
    const text = at(...figure.place(event));
    if (text) tip.show(event, [text]);
    else tip.hide();
  });
  figure.canvas.addEventListener("pointerleave", () => tip.hide());
}
