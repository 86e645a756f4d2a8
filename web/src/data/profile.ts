// SPDX-License-Identifier: Apache-2.0
// A profile in the browser: columns, and the questions that the views ask of them.

import { type Block, type Column, Texts } from "./columns";
import type { ProfileHeader, TypeRow } from "./document";
import { clean, short } from "../ui/format";
import { Levels } from "./levels";
import { lowerBound } from "./lookup";

export const MEMORIES = ["DRAM", "L1", "L1_SMALL", "TRACE"] as const;
export type Memory = (typeof MEMORIES)[number];
export const KINDS = ["weights", "uploads", "activations", "temporaries"] as const;
export const WITHIN = 4;
const STATE_NAMES = ["before operation", "before submit", "after submit", "snapshot", "within operation"];
const PARTS = ["circular_buffers", "dataflow_buffers", "scratchpads"] as const;

const none = new Int32Array(0);

/** One memory of one process over its states that show it. */
export interface Series {
  states: Int32Array;
  /** Per state: the operation it stands before. */
  places: Int32Array;
  allocated: Float64Array;
  levels: Levels;
}

/** Who holds a memory in each state of a series, in the order of KINDS; the rest is nobody's we know. */
export interface Bands {
  held: Float64Array[];
  programs: Float64Array | null;
}

export interface FormText {
  name: string;
  location: string;
  results: string[];
  operands: string[];
  resultTypes: (TypeRow | null)[];
  operandTypes: (TypeRow | null)[];
}

export class Timeline {
  readonly form: Column;
  readonly line: Column;
  readonly program: Column;
  readonly stateKind: Column;
  readonly stateOperation: Column;
  readonly stateCause: Column;
  readonly places: Int32Array;
  /** Index of the first operation: not 0 where the profile was narrowed to one run. */
  readonly first: number;
  readonly programs: Record<
    "parent" | "run" | "first_operation" | "end_operation" | "finished" | "first_state" | "end_state",
    Column
  >;
  private readonly allSeries = new Map<Memory, Series | null>();
  private readonly allBands = new Map<Memory, Bands>();
  private readonly allChanges = new Map<Memory, Float64Array>();

  constructor(
    readonly profile: Profile,
    readonly number: number,
  ) {
    const take = (name: string) => profile.column(`t${number}.${name}`);
    this.first = profile.header.timelines[number]!.first_index;
    this.form = take("form");
    this.line = take("line");
    this.program = take("program");
    this.stateKind = take("state_kind");
    this.stateOperation = take("operation");
    this.stateCause = take("cause");
    this.programs = {
      parent: take("programs.parent"),
      run: take("programs.run"),
      first_operation: take("programs.first_operation"),
      end_operation: take("programs.end_operation"),
      finished: take("programs.finished"),
      first_state: take("programs.first_state"),
      end_state: take("programs.end_state"),
    };
    const count = this.stateOperation.length;
    this.places = new Int32Array(count);
    let named = -1;
    for (let at = 0; at < count; at++) {
      const operation = this.stateOperation[at]!;
      if (operation > named) named = operation;
      this.places[at] = operation >= 0 ? named : Math.max(named + 1, this.first);
    }
  }

  get header() {
    return this.profile.header.timelines[this.number]!;
  }
  get end(): number {
    return this.first + this.form.length;
  }
  /** Operations from the first to one past the last: a closing state stands there. */
  get range(): [number, number] {
    const last = this.places.length ? this.places[this.places.length - 1]! : this.first;
    return [this.first, Math.max(this.end - 1, last, this.first + 1)];
  }

  view(memory: Memory, state: number): number {
    const column = this.profile.column(`t${this.number}.view.${memory}`);
    return state >= 0 && state < column.length ? column[state]! : -1;
  }

  series(memory: Memory): Series | null {
    let found = this.allSeries.get(memory);
    if (found !== undefined) return found;
    const views = this.profile.column(`t${this.number}.view.${memory}`);
    const allocatedOf = this.profile.column("views.allocated");
    let count = 0;
    for (let at = 0; at < views.length; at++) if (views[at]! >= 0) count++;
    found = null;
    if (count) {
      const states = new Int32Array(count);
      const places = new Int32Array(count);
      const allocated = new Float64Array(count);
      for (let at = 0, to = 0; at < views.length; at++) {
        const view = views[at]!;
        if (view < 0) continue;
        states[to] = at;
        places[to] = this.places[at]!;
        allocated[to++] = allocatedOf[view]!;
      }
      found = { states, places, allocated, levels: new Levels(allocated) };
    }
    this.allSeries.set(memory, found);
    return found;
  }

