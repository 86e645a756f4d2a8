// SPDX-License-Identifier: Apache-2.0
// How much is waste? Padding and alignment by tensor, and which tensor splits what is free.

import { bankAt, type Fragment, fragments } from "../data/bank";
import { MEMORIES } from "../data/profile";
import type { Session } from "../session";
import { h, perFrame, whenSeen } from "../ui/dom";
import { amount, counted, mib, percent, shapeText } from "../ui/format";
import { Table } from "../ui/table";
import { operationLink, section, type View } from "./view";

export function padding(session: Session): View {
  const { profile } = session;
  const { lives, header } = profile;
  const { logical_bytes, padded_bytes, overhead_percent } = header.document.padding;
  const memoryOf = (row: number) => MEMORIES[lives.memory[row]!]!;
  const wasted = (row: number) => Math.max(0, profile.typeOf(row)[6] - profile.typeOf(row)[5]);
  // Shards lie on the cores of a grid, not on all banks: what rounding costs them is in their padding.
  const aligned = (row: number) => {
    const banks = header.document.memories[memoryOf(row)]?.banks ?? 0;
    return /shard/.test(profile.typeOf(row)[4]) ? 0 : Math.max(0, lives.bytes[row]! * banks - profile.typeOf(row)[6]);
  };
  const rows = MEMORIES.flatMap((memory) => header.alive_at_peak[memory] ?? []).filter(
    (row) => wasted(row) + aligned(row) > 0,
  );
  rows.sort((a, b) => wasted(b) + aligned(b) - wasted(a) - aligned(a));
  const overhead = (row: number) => (profile.typeOf(row)[5] ? (100 * wasted(row)) / profile.typeOf(row)[5] : 0);
  const most = Math.max(1, ...rows.slice(0, 5000).map(wasted));
  const alignment = rows.reduce((sum, row) => sum + (memoryOf(row) === "DRAM" ? aligned(row) : 0), 0);
  const table = new Table<number>({
    key: "padding",
    label: "Padding of the tensors alive at the peaks",
    file: header.title,
    rows,
    empty: "No tensor known to be alive at a peak is padded.",
    columns: [
      { head: "Tensor", kind: "name", text: (row) => profile.nameOf(row) },
      { head: "Memory", kind: "text", text: memoryOf },
      { head: "Shape", kind: "text", text: (row) => shapeText(profile.typeOf(row)[0], profile.typeOf(row)[1]) },
      {
        head: "Logical MiB",
        kind: "number",
        text: (row) => mib(profile.typeOf(row)[5]),
        value: (row) => profile.typeOf(row)[5],
      },
      {
        head: "Padded MiB",
        kind: "number",
        text: (row) => mib(profile.typeOf(row)[6]),
        value: (row) => profile.typeOf(row)[6],
      },
      {
        head: "Padding MiB",
        kind: "number",
        text: (row) => mib(wasted(row)),
        value: wasted,
        bar: (row) => wasted(row) / most,
      },
      { head: "Overhead", kind: "number", text: (row) => percent(overhead(row)), value: overhead },
      { head: "Alignment MiB", kind: "number", text: (row) => mib(aligned(row)), value: aligned },
      {
        head: "Producer",
        kind: "name",
        text: (row) =>
          lives.producer[row]! < 0
            ? "resident before the run"
            : profile.timelines[lives.timeline[row]!]!.label(lives.producer[row]!),
        link: (row) => operationLink(lives.producer[row]!),
      },
    ],
  });
  const split = fragmentation(session);
  session.on(["search"], () => table.filter(session.words));
  const element = section(
    "padding",
    "How much is waste?",
    "Tensors alive at the DRAM peak, over all banks of the chip: shapes are rounded up to tiles (or shards), pages to the banks' alignment.",
    h(
      "div",
      { class: "facts-line" },
      fact("Elements", amount(logical_bytes), "logical-bytes", logical_bytes),
      fact("With padding", amount(padded_bytes), "padded-bytes", padded_bytes),
      fact("Overhead", percent(overhead_percent), "overhead-percent", overhead_percent),
      fact("Alignment and rounding over banks", amount(alignment), "alignment-bytes", alignment),
    ),
    header.fragmentation.length > 0 &&
      h(
        "ul",
        { class: "remarks" },
        header.fragmentation.map((text) => h("li", {}, text)),
      ),
    h("h3", { class: "sub" }, "Padding and alignment by tensor, at the peak of each memory"),
    table.element,
    ...split.elements,
  );
  return { name: "padding", title: "Padding", element, redraw: split.update };
}

