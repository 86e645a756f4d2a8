// SPDX-License-Identifier: Apache-2.0
// Where? A bank by address at the cursor, and the same bank over time.

import { bankAt, type Held } from "../data/bank";
import { lowerBound } from "../data/lookup";
import { KINDS, MEMORIES } from "../data/profile";
import type { Session } from "../session";
import { color, fill, h, perFrame } from "../ui/dom";
import { Figure, Tip } from "../ui/figure";
import { amount, counted, shapeText } from "../ui/format";
import { CanvasPen, type Pen } from "../ui/pen";
import { bandColor } from "./timeline";
import { choice, section, type View } from "./view";

const STRIP = 220;

export function map(session: Session): View {
  const { profile } = session;
  const { lives } = profile;
  const about = h("p", { class: "muted", "data-role": "map-about" });
  const tip = new Tip();
  const stripTip = new Tip();
  let pieces: Held[] = [];
  let extent: [number, number] = [0, 1];
  let isUsedPart = false;
  const parts = h("div", { class: "choices", role: "group", "aria-label": "Part of the bank" });

  const known = () => session.timeline?.header.captured ?? false;
  const requested = () => {
    const story = profile.header.failure;
    return story && story.memory === session.memory && story.request_bytes_per_bank ? story.request_bytes_per_bank : 0;
  };

  /** What lies in the bank, from its lowest address up; a log knows amounts, not places. */
  const look = () => {
    pieces = [];
    const figures = session.timeline ? profile.figures(session.timelineNumber, session.memory, session.state) : null;
    if (!figures) return;
    const [, total, allocated, free, largest] = figures as [number, number, number, number, number];
    const bank = bankAt(session);
    if (!bank) {
      extent = [0, Math.max(1, total)];
      pieces = [
        { start: 0, end: allocated, kind: "activations", label: "allocated", row: -1 },
        {
          start: allocated,
          end: allocated + free - largest,
          kind: "scattered",
          label: "free, in smaller blocks",
          row: -1,
        },
        { start: total - largest, end: total, kind: "free", label: "largest free block", row: -1 },
      ].filter((piece) => piece.end > piece.start);
      about.textContent = `${session.memory} ${session.timeline.stateLabel(session.state)}: ${amount(allocated)} allocated, ${amount(free)} free, ${amount(largest)} of it in one block. A log prints amounts, not addresses: they are to scale, their places are not.`;
      return;
    }
    const { held } = bank;
    extent = bank.extent;
    let end = extent[0];
    for (const piece of held) {
      if (piece.start > end) pieces.push({ start: end, end: piece.start, kind: "free", label: "free", row: -1 });
      pieces.push(piece);
      end = Math.max(end, piece.end);
    }
    if (end < extent[1]) pieces.push({ start: end, end: extent[1], kind: "free", label: "free", row: -1 });
    const gaps = pieces.filter((piece) => piece.kind === "free");
    const taken = pieces.filter((piece) => piece.kind !== "free");
    if (isUsedPart && taken.length) {
      extent = [taken[0]!.start, Math.max(...taken.map((piece) => piece.end))];
      pieces = pieces.filter((piece) => piece.end > extent[0] && piece.start < extent[1]);
    }
    about.textContent = `${session.memory} ${session.timeline.stateLabel(session.state)}: ${counted(held.filter((piece) => piece.row >= 0).length, "buffer")} hold ${amount(allocated)} of ${amount(total)} in every bank; ${counted(gaps.length, "free block")}, the largest ${amount(largest)}.`;
  };

  const x = (pen: { width: number }, address: number) =>
    ((address - extent[0]) / (extent[1] - extent[0] || 1)) * pen.width;
  const fillOf = (kind: string) => (kind === "free" || kind === "scattered" ? color("free") : bandColor(kind));
  const drawBank = (pen: Pen) => {
    for (const piece of pieces) {
      const [left, right] = [x(pen, piece.start), x(pen, piece.end)];
      const isFree = piece.kind === "free" || piece.kind === "scattered";
      pen.rect(left, 4, Math.max(0.7, right - left), 46, fillOf(piece.kind), isFree ? 0.4 : 1);
      if (!isFree && right - left > 3) pen.frame(left, 4, right - left, 46, color("panel"));
      if (right - left > 36) {
        pen.text(left + 5, 19, piece.label, isFree ? color("text") : color("on-band"), { most: right - left - 8 });
        pen.text(left + 5, 35, amount(piece.end - piece.start), isFree ? color("text") : color("on-band"), {
          most: right - left - 8,
          size: 10.5,
        });
      }
    }
    if (pieces.length) {
      pen.text(0, 62, hex(extent[0]), color("muted"), { size: 10.5 });
      pen.text(pen.width, 62, hex(extent[1]), color("muted"), { size: 10.5, align: "right" });
    }
    const wanted = requested();
    if (wanted) {
      // Below the largest free block, as far as the drawing has room: there it did not fit.
      const gaps = pieces.filter((piece) => piece.kind === "free");
      const gap = gaps.sort((a, b) => b.end - b.start - (a.end - a.start))[0];
      const width = Math.max(2, Math.min(pen.width, (wanted / (extent[1] - extent[0] || 1)) * pen.width));
      const left = Math.min(gap ? x(pen, gap.start) : 0, pen.width - width);
      pen.rect(left, 74, width, 20, color("accent"), 0.9);
      if (gap) pen.line([x(pen, gap.end), 4, x(pen, gap.end), 96], color("alarm"), 1.5, [4, 3]);
      const inside = width > 220;
      const fits = left + width + 200 < pen.width;
      pen.text(
        inside ? left + 6 : fits ? left + width + 8 : Math.max(0, left - 200),
        84,
        `asked for ${amount(wanted)} in one piece`,
        inside ? color("on-accent") : color("text"),
      );
    }
  };
  const bank = new Figure({
    label: "A bank by address at the cursor",
    file: `${profile.header.title}-map`,
    height: () => (requested() ? 98 : 72),
    draw: drawBank,
    describe: () =>
      pieces
        .slice(0, 12)
        .map((piece) => `${piece.label} ${amount(piece.end - piece.start)}`)
        .join(", "),
  });
  bank.element.append(tip.element);
  const pieceAt = (event: MouseEvent) => {
    const address = extent[0] + (bank.place(event)[0] / Math.max(1, bank.canvas.clientWidth)) * (extent[1] - extent[0]);
    return pieces.findLast((piece) => piece.start <= address && address < piece.end);
  };
  bank.canvas.addEventListener("pointermove", (event) => {
    const piece = pieceAt(event);
    if (!piece) return tip.hide();
    const lines = [piece.label, amount(piece.end - piece.start)];
    if (known()) lines.push(`${hex(piece.start)} to ${hex(piece.end)}`);
    if (piece.row >= 0)
      lines.push(
        shapeText(profile.typeOf(piece.row)[0], profile.typeOf(piece.row)[1]),
        session.timeline.label(lives.producer[piece.row]!),
      );
    tip.show(event, lines);
  });
  bank.canvas.addEventListener("pointerleave", () => tip.hide());
  bank.canvas.addEventListener("click", (event) => {
    const piece = pieceAt(event);
    if (piece && piece.row >= 0 && lives.producer[piece.row]! >= 0) session.toOperation(lives.producer[piece.row]!);
  });

  // --- over time: what never changes while the cursor moves is drawn once and kept

  const kept = document.createElement("canvas");
  let keptFor = "";
  let bounds: [number, number] = [0, 1];
  const paintStrip = (pen: Pen) => {
    const [from, to] = session.range;
    const across = (operation: number) => ((operation - from) / (to - from || 1)) * pen.width;
    if (!known()) return paintAmounts(pen, across);
    const memory = MEMORIES.indexOf(session.memory);
    const mine: number[] = [];
    let [low, high] = [Infinity, -Infinity];
    for (let row = 0; row < lives.count; row++) {
      if (lives.memory[row] !== memory || lives.timeline[row] !== session.timelineNumber || lives.address[row]! < 0)
        continue;
      mine.push(row);
      low = Math.min(low, lives.address[row]!);
      high = Math.max(high, lives.address[row]! + lives.bytes[row]!);
    }
    const whole = session.timeline.header.extents[session.memory] ?? [low, high];
    const used = high - low;
    const grows = session.memory === "L1" && session.timeline.header.programs_known;
    bounds =
      isUsedPart && used > 0
        ? [low - used * 0.05, high + used * 0.05]
        : [Math.min(whole[0], low), Math.max(whole[1], high)];
    const up = (address: number) => pen.height - ((address - bounds[0]) / (bounds[1] - bounds[0] || 1)) * pen.height;
    pen.rect(0, 0, pen.width, pen.height, color("free"), 0.25);
    const places = session.timeline.places;
    if (grows) {
      const base = whole[0];
      for (
        let operation = Math.max(session.timeline.first, Math.floor(from));
        operation < Math.min(session.timeline.end, to);
        operation++
      ) {
        const bytes = session.timeline.programBytes(operation);
        if (bytes > 0)
          pen.rect(
            across(operation),
            up(base + bytes),
            Math.max(0.6, across(operation + 1) - across(operation)),
            up(base) - up(base + bytes),
            bandColor("programs"),
            0.85,
          );
      }
    }
    const fills = KINDS.map((kind) => bandColor(kind));
    for (const row of mine) {
      const left = across(places[lives.firstState[row]!]!);
      const after = lives.lastState[row]! + 1;
      const right = after < places.length ? across(places[after]!) : pen.width;
      if (right < 0 || left > pen.width) continue;
      const top = up(lives.address[row]! + lives.bytes[row]!);
      pen.rect(
        left,
        top,
        Math.max(0.7, right - left),
        Math.max(0.7, up(lives.address[row]!) - top),
        fills[lives.kind[row]!]!,
      );
    }
  };
  const paintAmounts = (pen: Pen, across: (operation: number) => number) => {
    const series = session.timeline?.series(session.memory);
    if (!series) return;
    const from = Math.max(0, lowerBound(series.places, Math.floor(session.range[0])) - 1);
    const to = Math.min(series.places.length, lowerBound(series.places, Math.ceil(session.range[1]) + 1));
    const picked = series.levels.pick(from, to, 1600);
    picked.forEach((at, index) => {
      const figures = profile.figures(session.timelineNumber, session.memory, series.states[at]!)!;
      const [, total, allocated, free, largest] = figures as [number, number, number, number, number];
      const left = Math.max(0, across(series.places[at]!));
      const next = picked[index + 1];
      const right = next === undefined ? pen.width : across(series.places[next]!);
      const h1 = (allocated / (total || 1)) * pen.height;
      const h2 = ((free - largest) / (total || 1)) * pen.height;
      const wide = Math.max(0.6, right - left);
      pen.rect(left, 0, wide, pen.height, color("free"), 0.25);
      pen.rect(left, pen.height - h1, wide, h1, bandColor("activations"));
      pen.rect(left, pen.height - h1 - h2, wide, h2, color("alarm"), 0.5);
    });
  };
  const strip = new Figure({
    label: "The bank over operations",
    file: `${profile.header.title}-map-over-time`,
    height: STRIP,
    draw: (pen) => {
      const key = [
        pen.width,
        isUsedPart,
        session.memory,
        session.timelineNumber,
        ...session.range,
        document.documentElement.dataset["theme"],
      ].join();
      if (pen instanceof CanvasPen) {
        if (key !== keptFor) {
          paintStrip(new CanvasPen(kept, pen.width, STRIP));
          keptFor = key;
        }
        pen.image(kept);
      } else paintStrip(pen);
      const [from, to] = session.range;
      const at = ((session.operation - from) / (to - from || 1)) * pen.width;
      pen.line([at, 0, at, STRIP], color("accent"), 1.5, [3, 3]);
    },
    describe: () => `${session.memory} from #${Math.ceil(session.range[0])} to #${Math.floor(session.range[1])}`,
  });
  strip.element.append(stripTip.element);
  const operationAt = (event: MouseEvent) => {
    const [from, to] = session.range;
    return from + (strip.place(event)[0] / Math.max(1, strip.canvas.clientWidth)) * (to - from);
  };
  strip.canvas.addEventListener("click", (event) => session.toOperation(Math.floor(operationAt(event))));
  strip.canvas.addEventListener("pointermove", (event) => {
    const operation = Math.floor(operationAt(event));
    if (event.buttons === 1) session.toOperation(operation);
    const lines = [session.timeline.label(operation)];
    if (known()) {
      const address = bounds[1] - (strip.place(event)[1] / STRIP) * (bounds[1] - bounds[0]);
      const state = session.timeline.stateBefore(operation);
      const row = profile
        .alive(session.timelineNumber, session.memory, state)
        .find((one) => lives.address[one]! <= address && address < lives.address[one]! + lives.bytes[one]!);
      if (row !== undefined) lines.push(`${profile.nameOf(row)} ${amount(lives.bytes[row]!)}`);
      lines.push(hex(address));
    }
    stripTip.show(event, lines);
  });
  strip.canvas.addEventListener("pointerleave", () => stripTip.hide());

  const update = () => {
    parts.hidden = !known();
    look();
    bank.draw();
    strip.draw();
  };
  const choosePart = (used: boolean) => {
    isUsedPart = used;
    fill(
      parts,
      choice("Whole bank", !used, () => choosePart(false)),
      choice("Used part", used, () => choosePart(true)),
    );
    update();
  };
  session.on(["cursor", "memory", "range"], perFrame(update));
  session.on(["theme"], () => {
    keptFor = "";
    update();
  });
  const element = section(
    "map",
    "Where?",
    "Every bank holds the same, so one stands for all. Tensors of L1 grow down from the top, programs' buffers up from the base.",
    about,
    parts,
    bank.element,
    h("h3", { class: "sub" }, "Over operations"),
    strip.element,
  );
  return { name: "map", title: "Map", element, redraw: () => choosePart(isUsedPart) };
}

const hex = (address: number): string => `0x${Math.max(0, Math.round(address)).toString(16)}`;
