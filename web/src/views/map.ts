// SPDX-License-Identifier: Apache-2.0
// Where? A bank by address at the cursor, and the same bank over time.

import { bankAt, type Held } from "../data/bank";
import type { Session } from "../session";
import { color, fill, h, perFrame } from "../ui/dom";
import { Figure, outline, Tip } from "../ui/figure";
import { amount, counted } from "../ui/format";
import type { Pen } from "../ui/pen";
import { hex, strip } from "./strip";
import { bandColor } from "./bands";
import { legendOf } from "./tracks";
import { choice, failureButton, section, type View } from "./view";
import { whyLines } from "./why";

const MOSTLY_EMPTY = 0.15; // of a bank: a whole one would show a line and nothing else

export function map(session: Session): View {
  const { profile } = session;
  const about = h("p", { class: "muted", "data-role": "map-about" });
  const legend = h("div", { class: "legend" });
  const tip = new Tip();
  let pieces: Held[] = [];
  let extent: [number, number] = [0, 1];
  /** null: nobody chose, so the amount decides. */
  let chosenPart: boolean | null = null;
  const parts = h("div", { class: "choices", role: "group", "aria-label": "Part of the bank" });

  const known = () => session.timeline?.header.captured ?? false;
  const isUsedPart = () => {
    if (chosenPart !== null) return chosenPart;
    const peak = profile.header.document.memories[session.memory];
    const programs = session.memory === "L1" ? (peak?.peak_with_programs_bytes_per_core ?? 0) : 0;
    return !!peak && !requested() && Math.max(peak.peak_bytes_per_bank, programs) < peak.bytes_per_bank * MOSTLY_EMPTY;
  };
  const requested = () => {
    const story = profile.header.failure;
    return story && story.memory === session.memory && story.request_bytes_per_bank ? story.request_bytes_per_bank : 0;
  };

  /** What lies in the bank, from its lowest address up; a log knows amounts, not places. */
  const look = () => {
    pieces = [];
    const figures = session.timeline ? profile.figures(session.timelineNumber, session.memory, session.state) : null;
    if (!figures) {
      about.textContent = `The source shows no state of ${session.memory} at the cursor.`;
      return;
    }
    const [, total, allocated, free, largest] = figures as [number, number, number, number, number];
    const bank = bankAt(session);
    if (!bank) {
      const scattered = free - largest;
      extent = [0, Math.max(1, isUsedPart() ? (allocated + scattered) * 1.1 : total)];
      pieces = [
        { start: 0, end: allocated, kind: "activations", label: "allocated", row: -1 },
        { start: allocated, end: allocated + scattered, kind: "scattered", label: "free, in smaller blocks", row: -1 },
        { start: total - largest, end: total, kind: "free", label: "largest free block", row: -1 },
      ].filter((piece) => piece.end > piece.start && piece.start < extent[1]);
      about.textContent = `${session.memory} ${session.timeline.stateLabel(session.state)}: ${amount(allocated)} allocated, ${amount(free)} free, ${amount(largest)} of it in one block. A log prints amounts, not addresses: sizes are to scale, positions are not known.`;
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
    if (isUsedPart() && taken.length) {
      const high = taken.reduce((most, piece) => Math.max(most, piece.end), 0);
      const rim = (high - taken[0]!.start) * 0.04;
      extent = [Math.max(extent[0], taken[0]!.start - rim), Math.min(extent[1], high + rim)];
      pieces = pieces.filter((piece) => piece.end > extent[0] && piece.start < extent[1]);
    }
    const buffers = held.filter((piece) => piece.row >= 0).length;
    about.textContent = `${session.memory} ${session.timeline.stateLabel(session.state)}: ${counted(buffers, "buffer")} ${buffers === 1 ? "holds" : "hold"} ${amount(allocated)} of ${amount(total)} in every bank; ${counted(gaps.length, "free block")}, the largest ${amount(largest)}.`;
  };

  const x = (pen: { width: number }, address: number) =>
    Math.min(1, Math.max(0, (address - extent[0]) / (extent[1] - extent[0] || 1))) * pen.width;
  const isFree = (kind: string) => kind === "free" || kind === "scattered";
  const fillOf = (kind: string) =>
    kind === "free" ? color("free") : kind === "scattered" ? color("alarm") : bandColor(kind);
  const drawBank = (pen: Pen) => {
    for (const piece of pieces) {
      const [left, right] = [x(pen, piece.start), x(pen, piece.end)];
      const look = isFree(piece.kind) ? color("text") : color("on-band");
      pen.rect(left, 4, Math.max(0.7, right - left), 46, fillOf(piece.kind), isFree(piece.kind) ? 0.4 : 1);
      if (!isFree(piece.kind) && right - left > 3) pen.frame(left, 4, right - left, 46, color("panel"));
      if (right - left > 36) {
        pen.text(left + 5, 19, piece.label, look, { most: right - left - 8, isName: piece.row >= 0 });
        pen.text(left + 5, 35, amount(piece.end - piece.start), look, { most: right - left - 8, size: 10.5 });
      }
    }
    const marked = pieces.find((piece) => piece.row >= 0 && piece.row === session.tensor);
    if (marked)
      outline(pen, { x: x(pen, marked.start), y: 4, w: Math.max(2, x(pen, marked.end) - x(pen, marked.start)), h: 46 });
    if (pieces.length) {
      const text = known() ? hex : amount;
      const words = known() ? ["lowest address ", "highest address "] : ["", ""];
      pen.text(0, 62, `${words[0]}${text(extent[0])}`, color("muted"), { size: 10.5 });
      pen.text(pen.width, 62, `${words[1]}${text(extent[1])}`, color("muted"), { size: 10.5, align: "right" });
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
      const when = session.failed === null || session.operation === session.failed ? "" : `, at #${session.failed}`;
      pen.text(
        inside ? left + 6 : fits ? left + width + 8 : Math.max(0, left - 200),
        84,
        `asked for ${amount(wanted)} in one piece${when}`,
        inside ? color("on-accent") : color("text"),
      );
    }
  };
  const bank = new Figure({
    label: "A bank by address at the cursor",
    file: `${profile.header.title}-map`,
    height: () => (requested() ? 98 : 72),
    draw: drawBank,
    legend,
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
    const lines = piece.row >= 0 ? whyLines(session, piece.row) : [piece.label, amount(piece.end - piece.start)];
    if (known()) lines.push(`${hex(piece.start)} to ${hex(piece.end)}`);
    tip.show(event, lines);
  });
  bank.canvas.addEventListener("pointerleave", () => tip.hide());
  bank.canvas.addEventListener("click", (event) => {
    const piece = pieceAt(event);
    if (piece && piece.row >= 0) session.chooseTensor(piece.row);
  });
  const overTime = strip(session, isUsedPart);

  const update = () => {
    fill(
      parts,
      choice("Whole bank", !isUsedPart(), () => choosePart(false)),
      choice("Used part", isUsedPart(), () => choosePart(true)),
      !!requested() && session.failed !== null && session.operation !== session.failed && failureButton(session),
    );
    look();
    const kinds = [...new Set(pieces.map((piece) => piece.kind))];
    fill(
      legend,
      ...legendOf(
        kinds.map((kind) => [
          known() || isFree(kind) ? (kind === "scattered" ? "free, in smaller blocks" : kind) : "allocated",
          fillOf(kind),
        ]),
      ),
      ...(requested() ? legendOf([["the request that failed, to scale", color("accent")]]) : []),
    );
    bank.draw();
    overTime.draw();
  };
  const choosePart = (used: boolean) => {
    chosenPart = used;
    update();
  };
  session.on(["cursor", "memory", "range", "theme"], perFrame(update));
  session.on(
    ["tensor"],
    perFrame(() => {
      bank.draw();
      overTime.draw();
    }),
  );
  const element = section(
    "map",
    "Where?",
    "All banks hold the same, so one is drawn. In L1, tensors grow down from the top and programs' buffers grow up from the base.",
    about,
    parts,
    bank.element,
    h("h3", { class: "sub" }, "Over operations"),
    overTime.element,
  );
  return { name: "map", title: "Map", element, redraw: update };
}
