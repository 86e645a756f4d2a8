// SPDX-License-Identifier: Apache-2.0
// Lifetimes: every tensor as a bar over the operations, largest first; what lay unused before it was freed is marked.

import { KINDS, MEMORIES } from "../data/profile";
import type { Session } from "../session";
import { color, h, perFrame } from "../ui/dom";
import { Figure, Tip } from "../ui/figure";
import { amount, mib, shapeText, thousands } from "../ui/format";
import type { Pen } from "../ui/pen";
import { bandColor } from "./timeline";
import { section, type View } from "./view";

const ROW = 16;
const LATE = 8; // operations without a use, from which on a free counts as late

export function lifetimes(session: Session): View {
  const { profile } = session;
  const { lives } = profile;
  const about = h("p", { class: "muted", "data-role": "lifetimes-about" });
  const more = h("button", { type: "button", class: "choice" }, "Show more");
  const tip = new Tip();
  let most = 40;
  let rows: number[] = [];
  let labels = 160;

  const choose = () => {
    const [from, to] = session.range;
    const memory = MEMORIES.indexOf(session.memory);
    const found: number[] = [];
    for (let row = 0; row < lives.count; row++) {
      if (lives.memory[row] !== memory || lives.timeline[row] !== session.timelineNumber) continue;
      if (lives.last[row]! >= from && lives.first[row]! <= to && has(row)) found.push(row);
    }
    found.sort((a, b) => lives.bytes[b]! - lives.bytes[a]! || lives.first[a]! - lives.first[b]!);
    const late = found.filter(isLate);
    const bytes = late.reduce((sum, row) => sum + lives.bytes[row]!, 0);
    rows = found.slice(0, most);
    about.textContent =
      `${thousands(found.length)} tensors of ${session.memory} live in this stretch; the ${thousands(rows.length)} largest are drawn.` +
      (late.length
        ? ` ${thousands(late.length)} lay unused for ${LATE} operations or more before their end (hatched), together ${amount(bytes)} per bank.`
        : "");
    more.hidden = rows.length >= found.length;
  };
  const has = (row: number) => {
    if (!session.words.length) return true;
    const text =
      `${profile.nameOf(row)} ${session.timeline.label(lives.producer[row]!)} ${session.timeline.location(lives.producer[row]!)}`.toLowerCase();
    return session.words.every((word) => text.includes(word));
  };
  const isLate = (row: number) =>
    lives.kind[row] !== 0 && lives.lastUse[row]! >= 0 && lives.last[row]! - lives.lastUse[row]! >= LATE;
  const scale = (width: number) => {
    const [from, to] = session.range;
    labels = width < 500 ? 84 : 170;
    return (operation: number) =>
      labels + ((Math.min(Math.max(operation, from), to) - from) / (to - from || 1)) * (width - labels - 60);
  };
  const draw = (pen: Pen) => {
    const x = scale(pen.width);
    rows.forEach((row, at) => {
      const y = at * ROW + 2;
      const [left, right] = [x(lives.first[row]!), Math.max(x(lives.first[row]!) + 2, x(lives.last[row]! + 1))];
      pen.text(labels - 6, y + 7, profile.nameOf(row), color("text"), { align: "right", most: labels - 8, size: 10.5 });
      const fill = bandColor(KINDS[lives.kind[row]!]!);
      pen.rect(left, y, right - left, ROW - 3, fill);
      if (isLate(row)) {
        const idle = Math.max(left, x(lives.lastUse[row]! + 1));
        pen.rect(idle, y, Math.max(0, right - idle), ROW - 3, color("panel"), 0.62);
        for (let hatch = idle + 2; hatch < right - 1; hatch += 6)
          pen.line([hatch, y + ROW - 3, Math.min(right, hatch + 4), y], color("alarm"), 1);
      }
      pen.text(right + 5, y + 7, amount(lives.bytes[row]!), color("muted"), { size: 10 });
    });
    const at = x(session.operation);
    pen.line([at, 0, at, rows.length * ROW], color("accent"), 1.2, [3, 3]);
  };
  const figure = new Figure({
    label: "Lifetimes of tensors",
    file: `${profile.header.title}-lifetimes`,
    height: () => Math.max(1, rows.length) * ROW + 4,
    draw,
    describe: () =>
      rows
        .slice(0, 5)
        .map((row) => `${profile.nameOf(row)} from #${lives.first[row]!} to #${lives.last[row]!}`)
        .join(", "),
  });
  figure.element.append(tip.element);
  const under = (event: MouseEvent) => rows[Math.floor((figure.place(event)[1] - 2) / ROW)];
  figure.canvas.addEventListener("pointermove", (event) => {
    const row = under(event);
    if (row === undefined) return tip.hide();
    const type = profile.typeOf(row);
    const use = lives.lastUse[row]! < 0 ? "never read" : `last read by ${session.timeline.label(lives.lastUse[row]!)}`;
    tip.show(event, [
      profile.nameOf(row),
      `${shapeText(type[0], type[1])} · ${mib(lives.bytes[row]!)} MB/bank`,
      lives.producer[row]! < 0 ? "resident before the run" : `made by ${session.timeline.label(lives.producer[row]!)}`,
      use,
      `freed after #${lives.last[row]!}`,
    ]);
  });
  figure.canvas.addEventListener("pointerleave", () => tip.hide());
  figure.canvas.addEventListener("click", (event) => {
    const row = under(event);
    if (row !== undefined) session.toOperation(Math.max(session.timeline.first, lives.producer[row]!));
  });
  const update = perFrame(() => {
    choose();
    figure.draw();
  });
  more.addEventListener("click", () => {
    most *= 3;
    update();
  });
  session.on(["range", "memory", "search", "theme"], update);
  session.on(["cursor"], figure.redraw);
  const element = section(
    "lifetimes",
    "Lifetimes",
    "How long each tensor stayed, largest first; a bar begins with its producer and ends where it is freed.",
    about,
    figure.element,
    more,
  );
  return {
    name: "lifetimes",
    title: "Lifetimes",
    element,
    redraw: () => {
      if (session.timeline) {
        choose();
        figure.draw();
      }
    },
  };
}
