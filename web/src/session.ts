// SPDX-License-Identifier: Apache-2.0
// What the reader is looking at: process, memory, moment, stretch of operations, words searched for. The address bar
// keeps it, so that a link opens the same place.

import { type Memory, MEMORIES, type Profile, type Timeline } from "./data/profile";

type Topic = "cursor" | "range" | "search" | "memory" | "theme" | "tensor";

export class Session {
  timelineNumber = 0;
  memory: Memory = "DRAM";
  operation = 0;
  state = -1;
  range: [number, number];
  words: string[] = [];
  /** The tensor that is looked at in all drawings; -1: none. */
  tensor = -1;
  /** The memory that the page opens with. */
  private readonly home: Memory;
  private readonly listeners = new Map<Topic, Set<() => void>>();

  constructor(readonly profile: Profile) {
    this.memory = mostInteresting(profile);
    this.home = this.memory;
    this.timelineNumber = this.peak(this.memory)?.[0] ?? 0;
    this.range = this.timeline?.range ?? [0, 1];
    this.toPeak(this.memory);
  }

  get timeline(): Timeline {
    return this.profile.timelines[this.timelineNumber]!;
  }
  peak(memory: Memory): [number, number] | undefined {
    return this.profile.header.peak_states[memory];
  }
  on(topics: Topic[], listener: () => void): void {
    for (const topic of topics) {
      const known = this.listeners.get(topic) ?? new Set();
      this.listeners.set(topic, known.add(listener));
    }
  }
  tell(...topics: Topic[]): void {
    const called = new Set<() => void>();
    for (const topic of topics) for (const listener of this.listeners.get(topic) ?? []) called.add(listener);
    for (const listener of called) listener();
  }

  toOperation(operation: number): void {
    if (!this.timeline) return;
    const [first, last] = this.timeline.range;
    this.operation = Math.min(Math.max(Math.round(operation), first), last);
    this.state = this.timeline.stateBefore(this.operation);
    this.reveal();
    this.tell("cursor");
  }
  toState(state: number): void {
    if (state < 0 || state >= this.timeline.places.length) return;
    this.state = state;
    this.operation = this.timeline.places[state]!;
    this.reveal();
    this.tell("cursor");
  }
  toPeak(memory: Memory): void {
    const peak = this.peak(memory);
    if (!peak) return;
    if (peak[0] !== this.timelineNumber) this.chooseTimeline(peak[0]);
    const { peak_bytes_per_bank, peak_with_programs_at } = this.profile.header.document.memories[memory]!;
    const program = peak_with_programs_at?.index ?? null;
    if (!peak_bytes_per_bank && program !== null) this.toOperation(program);
    else this.toState(peak[1]);
  }
  /** The next memory that ever held anything. */
  nextMemory(): void {
    const used = this.profile.memories.filter((memory) => isUsed(this.profile, memory));
    const next = used[(used.indexOf(this.memory) + 1) % used.length];
    if (next) this.showMemory(next);
  }
  /** Where the run failed; null where it did not, or outside any operation. */
  get failed(): number | null {
    return this.profile.header.failure?.operation ?? null;
  }
  toFailure(): void {
    const { failure } = this.profile.header;
    if (!failure || failure.operation === null) return;
    const memory = this.profile.memories.find((one) => one === failure.memory);
    if (memory && memory !== this.memory) this.chooseMemory(memory);
    if (failure.process !== this.timelineNumber) this.chooseTimeline(failure.process);
    this.toOperation(failure.operation);
  }
  /** The next (1) or previous (-1) peak of the memory that is shown. */
  stepPeak(direction: 1 | -1): void {
    const peaks = this.timeline?.peaks(this.memory) ?? [];
    const next =
      direction > 0 ? peaks.find((state) => state > this.state) : peaks.findLast((state) => state < this.state);
    const wrapped = next ?? (direction > 0 ? peaks[0] : peaks.at(-1));
    if (wrapped !== undefined) this.toState(wrapped);
  }
  zoom(from: number, to: number): void {
    const [first, last] = this.timeline.range;
    let [low, high] = [Math.max(first, from), Math.min(last, to)];
    if (high - low < 1) {
      low = Math.max(first, Math.min(Math.floor(low), last - 1));
      high = low + 1;
    }
    this.range = [low, high];
    this.tell("range");
  }
  /** Closer (below 1) or wider (above 1) around the cursor. */
  zoomBy(factor: number): void {
    const [low, high] = this.range;
    const centre = this.operation >= low && this.operation <= high ? this.operation : (low + high) / 2;
    this.zoom(centre - (centre - low) * factor, centre + (high - centre) * factor);
  }
  zoomOut(): void {
    this.zoom(...this.timeline.range);
  }
  private reveal(): void {
    const [low, high] = this.range;
    if (this.operation >= low && this.operation <= high) return;
    const width = high - low;
    this.zoom(this.operation - width / 2, this.operation + width / 2);
  }
  chooseMemory(memory: Memory): void {
    this.memory = memory;
    this.tell("memory", "cursor", "range");
  }
  /** Show a memory; if it is empty at the cursor, at its peak. */
  showMemory(memory: Memory): void {
    this.chooseMemory(memory);
    const figures = this.profile.figures(this.timelineNumber, memory, this.state);
    if (!figures?.[2]) this.toPeak(memory);
  }
  chooseTimeline(number: number): void {
    this.timelineNumber = number;
    this.range = this.timeline.range;
    this.operation = this.timeline.first;
    this.state = this.timeline.stateBefore(this.operation);
    this.tell("memory", "cursor", "range");
  }
  /** Mark a tensor in all drawings; once more takes the mark away. */
  chooseTensor(row: number): void {
    this.tensor = row === this.tensor || row >= this.profile.lives.count ? -1 : row;
    this.tell("tensor");
  }
  search(text: string): void {
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.tell("search");
  }

