// SPDX-License-Identifier: Apache-2.0
// How much is waste? Padding and alignment by tensor, fragmentation of what is free.

import type { Session } from "../session";
import { h } from "../ui/dom";
import { amount, mib, percent, shapeText } from "../ui/format";
import { Table } from "../ui/table";
import { operationLink, section, type View } from "./view";

export function padding(session: Session): View {
  const { profile } = session;
  const { lives, header } = profile;
  const { logical_bytes, padded_bytes, overhead_percent } = header.document.padding;
  const banks = header.document.memories["DRAM"]?.banks ?? 0;
  const wasted = (row: number) => Math.max(0, profile.typeOf(row)[6] - profile.typeOf(row)[5]);
  const aligned = (row: number) => Math.max(0, lives.bytes[row]! * banks - profile.typeOf(row)[6]);
  const rows = (header.alive_at_peak["DRAM"] ?? []).filter((row) => wasted(row) + aligned(row) > 0);
  rows.sort((a, b) => wasted(b) + aligned(b) - wasted(a) - aligned(a));
  const overhead = (row: number) => (profile.typeOf(row)[5] ? (100 * wasted(row)) / profile.typeOf(row)[5] : 0);
  const most = Math.max(1, ...rows.slice(0, 5000).map(wasted));
  const alignment = rows.reduce((sum, row) => sum + aligned(row), 0);
  const table = new Table<number>({
    key: "padding",
    label: "Padding of the tensors alive at the DRAM peak",
    file: header.title,
    rows,
    columns: [
      { head: "Tensor", kind: "name", text: (row) => profile.nameOf(row) },
      { head: "Shape", kind: "text", text: (row) => shapeText(profile.typeOf(row)[0], profile.typeOf(row)[1]) },
      {
        head: "Logical MB",
        kind: "number",
        text: (row) => mib(profile.typeOf(row)[5]),
        value: (row) => profile.typeOf(row)[5],
      },
      {
        head: "Padded MB",
        kind: "number",
        text: (row) => mib(profile.typeOf(row)[6]),
        value: (row) => profile.typeOf(row)[6],
      },
      {
        head: "Padding MB",
        kind: "number",
        text: (row) => mib(wasted(row)),
        value: wasted,
        bar: (row) => wasted(row) / most,
      },
      { head: "Overhead", kind: "number", text: (row) => percent(overhead(row)), value: overhead },
      { head: "Alignment MB", kind: "number", text: (row) => mib(aligned(row)), value: aligned },
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
  session.on(["search"], () => table.filter(session.words));
  const element = section(
    "padding",
    "How much is waste?",
    "Of the tensors alive at the DRAM peak, over all banks of the chip: shapes are rounded up to tiles (or shards), pages to the banks' alignment.",
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
    table.element,
  );
  return { name: "padding", title: "Padding", element };
}

function fact(label: string, text: string, role: string, value: number): HTMLElement {
  return h(
    "div",
    {},
    h("div", { class: "muted" }, label),
    h("div", { class: "strong", "data-role": role, "data-value": value }, text),
  );
}
