// SPDX-License-Identifier: Apache-2.0
// What lies where in a bank at one moment, and which tensor splits what is free.

import type { Session } from "../session";
import { KINDS } from "./profile";

export interface Held {
  start: number;
  end: number;
  kind: string;
  label: string;
  /** The tensor's life; -1: a buffer of the program that runs. */
  row: number;
}

export interface Bank {
  /** From the lowest address up. */
  held: Held[];
  extent: [number, number];
}

let last: { key: string; of: Session; bank: Bank | null } | null = null;

/** The bank at the cursor; null where the source knows amounts, but not addresses. Several views ask for the same. */
export function bankAt(session: Session): Bank | null {
  const key = `${session.timelineNumber} ${session.memory} ${session.state} ${session.operation}`;
  if (last?.key !== key || last.of !== session) last = { key, of: session, bank: look(session) };
  return last.bank;
}

function look(session: Session): Bank | null {
  const { profile, timeline, memory } = session;
  const { lives } = profile;
  const figures = timeline ? profile.figures(session.timelineNumber, memory, session.state) : null;
  if (!figures || !timeline.header.captured) return null;
  const rows = profile.alive(session.timelineNumber, memory, session.state).filter((row) => lives.address[row]! >= 0);
  if (!rows.length && figures[2]! > 0) return null;
  let [low, high] = timeline.header.extents[memory] ?? [0, figures[1]!];
  const held = rows.map((row) => ({
    start: lives.address[row]!,
    end: lives.address[row]! + lives.bytes[row]!,
    kind: KINDS[lives.kind[row]!]! as string,
    label: profile.nameOf(row),
    row,
  }));
  for (const one of held) [low, high] = [Math.min(low, one.start), Math.max(high, one.end)];
  let at = low;
  if (memory === "L1") {
    for (const [label, bytes] of timeline.programParts(session.operation)) {
      if (bytes > 0) held.unshift({ start: at, end: at + bytes, kind: "programs", label, row: -1 });
      at += bytes;
    }
  }
  held.sort((a, b) => a.start - b.start);
  return { held, extent: [low, high] };
}

export interface Fragment {
  row: number;
  below: number;
  above: number;
  /** The block that would be free if this tensor alone were not there. */
  without: number;
  /** By how much that is more than the largest block that is free now. */
  gain: number;
}

/** Each tensor with the free memory on its two sides, those that split most of it first. */
export function fragments({ held, extent }: Bank): Fragment[] {
  const found: Fragment[] = [];
  let end = extent[0];
  let largest = 0;
  held.forEach((one, at) => {
    const next = held[at + 1]?.start ?? extent[1];
    const below = Math.max(0, one.start - end);
    const above = Math.max(0, next - Math.max(one.end, end));
    largest = Math.max(largest, below, above);
    // Where tensors share memory (views), none of them alone gives it back.
    const isShared = one.start < end || one.end > next;
    if (one.row >= 0)
      found.push({
        row: one.row,
        below,
        above,
        without: isShared ? 0 : below + (one.end - one.start) + above,
        gain: 0,
      });
    end = Math.max(end, one.end);
  });
  for (const one of found) one.gain = Math.max(0, one.without - largest);
  return found.sort((a, b) => b.gain - a.gain || b.without - a.without);
}
