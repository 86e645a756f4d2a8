// SPDX-License-Identifier: Apache-2.0
// The tables of a comparison: tensors that take more or less, counts, steps of both programs, tests of two suites.

import type { DiffHeader, TensorChange } from "../data/document";
import type { Memory, Profile } from "../data/profile";
import { difference, mib, placeText, shapeText, signedMib, thousands } from "../ui/format";
import { Table, type TableColumn } from "../ui/table";
import { testName } from "./tests";

export function changesTable(list: TensorChange[], key: string, title: string, file: string): Table<number> {
  const typeText = (change: TensorChange) => {
    const text = (type: { shape: number[]; dtype: string } | null) => (type ? shapeText(type.shape, type.dtype) : "");
    const [old, now] = [text(change.before), text(change.after)];
    return old && now && old !== now ? `${now} (was ${old})` : now || old;
  };
  return new Table<number>({
    key,
    label: title,
    file,
    rows: list.map((_, at) => at),
    empty: key === "grew" ? "Nothing takes more." : "Nothing takes less.",
    columns: [
      { head: "Memory", kind: "text", text: (at) => list[at]!.memory },
      { head: "Tensor", kind: "name", text: (at) => list[at]!.tensor },
      ...(list.some((one) => one.counterpart)
        ? [{ head: "In the other run", kind: "name" as const, text: (at: number) => list[at]!.counterpart || "-" }]
        : []),
      { head: "Why", kind: "text", text: (at) => list[at]!.reason },
      { head: "Shape", kind: "text", text: (at) => typeText(list[at]!) },
      {
        head: "MiB/bank",
        kind: "number",
        text: (at) => signedMib(list[at]!.delta_bytes_per_bank),
        value: (at) => list[at]!.delta_bytes_per_bank,
      },
      {
        head: "Bytes",
        kind: "number",
        text: (at) => thousands(list[at]!.delta_bytes),
        value: (at) => list[at]!.delta_bytes,
      },
      {
        head: "Operation",
        kind: "name",
        text: (at) =>
          `${list[at]!.operation.index === null ? "" : `#${list[at]!.operation.index} `}${list[at]!.operation.name}`,
      },
      {
        head: "Location",
        kind: "name",
        text: (at) => list[at]!.operation.location || "-",
        shown: (at) => placeText(list[at]!.operation.location) || "-",
      },
    ],
  });
}

export function countsTable(header: DiffHeader): Table<number> {
  const counts = header.document.operation_counts;
  return new Table<number>({
    key: "counts",
    label: "Operations that ran more or less often",
    file: header.title,
    rows: counts.map((_, at) => at),
    columns: [
      { head: "Operation", kind: "name", text: (at) => counts[at]!.name },
      {
        head: "Before",
        kind: "number",
        text: (at) => thousands(counts[at]!.before),
        value: (at) => counts[at]!.before,
      },
      {
        head: "After",
        kind: "number",
        text: (at) => thousands(counts[at]!.after),
        value: (at) => counts[at]!.after,
      },
    ],
  });
}

/** The steps that both processes of a memory's peaks have. */
export const stepsOf = (header: DiffHeader, memory: Memory): number[] =>
  (header.alignments[memory]?.pairs ?? []).map((_, at) => at);

/** Every step that both programs have: what ran there, and how full the memory was before it. */
export function stepsTable(header: DiffHeader, before: Profile, after: Profile, memory: () => Memory): Table<number> {
  const operationAt = (side: 0 | 1, at: number) => header.alignments[memory()]!.pairs[at]![side];
  const place = (side: 0 | 1) => (side ? after : before).header.peak_states[memory()]?.[0] ?? 0;
  const timeline = (side: 0 | 1) => (side ? after : before).timelines[place(side)]!;
  const level = (side: 0 | 1, at: number): number | null => {
    const state = timeline(side).stateBefore(operationAt(side, at));
    return (side ? after : before).figures(place(side), memory(), state)?.[2] ?? null;
  };
  const delta = (at: number) => difference(level(0, at), level(1, at));
  const columns = ([0, 1] as const).flatMap((side) => {
    const name = side ? "After" : "Before";
    const location = (at: number) => timeline(side).location(operationAt(side, at)) || "-";
    return [
      {
        head: `${name}: operation`,
        kind: "name" as const,
        text: (at: number) => timeline(side).label(operationAt(side, at)),
        value: (at: number) => at,
      },
      { head: "Where", kind: "name" as const, text: location, shown: (at: number) => placeText(location(at)) },
      {
        head: "MiB/bank",
        kind: "number" as const,
        text: (at: number) => (level(side, at) === null ? "-" : mib(level(side, at)!)),
        value: (at: number) => level(side, at) ?? -1,
      },
    ];
  });
  return new Table<number>({
    key: "steps",
    label: "Steps that both have",
    file: header.title,
    rows: stepsOf(header, memory()),
    height: 360,
    columns: [
      ...columns,
      { head: "Difference", kind: "number", text: (at) => signedMib(delta(at)), value: (at) => delta(at) ?? 0 },
    ],
  });
}

/** Of two suites: every test that needs another amount than before. */
export function testsTable({ tests, title }: DiffHeader): Table<number> {
  const bytes = (side: 2 | 3, head: string): TableColumn<number> => ({
    head,
    kind: "number",
    text: (at) => (tests[at]![side] === null ? "-" : mib(tests[at]![side]!)),
    value: (at) => tests[at]![side] ?? -1,
  });
  const growth = (at: number) => difference(tests[at]![2], tests[at]![3]);
  return new Table<number>({
    key: "compared-tests",
    label: "Tests that need more or less",
    file: title,
    rows: tests.map((_, at) => at),
    columns: [
      { head: "Test", kind: "name", text: (at) => tests[at]![0], shown: (at) => testName(tests[at]![0]) },
      { head: "Memory", kind: "text", text: (at) => tests[at]![1] },
      bytes(2, "Before MiB"),
      bytes(3, "After MiB"),
      { head: "Change MiB", kind: "number", text: (at) => signedMib(growth(at)), value: (at) => growth(at) ?? 0 },
    ],
  });
}
