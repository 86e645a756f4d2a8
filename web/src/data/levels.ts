// SPDX-License-Identifier: Apache-2.0
// Min-max levels: a million states are drawn as a few thousand points, and the one that decides is always among them.

import type { Column } from "./columns";

const STRIDE = 8;

interface Level {
  stride: number;
  lowest: Int32Array;
  highest: Int32Array;
}

export class Levels {
  private readonly levels: Level[] = [];

  constructor(readonly values: Column) {
    let stride = STRIDE;
    while (values.length / stride >= 64) {
      this.levels.push(this.next(stride));
      stride *= STRIDE;
    }
  }

  private next(stride: number): Level {
    const below = this.levels.at(-1);
    const count = Math.ceil(this.values.length / stride);
    const lowest = new Int32Array(count);
    const highest = new Int32Array(count);
    for (let at = 0; at < count; at++) {
      const from = at * STRIDE;
      const to = Math.min(from + STRIDE, below ? below.lowest.length : this.values.length);
      let low = below ? below.lowest[from]! : from;
      let high = below ? below.highest[from]! : from;
      for (let child = from + 1; child < to; child++) {
        const l = below ? below.lowest[child]! : child;
        const h = below ? below.highest[child]! : child;
        if (this.values[l]! < this.values[low]!) low = l;
        if (this.values[h]! > this.values[high]!) high = h;
      }
      lowest[at] = low;
      highest[at] = high;
    }
    return { stride, lowest, highest };
  }

  /** Positions in [from, to), in order: all, or the lowest and highest of each stretch, and both ends. */
  pick(from: number, to: number, most: number): number[] {
    const count = to - from;
    if (count <= most) return Array.from({ length: Math.max(count, 0) }, (_, at) => from + at);
    const buckets = Math.max(1, Math.floor(most / 2) - 1);
    const picked: number[] = [from];
    for (let bucket = 0; bucket < buckets; bucket++) {
      const start = from + Math.floor((bucket * count) / buckets);
      const end = from + Math.floor(((bucket + 1) * count) / buckets);
      const [low, high] = this.extremes(start, end);
      for (const at of low < high ? [low, high] : [high, low]) if (at > picked.at(-1)!) picked.push(at);
    }
    if (to - 1 > picked.at(-1)!) picked.push(to - 1);
    return picked;
  }

  /** The first lowest and first highest position in [from, to). */
  extremes(from: number, to: number): [number, number] {
    let low = from;
    let high = from;
    const values = this.values;
    const see = (l: number, h: number) => {
      if (values[l]! < values[low]!) low = l;
      if (values[h]! > values[high]!) high = h;
    };
    let at = from;
    while (at < to) {
      let step = 1;
      for (let up = this.levels.length - 1; up >= 0; up--) {
        const level = this.levels[up]!;
        if (at % level.stride === 0 && at + level.stride <= to) {
          see(level.lowest[at / level.stride]!, level.highest[at / level.stride]!);
          step = level.stride;
          break;
        }
      }
      if (step === 1) see(at, at);
      at += step;
    }
    return [low, high];
  }
}
