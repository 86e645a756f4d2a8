// SPDX-License-Identifier: Apache-2.0
// A bank over time: addresses upwards, operations to the right, to the scale of the timeline.

import { lowerBound } from "../data/lookup";
import { KINDS, MEMORIES } from "../data/profile";
import type { Session } from "../session";
import { color } from "../ui/dom";
import { Figure, Kept, outline, Tip } from "../ui/figure";
import { amount, byteSteps, byteTicks, short } from "../ui/format";
import type { Pen } from "../ui/pen";
import { bandColor } from "./bands";
import { LEFT, operationAxis, RIGHT } from "./tracks";
import { whyLines } from "./why";

const STRIP = 220;
const FOOT = 22;

export const hex = (address: number): string => `0x${Math.max(0, Math.round(address)).toString(16)}`;

export function strip(session: Session, isUsedPart: () => boolean): Figure {
  const { profile } = session;
  const { lives } = profile;
  const tip = new Tip();
  const kept = new Kept();
  let bounds: [number, number] = [0, 1];
  const known = () => session.timeline?.header.captured ?? false;
  const rowsHere = () => {
    const memory = MEMORIES.indexOf(session.memory);
    const mine: number[] = [];
    for (let row = 0; row < lives.count; row++)
      if (lives.memory[row] === memory && lives.timeline[row] === session.timelineNumber && lives.address[row]! >= 0)
        mine.push(row);
    return mine;
  };
  const scales = (pen: Pen) => {
    const [from, to] = session.range;
    const room = pen.width - LEFT - RIGHT;
    return {
      across: (operation: number) => LEFT + Math.min(1, Math.max(0, (operation - from) / (to - from || 1))) * room,
      up: (address: number) => STRIP - ((address - bounds[0]) / (bounds[1] - bounds[0] || 1)) * STRIP,
    };
  };
  const place = (pen: Pen, row: number) => {
    const { across, up } = scales(pen);
    const { places } = session.timeline;
    const left = across(places[lives.firstState[row]!]!);
    const after = lives.lastState[row]! + 1;
    const right = after < places.length ? across(places[after]!) : pen.width - RIGHT;
    const top = up(lives.address[row]! + lives.bytes[row]!);
    return { x: left, y: top, w: right - left, h: Math.max(0.7, up(lives.address[row]!) - top) };
  };
  const paint = (pen: Pen) => {
    const [from, to] = session.range;
    operationAxis(pen, from, to, STRIP + 11);
    pen.rect(LEFT, 0, pen.width - LEFT - RIGHT, STRIP, color("free"), 0.25);
    if (!known()) return paintAmounts(pen);
    const mine = rowsHere();
    let [low, high] = [Infinity, -Infinity];
    for (const row of mine) {
      low = Math.min(low, lives.address[row]!);
      high = Math.max(high, lives.address[row]! + lives.bytes[row]!);
    }
    const whole = session.timeline.header.extents[session.memory] ?? (mine.length ? [low, high] : [0, 1]);
    const used = high - low;
    bounds =
      isUsedPart() && used > 0
        ? [Math.max(whole[0], low - used * 0.05), Math.min(whole[1], high + used * 0.05)]
        : [Math.min(whole[0], low), Math.max(whole[1], high)];
    // Round addresses read better than the ends of what is drawn.
    const step = 2 ** Math.ceil(Math.log2(Math.max(1, bounds[1] - bounds[0]) / 6));
    for (let address = Math.ceil(bounds[0] / step) * step; address <= bounds[1]; address += step) {
      const y = scales(pen).up(address);
      pen.line([LEFT - 4, y, LEFT, y], color("muted"));
      pen.text(LEFT - 6, Math.min(STRIP - 6, Math.max(6, y)), hex(address), color("muted"), {
        align: "right",
        size: 10,
      });
    }
    paintPrograms(pen, whole[0]);
    const fills = KINDS.map((kind) => bandColor(kind));
    const places = session.timeline.places;
    for (const row of mine) {
      if (places[lives.firstState[row]!]! > to) continue;
      const box = place(pen, row);
      if (box.x + box.w <= LEFT && places[lives.lastState[row]!]! < from) continue;
      pen.rect(box.x, box.y, Math.max(0.7, box.w), box.h, fills[lives.kind[row]!]!);
    }
  };
  /** Circular and dataflow buffers and scratchpads grow up from the base, for as long as their operation runs. */
  const paintPrograms = (pen: Pen, base: number) => {
    const { timeline } = session;
    if (session.memory !== "L1" || !timeline.header.programs_known) return;
    const { across, up } = scales(pen);
    const [from, to] = session.range;
    const [first, end] = [Math.max(timeline.first, Math.floor(from)), Math.min(timeline.end, to)];
    // Of operations that share a pixel the largest is drawn.
    const step = Math.max(1, Math.floor((to - from) / Math.max(1, pen.width - LEFT - RIGHT)));
    for (let operation = first; operation < end; operation += step) {
      let bytes = 0;
      for (let near = operation; near < Math.min(end, operation + step); near++)
        bytes = Math.max(bytes, timeline.programBytes(near));
      const [top, bottom] = [Math.max(0, up(base + bytes)), Math.min(STRIP, up(base))];
      const left = across(operation);
      if (bytes > 0 && bottom > top)
        pen.rect(left, top, Math.max(0.7, across(operation + step) - left), bottom - top, bandColor("programs"), 0.9);
    }
  };
  const paintAmounts = (pen: Pen) => {
    const series = session.timeline?.series(session.memory);
    if (!series) return;
    const { across } = scales(pen);
    const from = Math.max(0, lowerBound(series.places, Math.floor(session.range[0])) - 1);
    const to = Math.min(series.places.length, lowerBound(series.places, Math.ceil(session.range[1]) + 1));
    const picked = series.levels.pick(from, to, 1600);
    const amounts = picked.map((at) => profile.figures(session.timelineNumber, session.memory, series.states[at]!)!);
    const highest = amounts.reduce(
      (high, one) => Math.max(high, isUsedPart() ? (one[2]! + one[3]! - one[4]!) * 1.1 : one[1]!),
      1,
    );
    bounds = [0, highest];
    const steps = byteSteps();
    const step = steps.find((one) => highest / one <= 5) ?? steps.at(-1)!;
    for (let value = 0; value <= highest; value += step)
      pen.text(
        LEFT - 6,
        Math.max(6, STRIP - (value / highest) * STRIP - (value ? 0 : 4)),
        byteTicks([value], step)[0]!,
        color("muted"),
        {
          align: "right",
          size: 10,
        },
      );
    picked.forEach((at, index) => {
      const [, , allocated, free, largest] = amounts[index] as [number, number, number, number, number];
      const left = across(series.places[at]!);
      const next = picked[index + 1];
      const right = next === undefined ? pen.width - RIGHT : across(series.places[next]!);
      const h1 = Math.min(1, allocated / highest) * STRIP;
      const h2 = Math.min(1, (free - largest) / highest) * STRIP;
      const wide = Math.max(0.6, right - left);
      pen.rect(left, STRIP - h1, wide, h1, bandColor("activations"));
      pen.rect(left, Math.max(0, STRIP - h1 - h2), wide, Math.min(h2, STRIP - h1), color("alarm"), 0.5);
    });
  };
  const figure = new Figure({
    label: "The bank over operations",
    file: `${profile.header.title}-map-over-time`,
    height: STRIP + FOOT,
    draw: (pen) => {
      if (!session.timeline) return;
      kept.draw(pen, [isUsedPart(), session.memory, session.timelineNumber, ...session.range].join(), paint);
      if (session.tensor >= 0 && known() && rowsHere().includes(session.tensor))
        outline(pen, place(pen, session.tensor));
      const at = scales(pen).across(session.operation);
      pen.line([at, 0, at, STRIP], color("text"), 1.5, [3, 3]);
    },
    describe: () => `${session.memory} from #${Math.ceil(session.range[0])} to #${Math.floor(session.range[1])}`,
  });
  figure.element.append(tip.element);
  const operationAt = (event: MouseEvent) => {
    const [from, to] = session.range;
    const share = (figure.place(event)[0] - LEFT) / Math.max(1, figure.canvas.clientWidth - LEFT - RIGHT);
    return Math.floor(from + Math.min(1, Math.max(0, share)) * (to - from));
  };
  const tensorAt = (event: MouseEvent, operation: number) => {
    const address = bounds[1] - (figure.place(event)[1] / STRIP) * (bounds[1] - bounds[0]);
    return profile
      .alive(session.timelineNumber, session.memory, session.timeline.stateBefore(operation))
      .find((one) => lives.address[one]! <= address && address < lives.address[one]! + lives.bytes[one]!);
  };
  figure.canvas.addEventListener("click", (event) => {
    const operation = operationAt(event);
    session.toOperation(operation);
    const row = known() ? tensorAt(event, operation) : undefined;
    if (row !== undefined && row !== session.tensor) session.chooseTensor(row);
  });
  figure.canvas.addEventListener("pointermove", (event) => {
    const operation = operationAt(event);
    if (event.buttons === 1) session.toOperation(operation);
    const lines = [short(session.timeline.label(operation), 110)];
    if (known()) {
      const row = tensorAt(event, operation);
      if (row !== undefined) lines.push(...whyLines(session, row), `at ${hex(lives.address[row]!)}`);
      const programs = session.memory === "L1" ? session.timeline.programBytes(operation) : 0;
      if (programs) lines.push(`its program's buffers take ${amount(programs)} from the base`);
    }
    tip.show(event, lines);
  });
  figure.canvas.addEventListener("pointerleave", () => tip.hide());
  return figure;
}