  bands(memory: Memory): Bands {
    let bands = this.allBands.get(memory);
    if (bands) return bands;
    const series = this.series(memory);
    const count = series ? series.states.length : 0;
    const held = KINDS.map(() => new Float64Array(count + 1));
    const lives = this.profile.lives;
    const number = MEMORIES.indexOf(memory);
    for (let row = 0; series && row < lives.count; row++) {
      if (lives.memory[row] !== number || lives.timeline[row] !== this.number) continue;
      const from = lowerBound(series.states, lives.firstState[row]!);
      const to = lowerBound(series.states, lives.lastState[row]! + 1);
      if (from >= to) continue;
      const band = held[lives.kind[row]!]!;
      band[from] = band[from]! + lives.bytes[row]!;
      band[to] = band[to]! - lives.bytes[row]!;
    }
    for (const band of held) for (let at = 1; at < count; at++) band[at] = band[at]! + band[at - 1]!;
    let programs: Float64Array | null = null;
    if (memory === "L1" && this.header.programs_known && series) {
      programs = new Float64Array(count);
      for (let at = 0; at < count; at++) programs[at] = this.programBytes(this.stateOperation[series.states[at]!]!);
    }
    bands = { held, programs };
    this.allBands.set(memory, bands);
    return bands;
  }

  /** Circular buffers, dataflow buffers and scratchpads of one operation, bytes per core. */
  programParts(operation: number): [string, number][] {
    if (!this.header.programs_known || operation < this.first || operation >= this.end) return [];
    return PARTS.map((part) => [
      part.replace("_", " "),
      this.profile.column(`t${this.number}.l1.${part}`)[operation - this.first]!,
    ]);
  }
  programBytes(operation: number): number {
    return this.programParts(operation).reduce((sum, [, bytes]) => sum + bytes, 0);
  }

  /** State after minus state before, per operation; 0 where either is missing. */
  changes(memory: Memory): Float64Array {
    let change = this.allChanges.get(memory);
    if (change) return change;
    change = new Float64Array(this.form.length);
    const series = this.series(memory);
    const { first, stateKind, stateCause, stateOperation } = this;
    const [states, allocated] = [series?.states ?? none, series?.allocated ?? none];
    let ran = -2;
    let before = 0;
    for (let at = 0; at < states.length; at++) {
      const state = states[at]!;
      if (stateKind[state] === WITHIN) continue;
      if (stateCause[state] === ran && ran >= first) change[ran - first] = allocated[at]! - before;
      ran = stateOperation[state]!;
      before = allocated[at]!;
    }
    this.allChanges.set(memory, change);
    return change;
  }

  /** What one operation changed, without working it out for all of them. */
  changeAt(memory: Memory, operation: number): number {
    const known = this.allChanges.get(memory);
    if (known) return known[operation - this.first] ?? 0;
    const series = this.series(memory);
    if (!series || operation < this.first || operation >= this.end) return 0;
    let before: number | null = null;
    for (let at = lowerBound(series.places, operation); at < series.states.length; at++) {
      const state = series.states[at]!;
      if (this.stateKind[state] === WITHIN) continue;
      if (before !== null) return this.stateCause[state] === operation ? series.allocated[at]! - before : 0;
      if (this.stateOperation[state] !== operation) return 0;
      before = series.allocated[at]!;
    }
    return 0;
  }

  /** The state that stands before an operation, or the nearest one after it. */
  stateBefore(operation: number): number {
    let at = lowerBound(this.places, operation);
    while (at < this.places.length && this.places[at] === operation && this.stateKind[at] === WITHIN) at++;
    if (at < this.places.length && this.places[at] === operation) return at;
    return Math.min(lowerBound(this.places, operation), this.places.length - 1);
  }

  stateLabel(state: number): string {
    if (state < 0) return "";
    const operation = this.stateOperation[state]!;
    const kind = this.stateKind[state]!;
    if (operation < 0) return STATE_NAMES[kind] ?? "";
    return `${kind === WITHIN ? "within" : "before"} ${short(this.label(operation), 140)}`;
  }

  label(operation: number): string {
    return `#${operation} ${this.name(operation)}`.trim();
  }
  name(operation: number): string {
    const form = this.form[operation - this.first];
    return form === undefined ? "" : this.profile.formName(form);
  }
  location(operation: number): string {
    const form = this.form[operation - this.first];
    return form === undefined ? "" : this.profile.formLocation(form);
  }

  /** The moments worth jumping to: the fullest of each run, or the highest points of a single one; in order. */
  peaks(memory: Memory): number[] {
    const series = this.series(memory);
    if (!series) return [];
    const found = new Set<number>();
    const runs = this.tops();
    for (const top of runs.length > 1 ? runs : []) {
      const from = lowerBound(series.states, this.programs.first_state[top]!);
      const to = lowerBound(series.states, this.programs.end_state[top]!);
      if (from < to) found.add(series.levels.extremes(from, to)[1]);
    }
    if (found.size < 2) {
      const picked = series.levels.pick(0, series.allocated.length, 2000);
      const value = (at: number) => series.allocated[picked[at]!] ?? -1;
      const tops = picked.map((_, at) => at).filter((at) => value(at) > value(at - 1) && value(at) >= value(at + 1));
      tops.sort((a, b) => value(b) - value(a));
      for (const at of tops.slice(0, 30)) found.add(picked[at]!);
    }
    found.add(series.levels.extremes(0, series.allocated.length)[1]);
    return [...found].sort((a, b) => a - b).map((at) => series.states[at]!);
  }

