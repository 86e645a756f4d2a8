// SPDX-License-Identifier: Apache-2.0
// Lifetimes: every tensor as a bar over the operations, largest first, or all of them stacked; what lay unused before
// it was freed is marked.

import { KINDS, MEMORIES } from "../data/profile";
import type { Session } from "../session";
import { color, fill, h, perFrame } from "../ui/dom";
import { Figure, Kept, outline, Tip } from "../ui/figure";
import { amount, counted, thousands } from "../ui/format";
import type { Pen } from "../ui/pen";
import { FOOT, paintStacked, type Piece } from "./stacked";
import { bandColor } from "./bands";
import { LEFT, legendOf, RIGHT } from "./tracks";
import { choice, section, type View } from "./view";
import { tensorLabel, unusedFor, whyLines } from "./why";

const ROW = 16;
const LATE = 8; // operations without a use, from which on a free counts as late

export function lifetimes(session: Session): View {
  const { profile } = session;
  const { lives } = profile;
  const about = h("p", { class: "muted", "data-role": "lifetimes-about" });
  const more = h("button", { type: "button", class: "choice" }, "Show more");
  const modes = h("div", { class: "choices", role: "group", "aria-label": "Drawn as" });
  const legend = h("div", { class: "legend" });
  const tip = new Tip();
  let most = 40;
  let found: number[] = [];
  let rows: number[] = [];
  let labels = 160;
  let isStacked = false;
  let pieces: Piece[] = [];
  const stack = new Kept();

  const choose = () => {
    const [from, to] = session.range;
    const memory = MEMORIES.indexOf(session.memory);
    found = [];
    for (let row = 0; row < lives.count; row++) {
      if (lives.memory[row] !== memory || lives.timeline[row] !== session.timelineNumber) continue;
      if (lives.last[row]! >= from && lives.first[row]! <= to && has(row)) found.push(row);
    }
    found.sort((a, b) => lives.bytes[b]! - lives.bytes[a]! || lives.first[a]! - lives.first[b]!);
    const late = found.filter(isLate);
    const bytes = late.reduce((sum, row) => sum + lives.bytes[row]!, 0);
    rows = found.slice(0, most);
    about.textContent = !found.length
      ? `No known tensor of ${session.memory} is alive in this range${session.words.length ? " and matches the search" : ""}.`
      : `${found.length === 1 ? `1 tensor of ${session.memory} is` : `${thousands(found.length)} tensors of ${session.memory} are`} alive in this range` +
        (isStacked ? "." : `; the ${thousands(rows.length)} largest are drawn.`) +
        (late.length
          ? ` ${counted(late.length, "tensor")} stayed allocated for ${LATE} or more operations after ${late.length === 1 ? "its" : "their"} last use${isStacked ? "" : " (hatched)"}: ${amount(bytes)} per bank in total.`
          : "");
    more.hidden = isStacked || rows.length >= found.length;
    figure.element.hidden = !found.length;
    const seen = KINDS.filter((_, kind) => found.some((row) => lives.kind[row] === kind));
    fill(
      legend,
      ...legendOf(seen.map((kind) => [kind, bandColor(kind)])),
      ...(late.length && !isStacked ? legendOf([["unused before it is freed", color("alarm")]]) : []),
    );
  };
  const has = (row: number) => {
    if (!session.words.length) return true;
    const text =
      `${profile.nameOf(row)} ${session.timeline.label(lives.producer[row]!)} ${session.timeline.location(lives.producer[row]!)}`.toLowerCase();
    return session.words.every((word) => text.includes(word));
  };
  const isLate = (row: number) => lives.lastUse[row]! >= 0 && (unusedFor(session, row) ?? 0) >= LATE;
  const scale = (width: number) => {
    const [from, to] = session.range;
    labels = width < 500 ? 84 : 170;
    return (operation: number) =>
      labels + ((Math.min(Math.max(operation, from), to) - from) / (to - from || 1)) * (width - labels - 60);
  };
  const drawBars = (pen: Pen) => {
    const x = scale(pen.width);
    rows.forEach((row, at) => {
      const y = at * ROW + 2;
      const [left, right] = [x(lives.first[row]!), Math.max(x(lives.first[row]!) + 2, x(lives.last[row]! + 1))];
      const isChosen = row === session.tensor;
      pen.text(labels - 6, y + 7, tensorLabel(session, row), color("text"), {
        align: "right",
        isName: true,
        most: labels - 8,
        size: 10.5,
        bold: isChosen,
      });
      pen.rect(left, y, right - left, ROW - 3, bandColor(KINDS[lives.kind[row]!]!));
      if (isLate(row)) {
        const idle = Math.max(left, x(lives.lastUse[row]! + 1));
        pen.rect(idle, y, Math.max(0, right - idle), ROW - 3, color("panel"), 0.62);
        for (let hatch = idle + 2; hatch < right - 1; hatch += 6)
          pen.line([hatch, y + ROW - 3, Math.min(right, hatch + 4), y], color("alarm"), 1);
      }
      if (isChosen) outline(pen, { x: left, y, w: right - left, h: ROW - 3 });
      pen.text(right + 5, y + 7, amount(lives.bytes[row]!), color("muted"), { size: 10 });
    });
    const [from, to] = session.range;
    const foot = rows.length * ROW + 11;
    const [first, last] = [Math.ceil(from), Math.floor(to)];
    pen.text(x(first), foot, `#${thousands(first)}`, color("muted"));
    pen.text(x(last), foot, `#${thousands(last)}`, color("muted"), { align: "right" });
    const at = x(session.operation);
    pen.line([at, 0, at, rows.length * ROW + 2], color("text"), 1.2, [3, 3]);
  };
  const draw = (pen: Pen) => {
    if (!isStacked) return drawBars(pen);
    const key = [session.memory, session.timelineNumber, ...session.range, ...session.words].join();
    stack.draw(pen, key, (surface) => {
      pieces = paintStacked(surface, session, found);
    });
    for (const piece of pieces) if (piece.row === session.tensor) outline(pen, piece);
    const [from, to] = session.range;
    const at = LEFT + ((session.operation - from) / (to - from || 1)) * (pen.width - LEFT - RIGHT);
    pen.line([at, 0, at, pen.height - FOOT], color("text"), 1.2, [3, 3]);
  };
  const figure = new Figure({
    label: "Lifetimes of tensors",
    file: `${profile.header.title}-lifetimes`,
    height: () => (isStacked ? 360 : Math.max(1, rows.length) * ROW + 20),
    draw,
    legend,
    describe: () =>
      rows
        .slice(0, 5)
        .map((row) => `${profile.nameOf(row)} from #${lives.first[row]!} to #${lives.last[row]!}`)
        .join(", "),
  });
  figure.element.append(tip.element);
  const under = (event: MouseEvent) => {
    const [x, y] = figure.place(event);
    if (!isStacked) return rows[Math.floor((y - 2) / ROW)];
    return pieces.findLast((one) => x >= one.x && x < one.x + one.w && y >= one.y && y < one.y + one.h)?.row;
  };
  figure.canvas.addEventListener("pointermove", (event) => {
    const row = under(event);
    if (row === undefined) tip.hide();
    else tip.show(event, whyLines(session, row));
  });
  figure.canvas.addEventListener("pointerleave", () => tip.hide());
  figure.canvas.addEventListener("click", (event) => {
    const row = under(event);
    if (row !== undefined) session.chooseTensor(row);
  });
  const update = perFrame(() => {
    choose();
    figure.draw();
  });
  more.addEventListener("click", () => {
    most *= 3;
    update();
  });
  const chooseMode = (stacked: boolean) => {
    isStacked = stacked;
    fill(
      modes,
      choice("Bars", !stacked, () => chooseMode(false)),
      choice("Stacked", stacked, () => chooseMode(true), { "data-mode": "stacked" }),
    );
    if (session.timeline) {
      choose();
      figure.draw();
    }
  };
  session.on(["range", "memory", "search", "theme"], update);
  session.on(["cursor", "tensor"], figure.redraw);
  const element = section(
    "lifetimes",
    "How long?",
    "How long each tensor stayed allocated: as bars, largest first, or stacked as they filled the memory. Click one to mark it in all drawings.",
    about,
    modes,
    figure.element,
    more,
  );
  return { name: "lifetimes", title: "Lifetimes", element, redraw: () => chooseMode(isStacked) };
}
