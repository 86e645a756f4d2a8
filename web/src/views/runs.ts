// SPDX-License-Identifier: Apache-2.0
// Runs and ranks, below the timeline.

import type { Memory } from "../data/profile";
import type { Session } from "../session";
import { h } from "../ui/dom";
import { mib, thousands } from "../ui/format";
import { Table } from "../ui/table";
import { rankName } from "./tracks";

/** Which of several processes is looked at. */
export function processChoice(session: Session): HTMLElement | null {
  const { timelines } = session.profile;
  if (timelines.length < 2) return null;
  const select = h("select", { "aria-label": "Process", "data-role": "process" });
  timelines.forEach((one, at) =>
    select.append(h("option", { value: at }, [rankName(session, at), one.header.words].filter(Boolean).join(": "))),
  );
  const show = () => {
    select.value = String(session.timelineNumber);
  };
  select.addEventListener("change", () => session.chooseTimeline(Number(select.value)));
  session.on(["memory"], show);
  show();
  return h("label", { class: "field" }, "Process ", select);
}

/** One row per top-level execution; a single one is no table. */
export function runsTable(session: Session): Table<number> | null {
  const runs = session.profile.header.document.run_list;
  if (runs.length < 2) return null;
  return new Table<number>({
    key: "runs",
    label: "Runs",
    file: session.profile.header.title,
    rows: runs.map((_, at) => at),
    height: 300,
    columns: [
      {
        head: "Run",
        kind: "text",
        text: (at) => `${runs[at]!.run}${runs[at]!.rank === null ? "" : ` (rank ${runs[at]!.rank})`}`,
        link: (at) => (runs[at]!.first_index === null ? null : `#op=${runs[at]!.first_index}&view=timeline`),
      },
      { head: "Program", kind: "name", text: (at) => runs[at]!.program },
      {
        head: "Operations",
        kind: "text",
        text: (at) => (runs[at]!.first_index === null ? "-" : `#${runs[at]!.first_index} to #${runs[at]!.last_index}`),
      },
      {
        head: "Count",
        kind: "number",
        text: (at) => thousands(runs[at]!.operations),
        value: (at) => runs[at]!.operations,
      },
      {
        head: "Peak DRAM",
        kind: "number",
        text: (at) => (runs[at]!.peak_dram_bytes_per_bank === null ? "-" : mib(runs[at]!.peak_dram_bytes_per_bank!)),
        value: (at) => runs[at]!.peak_dram_bytes_per_bank ?? -1,
      },
      { head: "Finished", kind: "text", text: (at) => (runs[at]!.finished ? "yes" : "no") },
    ],
  });
}

/** The peaks of each process; a single one is no table. */
export function ranksTable(session: Session): Table<number> | null {
  const { ranks } = session.profile.header.document;
  if (ranks.length < 2) return null;
  const peak = (at: number, memory: Memory) => ranks[at]!.memories[memory]?.peak_bytes_per_bank;
  const column = (memory: Memory) => ({
    head: `Peak ${memory}`,
    kind: "number" as const,
    text: (at: number) => {
      const bytes = peak(at, memory);
      return bytes === undefined ? "-" : mib(bytes);
    },
    value: (at: number) => peak(at, memory) ?? -1,
  });
  return new Table<number>({
    key: "ranks",
    label: "Ranks",
    file: session.profile.header.title,
    rows: ranks.map((_, at) => at),
    columns: [
      {
        head: "Rank",
        kind: "text",
        text: (at) => String(ranks[at]!.rank ?? "-"),
        link: (at) => `#op=0&process=${at}&view=timeline`,
      },
      {
        head: "Operations",
        kind: "number",
        text: (at) => thousands(ranks[at]!.operations.executed),
        value: (at) => ranks[at]!.operations.executed,
      },
      column("DRAM"),
      column("L1"),
    ],
  });
}