  /** Top-level programs: one per run. */
  tops(): number[] {
    const parents = this.programs.parent;
    return Array.from({ length: parents.length }, (_, at) => at).filter((at) => parents[at]! < 0);
  }

  isFollowed(state: number): boolean {
    return this.profile.header.followed.some(
      ([number, from, to]) => number === this.number && from <= state && state < to,
    );
  }
}

export interface Lives {
  count: number;
  timeline: Column;
  name: Column;
  program: Column;
  type: Column;
  memory: Column;
  kind: Column;
  producer: Column;
  first: Column;
  last: Column;
  lastUse: Column;
  firstState: Column;
  lastState: Column;
  bytes: Column;
  address: Column;
}

export class Profile {
  readonly header: ProfileHeader;
  readonly timelines: Timeline[];
  readonly lives: Lives;
  /** Bytes of texts that would have made the page too large. */
  readonly textsLeftOut: number;
  private readonly locations: Texts | null;
  private readonly values: Texts | null;
  private lastAlive: { key: string; rows: number[] } = { key: "", rows: [] };

  constructor(
    private readonly block: Block<ProfileHeader>,
    texts: Block<{ left_out?: number }> | null,
  ) {
    this.header = block.header;
    this.textsLeftOut = texts?.header.left_out ?? 0;
    const pool = (name: string) => {
      const bytes = texts?.texts.get(name);
      return bytes ? new Texts(bytes, texts!.columns.get(`${name}.end`)!) : null;
    };
    this.locations = pool("forms.location");
    this.values = pool("forms.values");
    const life = (name: string) => this.column(`lives.${name}`);
    this.lives = {
      count: life("name").length,
      timeline: life("timeline"),
      name: life("name"),
      program: life("program"),
      type: life("type"),
      memory: life("memory"),
      kind: life("kind"),
      producer: life("producer"),
      first: life("first"),
      last: life("last"),
      lastUse: life("last_use"),
      firstState: life("first_state"),
      lastState: life("last_state"),
      bytes: life("bytes"),
      address: life("address"),
    };
    this.timelines = this.header.timelines.map((_, number) => new Timeline(this, number));
  }

  column(name: string): Column {
    return this.block.columns.get(name) ?? none;
  }
  get memories(): Memory[] {
    return MEMORIES.filter((memory) => memory in this.header.document.memories);
  }
  formName(form: number): string {
    return this.header.form_names[this.column("forms.name")[form]!] ?? "";
  }
  formLocation(form: number): string {
    return clean(this.locations?.at(form) ?? "");
  }
  form(form: number): FormText {
    const [operands, results] = this.header.signatures[this.column("forms.signature")[form]!] ?? [[], []];
    const [made = "", taken = ""] = clean(this.values?.at(form) ?? "").split("=");
    const words = (text: string) => text.split(" ").filter(Boolean);
    const types = (numbers: number[]) => numbers.map((at) => this.header.form_types[at] ?? null);
    return {
      name: this.formName(form),
      location: this.formLocation(form),
      results: words(made),
      operands: words(taken),
      resultTypes: types(results),
      operandTypes: types(operands),
    };
  }
  typeOf(row: number): TypeRow {
    return this.header.types[this.lives.type[row]!]!;
  }
  nameOf(row: number): string {
    return this.header.names[this.lives.name[row]!] ?? "";
  }

  /** The tensors of one memory in one state, largest first. */
  alive(timeline: number, memory: Memory, state: number): number[] {
    const peak = this.header.peak_states[memory];
    const listed = this.header.alive_at_peak[memory];
    if (listed && peak && peak[0] === timeline && peak[1] === state) return listed;
    // Several views ask for the same moment.
    const key = `${timeline} ${memory} ${state}`;
    if (this.lastAlive.key === key) return this.lastAlive.rows;
    const { lives } = this;
    const number = MEMORIES.indexOf(memory);
    const found: number[] = [];
    for (let row = 0; row < lives.count; row++) {
      if (
        lives.firstState[row]! <= state &&
        state <= lives.lastState[row]! &&
        lives.memory[row] === number &&
        lives.timeline[row] === timeline
      )
        found.push(row);
    }
    found.sort((a, b) => lives.bytes[b]! - lives.bytes[a]! || lives.first[a]! - lives.first[b]!);
    this.lastAlive = { key, rows: found };
    return found;
  }

  /** Figures of one memory in one state: [banks, total, allocated, free, largest free], bytes per bank. */
  figures(timeline: number, memory: Memory, state: number): number[] | null {
    const view = this.timelines[timeline]!.view(memory, state);
    if (view < 0) return null;
    const [banks, total, allocated, lost, scattered] = ["banks", "total", "allocated", "lost", "scattered"].map(
      (name) => this.column(`views.${name}`)[view]!,
    ) as [number, number, number, number, number];
    const free = total - allocated - lost;
    return [banks, total, allocated, free, free - scattered];
  }
}
