// SPDX-License-Identifier: Apache-2.0
// The tests of a suite: what each needed, why, and the way to its own stretch of the timeline.

import type { Place, SuiteMemory, SuiteTest } from "../data/document";
import type { Session } from "../session";
import { h } from "../ui/dom";
import { counted, mib, percent, placeText, signedMib, thousands } from "../ui/format";
import { Table, type TableColumn } from "../ui/table";
import { section, type View } from "./view";

const BAD = ["failed", "error", "crashed", "timeout"];

export function tests(session: Session): View {
  const suite = session.profile.header.suite!;
  const { baseline } = suite;
  const isBad = (test: SuiteTest) => BAD.includes(test.outcome);
  const all = [...suite.tests.filter(isBad), ...suite.tests.filter((test) => !isBad(test))];
  const used = (test: SuiteTest, which: "DRAM" | "L1" | "programs") => {
    const memory = test.memories[which === "programs" ? "L1" : which];
    const bytes = which === "programs" ? memory?.peak_with_programs_bytes_per_core : memory?.peak_bytes_per_bank;
    return { bytes: bytes ?? null, share: bytes !== undefined && memory?.bank_bytes ? bytes / memory.bank_bytes : 0 };
  };
  const amount = (head: string, which: "DRAM" | "L1" | "programs"): TableColumn<SuiteTest> => ({
    head,
    kind: "number",
    text: (test) => {
      const { bytes, share } = used(test, which);
      return bytes === null || !test.operations ? "-" : `${mib(bytes)} (${percent(100 * share)})`;
    },
    value: (test) => used(test, which).bytes ?? -1,
    bar: (test) => used(test, which).share,
  });
  const table = new Table<SuiteTest>({
    key: "tests",
    label: "Tests",
    file: session.profile.header.title,
    rows: all,
    columns: [
      {
        head: "Test",
        kind: "name",
        text: (test) => test.id,
        shown: (test) => testName(test.id),
        link: (test) => stretch(suite.places, test),
        wrap: true,
      },
      {
        head: "Outcome",
        kind: "text",
        text: outcome,
        level: (test) => (isBad(test) ? "alarm" : test.outcome === "passed" ? "ok" : ""),
      },
      amount("DRAM MiB/bank", "DRAM"),
      amount("L1 MiB/bank", "L1"),
      amount("L1 with programs MiB/core", "programs"),
      {
        head: "Fullest in",
        kind: "name",
        text: (test) => told(fullest(test)),
        shown: (test) => placeText(told(fullest(test))),
        wrap: true,
      },
      { head: "Largest tensors", kind: "name", text: largest, wrap: true },
      count("Operations", (test) => test.operations),
      { head: "Seconds", kind: "number", text: (test) => test.seconds.toFixed(2), value: (test) => test.seconds },
      count("Skipped comparisons", (test) => test.skipped_comparisons),
      count("Not measured", (test) => test.unmeasured_programs),
      { head: "Failure", kind: "name", text: (test) => test.failure?.message ?? test.not_judged ?? "", wrap: true },
    ],
  });
  session.on(["search"], () => table.filter(session.words));
  const failed = all.filter(isBad).length;
  const question = `${counted(all.length, "test")} on ${suite.board}, ttnn ${suite.ttnn || "unknown"}: ${
    failed ? `${failed} did not pass` : "none failed"
  }. Failed tests are first, then the fullest; a name leads to the test's operations.`;
  const element = section("tests", "Tests", question, growth(session), table.element);
  if (baseline && !baseline.grown.length)
    element.append(
      h(
        "p",
        { class: "muted" },
        `None of ${baseline.compared} tests grew more than ${baseline.max_growth} since ${baseline.name}.`,
      ),
    );
  return { name: "tests", title: "Tests", element };
}

function growth(session: Session): HTMLElement | null {
  const { baseline, places, tests: all } = session.profile.header.suite!;
  if (!baseline?.grown.length) return null;
  const byId = new Map(all.map((test) => [test.id, test]));
  const table = new Table({
    key: "grown",
    label: "Grown tests",
    file: session.profile.header.title,
    rows: baseline.grown,
    columns: [
      {
        head: "Test",
        kind: "name",
        text: (one) => one.id,
        shown: (one) => testName(one.id),
        link: (one) => stretch(places, byId.get(one.id)!),
      },
      { head: "Memory", kind: "text", text: (one) => one.memory },
      { head: "Before MiB", kind: "number", text: (one) => mib(one.before_bytes), value: (one) => one.before_bytes },
      { head: "After MiB", kind: "number", text: (one) => mib(one.after_bytes), value: (one) => one.after_bytes },
      {
        head: "Growth MiB",
        kind: "number",
        text: (one) => signedMib(one.growth_bytes),
        value: (one) => one.growth_bytes,
      },
      {
        head: "Growth",
        kind: "number",
        text: (one) => percent(one.growth_percent),
        value: (one) => one.growth_percent ?? Infinity,
      },
    ],
  });
  return h("div", {}, h("h3", {}, `Grew more than ${baseline.max_growth} since ${baseline.name}`), table.element);
}

/** Without the folders of its file. */
export const testName = (id: string): string => id.replace(/^[^:]*\/(?=[^/:]+::)/, "");

const count = (head: string, of: (test: SuiteTest) => number | null): TableColumn<SuiteTest> => ({
  head,
  kind: "number",
  text: (test) => (of(test) === null ? "-" : thousands(of(test)!)),
  value: (test) => of(test) ?? -1,
});

function outcome(test: SuiteTest): string {
  const kind = ["none", "other", "crash", "timeout", undefined].includes(test.failure?.class)
    ? ""
    : ` ${test.failure!.class}`;
  const judged = test.not_judged ? " (not judged)" : "";
  return `${test.outcome}${kind}${judged}${test.expected_failure === undefined ? "" : " (xfail)"}`;
}

/** The operation of the fuller memory, L1 with its programs. */
function fullest(test: SuiteTest): Place | null {
  const share = (bytes: number | undefined, memory: SuiteMemory) => (bytes ?? 0) / (memory.bank_bytes || Infinity);
  const places: [number, Place | null | undefined][] = Object.values(test.memories).flatMap((memory) => [
    [share(memory.peak_bytes_per_bank, memory), memory.caused_by],
    [share(memory.peak_with_programs_bytes_per_core, memory), memory.peak_with_programs_at],
  ]);
  places.sort((a, b) => b[0] - a[0]);
  return places[0]?.[1] ?? null;
}

const told = (at: Place | null): string => (at ? `${at.name} ${at.location}` : "");

const largest = (test: SuiteTest): string =>
  Object.values(test.memories)
    .flatMap((memory) => memory.top ?? [])
    .sort((a, b) => b.bytes_per_bank - a.bytes_per_bank)
    .slice(0, 3)
    .map((tensor) => `${tensor.name} ${mib(tensor.bytes_per_bank)}`)
    .join(", ");

/** Its operations on the timeline, at the fullest one. */
function stretch(places: Record<string, [number, number, number]>, test: SuiteTest): string | null {
  const place = test.run === null ? undefined : places[test.run];
  if (!place || place[1] >= place[2]) return null;
  const [process, first, end] = place;
  const zoom = end - first > 1 ? `&from=${first}&to=${end}` : "";
  return `#process=${process}${zoom}&op=${fullest(test)?.index ?? first}&view=timeline`;
}
