// SPDX-License-Identifier: Apache-2.0
// The parts of the documents that the page reads: `ttmem profile --json` and `ttmem diff --json`, as their schemas say.

export interface OperationRef {
  index: number | null;
  name: string;
  location?: string;
}

export interface MemoryPeak {
  banks: number;
  bytes_per_bank: number;
  peak_bytes_per_bank: number;
  peak_percent: number | null;
  peak_at: OperationRef;
  peak_within_operation?: boolean;
  caused_by: OperationRef | null;
  free_bytes_at_peak: number;
  largest_free_bytes_at_peak: number;
  end_bytes_per_bank: number;
  error_bytes_per_bank: number;
  rank: number | null;
  peak_with_programs_bytes_per_core?: number;
  parts?: Record<string, number>;
  peak_with_programs_at?: OperationRef;
}

export interface Weight {
  name: string;
  shape: number[];
  dtype: string;
  bytes: number;
  constant: boolean;
  where: string;
}

export interface RunEntry {
  run: number;
  rank: number | null;
  program: string;
  first_index: number | null;
  last_index: number | null;
  operations: number;
  finished: boolean;
  peak_dram_bytes_per_bank: number | null;
}

/** What `ttmem fit --json` says, as far as it is shown. */
export interface FitAnswer {
  fits: boolean;
  board: string;
  chips: number;
  weights_bytes: number;
  kv_cache_bytes: number;
  activations_peak_bytes: number;
  constants_bytes: number;
  reserve_bytes: number;
  error_bound_percent: number | null;
  assumed: string[];
  advice: { do: string; peak_bytes_per_bank: number; fits: boolean; saves_bytes: number }[];
  capacity?: {
    users: number;
    context: number;
    largest_users: number;
    largest_context: number;
    points: { users: number; context: number; is_limit: boolean }[];
  };
}

export interface ProfileDocument {
  name: string;
  source: { kind: string };
  facts: { fit?: FitAnswer };
  operations: { executed: number; compute: number; by_name: Record<string, number> };
  programs: { name: string; executions: number; operations: number; const_eval: boolean }[];
  runs: number;
  run_list: RunEntry[];
  ranks: { rank: number | null; operations: { executed: number }; memories: Record<string, MemoryPeak> }[];
  memories: Record<string, MemoryPeak>;
  weights: { count: number; bytes: number; device_bytes: number; host_only_bytes: number; entries: Weight[] };
  padding: { logical_bytes: number; padded_bytes: number; overhead_percent: number };
  unattributed_bytes_per_bank: number;
}

export interface Stretch {
  kind: string;
  label: string;
  start: number;
  end: number;
}

export interface FailureStory {
  survived: boolean;
  /** The memory was enough: another reason ended the run. */
  fits: boolean;
  failure_class: string;
  memory: string | null;
  line: number;
  place: string;
  operation: number | null;
  /** The timeline that it belongs to. */
  process: number;
  message: string;
  headline: string;
  findings: string[];
  arithmetic: [string, string, string][];
  remedies: { do: string; why: string; saving: string }[];
  picture: {
    title: string;
    start: number;
    end: number;
    schematic: boolean;
    stretches: Stretch[];
    request: Stretch | null;
  } | null;
  request_bytes_per_bank: number | null;
}

export interface Card {
  title: string;
  figure: string;
  unit: string;
  detail: string;
  bar_percent: number | null;
  level: "ok" | "warn" | "alarm";
}

/** [shape, data type, layout, memory, placement, logical bytes, padded bytes] */
export type TypeRow = [number[], string, string, string, string, number, number];

export interface TimelineHeader {
  rank: number;
  /** Which device, mesh or submesh it is; empty where a rank is all that is known. */
  words: string;
  first_index: number;
  operations: number;
  states: number;
  program_names: string[];
  captured: boolean;
  programs_known: boolean;
  extents: Record<string, [number, number]>;
}

export interface Place {
  index: number;
  name: string;
  location: string;
}

export interface SuiteMemory {
  peak_bytes_per_bank: number;
  bank_bytes: number | null;
  peak_with_programs_bytes_per_core?: number;
  caused_by?: Place | null;
  peak_with_programs_at?: Place;
  top?: { name: string; shape: number[]; dtype: string; bytes_per_bank: number; location: string }[];
}

export interface SuiteTest {
  id: string;
  outcome: string;
  expected_failure?: string;
  seconds: number;
  operations: number | null;
  skipped_comparisons: number | null;
  unmeasured_programs: number | null;
  memories: Record<string, SuiteMemory>;
  failure: { class: string; message: string } | null;
  /** The assertion that failed after values were read: a mock computes none. */
  not_judged?: string | null;
  run: number | null;
}

/** What `ttmem test --json` says, and where each test lies: process, first operation, one past the last. */
export interface Suite {
  board: string;
  ttnn: string;
  tests: SuiteTest[];
  baseline: {
    name: string;
    max_growth: string;
    compared: number;
    grown: {
      id: string;
      memory: string;
      before_bytes: number;
      after_bytes: number;
      growth_bytes: number;
      growth_percent: number | null;
    }[];
  } | null;
  places: Record<string, [number, number, number]>;
}

export interface ProfileHeader {
  part: "profile";
  side: number;
  small: boolean;
  title: string;
  subtitle: string;
  cards: Card[];
  notes: string[];
  warnings: string[];
  facts: [string, string][];
  next_command: string;
  fragmentation: string[];
  remarks: Record<string, string>;
  failure: FailureStory | null;
  /** How a run ended that another reason than memory stopped; empty for every other run. */
  ended: string;
  /** A memory failure happened, whether or not it ended the run. */
  caught: boolean;
  /** The memory that got fullest, L1 with the programs' own buffers. */
  fullest: string | null;
  document: ProfileDocument;
  peak_states: Record<string, [number, number]>;
  suite: Suite | null;
  names: string[];
  types: TypeRow[];
  form_names: string[];
  form_types: TypeRow[];
  signatures: [number[], number[]][];
  timelines: TimelineHeader[];
  followed: [number, number, number][];
  alive_at_peak: Record<string, number[]>;
  ttmem: string;
}

export interface TypeEntry {
  shape: number[];
  dtype: string;
  bytes: number;
}

export interface TensorChange {
  tensor: string;
  operation: { index: number | null; name: string; location: string; program: string };
  delta_bytes: number;
  delta_bytes_per_bank: number;
  memory: string;
  reason: string;
  before: TypeEntry | null;
  after: TypeEntry | null;
  counterpart: string;
}

/** Which operation is which in the two processes that reach a memory's peaks. */
export interface Alignment {
  /** Operations of both that are the same one: [before, after] at every place where the distance changes. */
  anchors: [number, number][];
  /** The same step of a model in both, where two different programs ran it; else empty. */
  pairs: [number, number][];
}

/** The peaks of a memory; one that a profile does not know is null there, and so is the difference. */
export interface MemoryChange {
  before: number | null;
  after: number | null;
  delta_bytes_per_bank: number | null;
  /** Null also for growth from nothing. */
  delta_percent: number | null;
}

export interface DiffHeader {
  part: "compare";
  title: string;
  subtitle: string;
  document: {
    before: string;
    after: string;
    memories: Record<string, MemoryChange>;
    grew: TensorChange[];
    shrank: TensorChange[];
    operation_counts: { name: string; before: number; after: number }[];
    remarks: string[];
    regression: boolean;
  };
  alignments: Record<string, Alignment>;
  /** Tests of two suites that need other amounts: name, memory, bytes before, bytes after. */
  tests: [string, string, number | null, number | null][];
  ttmem: string;
}
