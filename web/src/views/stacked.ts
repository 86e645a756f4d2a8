// SPDX-License-Identifier: Apache-2.0
// Active memory: every tensor as an area of its size for as long as it lives, the older ones below.

import { lowerBound } from "../data/lookup";
import { KINDS } from "../data/profile";
import type { Session } from "../session";
import { color } from "../ui/dom";
import { byteSteps, byteTicks } from "../ui/format";
import type { Pen } from "../ui/pen";
import type { Box } from "../ui/treemap";
import { bandColor } from "./bands";
import { LEFT, operationAxis, RIGHT } from "./tracks";

const MOST_TENSORS = 600; // smaller ones are put together, below all others
const MOST_COLUMNS = 900;
export const FOOT = 22;

export type Piece = Box & { row: number };

/** Draws it, and tells what lies where; `rows` are the tensors of the stretch, largest first. */
export function paintStacked(pen: Pen, session: Session, rows: readonly number[]): Piece[] {
  const series = session.timeline.series(session.memory);
  if (!series) return [];
  const { lives } = session.profile;
  const [from, to] = session.range;
  const begin = Math.max(0, lowerBound(series.places, Math.floor(from) + 1) - 1);
  const end = Math.min(series.places.length, lowerBound(series.places, Math.ceil(to) + 1));
  const picked = series.levels.pick(begin, Math.max(begin + 1, end), MOST_COLUMNS);
  const floor = pen.height - FOOT;
  const across = (operation: number) =>
    LEFT + ((Math.min(Math.max(operation, from), to) - from) / (to - from || 1)) * (pen.width - LEFT - RIGHT);
  const top = picked.reduce((high, at) => Math.max(high, series.allocated[at]!), 1) * 1.04;
  const scale = (floor - 4) / top;
  const steps = byteSteps();
  const step = steps.find((one) => top / one <= 6) ?? steps.at(-1)!;
  for (let value = 0; value <= top; value += step) {
    pen.line([LEFT, floor - value * scale, pen.width - RIGHT, floor - value * scale], color("grid"), 1);
    pen.text(LEFT - 6, floor - value * scale, byteTicks([value], step)[0]!, color("muted"), { align: "right" });
  }
  operationAxis(pen, from, to, floor + 11);
  const drawn = rows.slice(0, MOST_TENSORS).sort((a, b) => lives.firstState[a]! - lives.firstState[b]! || a - b);
  const rest = rows.slice(MOST_TENSORS);
  // Of the small ones only the sum is drawn: what each adds from its first column on, and takes away after its last.
  const columns = picked.map((at) => series.states[at]!);
  const small = new Float64Array(picked.length + 1);
  for (const row of rest) {
    const [first, after] = [
      lowerBound(columns, lives.firstState[row]!),
      lowerBound(columns, lives.lastState[row]! + 1),
    ];
    small[first] = small[first]! + lives.bytes[row]!;
    small[after] = small[after]! - lives.bytes[row]!;
  }
  let below0 = 0;
  const pieces: Piece[] = [];
  let active: number[] = [];
  let next = 0;
  const open = new Map<number, Piece>();
  const close = (piece: Piece, right: number) => {
    piece.w = right - piece.x;
    if (piece.w > 0.05) pieces.push(piece);
  };
  picked.forEach((at, index) => {
    const state = series.states[at]!;
    const left = across(series.places[at]!);
    const after = picked[index + 1];
    const right = after === undefined ? across(to) : across(series.places[after]!);
    while (next < drawn.length && lives.firstState[drawn[next]!]! <= state) active.push(drawn[next++]!);
    active = active.filter((row) => {
      if (lives.lastState[row]! >= state) return true;
      const piece = open.get(row);
      if (piece) close(piece, left);
      open.delete(row);
      return false;
    });
    below0 += small[index]!;
    let below = below0;
    if (below) pen.rect(left, floor - below * scale, right - left + 0.3, below * scale, color("band-none"));
    for (const row of active) {
      const size = lives.bytes[row]! * scale;
      const y = floor - below * scale - size;
      const piece = open.get(row);
      if (!piece || Math.abs(piece.y - y) > 0.01) {
        if (piece) close(piece, left);
        open.set(row, { row, x: left, y, w: 0, h: size });
      }
      below += lives.bytes[row]!;
    }
    if (after === undefined) for (const piece of open.values()) close(piece, right);
  });
  const fills = KINDS.map((kind) => bandColor(kind));
  for (const piece of pieces) {
    pen.rect(piece.x, piece.y, piece.w, piece.h, fills[lives.kind[piece.row]!]!);
    if (piece.h > 2.5) pen.line([piece.x, piece.y, piece.x + piece.w, piece.y], color("panel"), 0.8);
    if (piece.w > 70 && piece.h > 13)
      pen.text(piece.x + 4, piece.y + piece.h / 2, session.profile.nameOf(piece.row), color("on-band"), {
        size: 10.5,
        most: piece.w - 8,
      });
  }
  const total: number[] = [];
  for (const at of picked) {
    const x = across(series.places[at]!);
    const y = floor - series.allocated[at]! * scale;
    if (total.length) total.push(x, total.at(-1)!);
    total.push(x, y);
  }
  total.push(across(to), total.at(-1)!);
  pen.line(total, color("text"), 1.3);
  return pieces;
}
