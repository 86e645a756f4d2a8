// SPDX-License-Identifier: Apache-2.0
// Another report laid under this one, chosen from disk. `ttmem diff` says more: it knows which operation is which.

import type { DiffHeader, TensorChange } from "../data/document";
import { MEMORIES, type Profile } from "../data/profile";
import { fill, h } from "../ui/dom";
import { difference as byteDifference } from "../ui/format";
import { compare } from "./compare";
import { section, type View } from "./view";

export function compareWith(after: Profile, read: (file: File) => Promise<Profile>): View {
  const place = h("div", { "data-role": "compared" });
  const told = h("p", { class: "muted", role: "status" });
  const input = h("input", {
    type: "file",
    accept: ".html,text/html",
    "aria-label": "Another report of ttmem",
    "data-role": "other",
  });
  let shown: View | null = null;
  input.addEventListener("change", () => {
    const file = input.files?.[0];
    if (!file) return;
    fill(told, `reading ${file.name}`);
    read(file).then(
      (before) => {
        const view = compare(difference(before, after), before, after);
        view.element.removeAttribute("data-view");
        view.element.classList.add("inner");
        view.element.querySelector("[data-role=cursor]")?.setAttribute("data-role", "compare-cursor"); // the page has one
        fill(place, view.element);
        fill(told);
        shown = view;
        view.redraw?.();
      },
      (error: unknown) =>
        fill(told, `${file.name} cannot be compared: ${error instanceof Error ? error.message : String(error)}`),
    );
  });
  const element = section(
    "compare",
    "Compare",
    "Choose the page of another run: its curves are drawn below these, and the tensors of both peaks are compared by name and type.",
    h("p", {}, input),
    told,
    place,
  );
  return { name: "compare", title: "Compare", element, redraw: () => shown?.redraw?.() };
}

/** What can be told from two pages alone: peaks, and tensors that only one of two peaks has. */
export function difference(before: Profile, after: Profile): DiffHeader {
  const memories: DiffHeader["document"]["memories"] = {};
  const [grew, shrank]: [TensorChange[], TensorChange[]] = [[], []];
  for (const memory of MEMORIES) {
    const peaks = [before, after].map(
      (profile) => profile.header.document.memories[memory]?.peak_bytes_per_bank ?? null,
    );
    const [old, now] = [peaks[0] ?? null, peaks[1] ?? null];
    if (old === null && now === null) continue;
    const delta = byteDifference(old, now);
    memories[memory] = {
      before: old,
      after: now,
      delta_bytes_per_bank: delta,
      delta_percent: delta === 0 ? 0 : old && delta !== null ? (100 * delta) / old : null,
    };
    if (delta === null) continue; // tensors of a memory that the other one does not know are no difference
    const left = new Map<string, number[]>();
    const key = (profile: Profile, row: number) =>
      `${profile.nameOf(row)} ${profile.typeOf(row)[0].join("x")} ${profile.typeOf(row)[1]}`;
    for (const row of before.header.alive_at_peak[memory] ?? [])
      left.set(key(before, row), [...(left.get(key(before, row)) ?? []), row]);
    for (const row of after.header.alive_at_peak[memory] ?? []) {
      if (left.get(key(after, row))?.shift() === undefined) grew.push(change(after, row, memory, "only here", 1));
    }
    for (const rows of left.values())
      for (const row of rows) shrank.push(change(before, row, memory, "only there", -1));
  }
  const counts = [before, after].map((profile) => profile.header.document.operations.by_name);
  const names = [...new Set(counts.flatMap((one) => Object.keys(one)))];
  const operation_counts = names
    .map((name) => ({ name, before: counts[0]![name] ?? 0, after: counts[1]![name] ?? 0 }))
    .filter((one) => one.before !== one.after)
    .sort((a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before));
  const [first, second] = [before.header.title, after.header.title];
  const document = {
    before: first,
    after: second,
    memories,
    grew,
    shrank,
    operation_counts,
    remarks: [],
    regression: false,
  };
  return {
    part: "compare",
    title: `${first} and ${second}`,
    subtitle: `${first} under ${second}.`,
    document,
    alignments: {},
    tests: [],
    ttmem: after.header.ttmem,
  };
}

function change(profile: Profile, row: number, memory: string, reason: string, sign: 1 | -1): TensorChange {
  const { lives } = profile;
  const type = profile.typeOf(row);
  const timeline = profile.timelines[lives.timeline[row]!]!;
  const producer = lives.producer[row]!;
  const entry = { shape: type[0], dtype: type[1], bytes: type[6] };
  return {
    tensor: profile.nameOf(row),
    operation: {
      index: producer < 0 ? null : producer,
      name: timeline.name(producer),
      location: timeline.location(producer),
      program: "",
    },
    delta_bytes: sign * type[6],
    delta_bytes_per_bank: sign * lives.bytes[row]!,
    memory,
    reason,
    before: sign < 0 ? entry : null,
    counterpart: "",
    after: sign > 0 ? entry : null,
  };
}