  hash(view: string): string {
    const parts = [`op=${this.operation}`];
    if (view) parts.push(`view=${view}`);
    if (this.memory !== this.home) parts.push(`memory=${this.memory}`);
    if (this.timelineNumber !== 0) parts.push(`process=${this.timelineNumber}`);
    if (this.tensor >= 0) parts.push(`tensor=${this.tensor}`);
    const [first, last] = this.timeline?.range ?? [0, 1];
    if (this.range[0] !== first || this.range[1] !== last)
      parts.push(`from=${Math.round(this.range[0])}&to=${Math.round(this.range[1])}`);
    return `#${parts.join("&")}`;
  }
  /** Go where a link says; the view it names, "" when none. Whatever a link holds, nothing breaks. */
  follow(hash: string): string {
    const asked = new URLSearchParams(hash.replace(/^#/, ""));
    const whole = (name: string) => {
      const text = asked.get(name);
      return text !== null && /^\d{1,12}$/.test(text) ? Number(text) : null;
    };
    const process = whole("process");
    if (process !== null && process < this.profile.timelines.length && process !== this.timelineNumber)
      this.chooseTimeline(process);
    const memory = asked.get("memory")?.toUpperCase();
    const known = MEMORIES.find((one) => one === memory);
    const operation = whole("op");
    if (known && known !== this.memory && this.profile.memories.includes(known)) {
      if (operation === null) this.showMemory(known);
      else this.chooseMemory(known);
    }
    const [from, to] = [whole("from"), whole("to")];
    if (from !== null && to !== null && from < to) this.zoom(from, to);
    if (operation !== null && operation !== this.operation) this.toOperation(operation);
    const tensor = whole("tensor");
    if (tensor !== null && tensor !== this.tensor) this.chooseTensor(tensor);
    return asked.get("view") ?? "";
  }
}

/** The memory that the run failed for, else the fullest one. */
function mostInteresting(profile: Profile): Memory {
  const { failure, fullest } = profile.header;
  const failed = profile.memories.find((memory) => memory === failure?.memory && !failure.survived);
  return failed ?? profile.memories.find((memory) => memory === fullest) ?? profile.memories[0] ?? "DRAM";
}

function isUsed(profile: Profile, memory: Memory): boolean {
  const peak = profile.header.document.memories[memory]!;
  return Math.max(peak.peak_bytes_per_bank, peak.peak_with_programs_bytes_per_core ?? 0) > 0;
}