/** Free memory is of use in one piece: which tensors at the cursor keep pieces of it apart. */
function fragmentation(session: Session): { elements: HTMLElement[]; update: () => void } {
  const { profile } = session;
  const { lives } = profile;
  const about = h("p", { class: "muted", "data-role": "fragmentation-about" });
  const bytes = (head: string, value: (one: Fragment) => number) => ({
    head,
    kind: "number" as const,
    text: (one: Fragment) => mib(value(one)),
    value,
  });
  const table = new Table<Fragment>({
    key: "fragmentation",
    label: "Tensors between free blocks at the cursor",
    file: `${profile.header.title}-fragmentation`,
    rows: [],
    columns: [
      { head: "Tensor", kind: "name", text: (one) => profile.nameOf(one.row) },
      { head: "Shape", kind: "text", text: ({ row }) => shapeText(profile.typeOf(row)[0], profile.typeOf(row)[1]) },
      bytes("MiB/bank", (one) => lives.bytes[one.row]!),
      bytes("Free below MiB", (one) => one.below),
      bytes("Free above MiB", (one) => one.above),
      bytes("Free block without it MiB", (one) => one.without),
      bytes("Gained MiB", (one) => one.gain),
      {
        head: "Producer",
        kind: "name",
        text: ({ row }) =>
          lives.producer[row]! < 0 ? "resident before the run" : session.timeline.label(lives.producer[row]!),
        link: ({ row }) => operationLink(lives.producer[row]!),
      },
    ],
  });
  const update = () => {
    const figures = session.timeline ? profile.figures(session.timelineNumber, session.memory, session.state) : null;
    const bank = figures && bankAt(session);
    const [, , , free = 0, largest = 0] = figures ?? [];
    const where = figures ? `${session.memory} ${session.timeline.stateLabel(session.state)}: ` : "";
    const told = `${where}${amount(free)} free per bank, ${amount(largest)} of it in one block`;
    if (bank) {
      const found = fragments(bank).filter((one) => one.below + one.above > 0);
      const splitting = found.filter((one) => one.gain > 0).length;
      about.textContent = `${told}. ${counted(found.length, "tensor")} ${found.length === 1 ? "borders" : "border"} on free memory; ${splitting ? `freeing ${splitting === 1 ? "one" : `any of ${splitting}`} of them would enlarge the largest free block` : "freeing a single one would not enlarge the largest free block"}.`;
      table.setRows(found);
    } else {
      about.textContent = figures
        ? `${told}. A log prints amounts, not addresses: which tensors separate free blocks is not known.`
        : `The source shows no state of ${session.memory} at the cursor.`;
      table.setRows([]);
    }
    table.element.hidden = !bank;
  };
  const seen = h("div", {}, about, table.element);
  session.on(["cursor", "memory"], perFrame(whenSeen(seen, update)));
  session.on(["search"], () => table.filter(session.words));
  return { elements: [h("h3", { class: "sub" }, "Fragmentation by tensor"), seen], update };
}

function fact(label: string, text: string, role: string, value: number): HTMLElement {
  return h(
    "div",
    {},
    h("div", { class: "muted" }, label),
    h("div", { class: "strong", "data-role": role, "data-value": value }, text),
  );
}
