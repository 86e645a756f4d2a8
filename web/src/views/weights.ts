// SPDX-License-Identifier: Apache-2.0
// The weights, and what the source warned about.

import type { Session } from "../session";
import { h } from "../ui/dom";
import { amount, counted, mib, shapeText } from "../ui/format";
import { Table } from "../ui/table";
import { section, type View } from "./view";

export function weights(session: Session): View {
  const { title, document: known } = session.profile.header;
  const { entries, count, bytes, device_bytes, host_only_bytes } = known.weights;
  const table = new Table<number>({
    key: "weights",
    label: "Weights",
    file: title,
    rows: entries.map((_, at) => at),
    columns: [
      { head: "Weight", kind: "name", text: (at) => entries[at]!.name },
      { head: "Shape", kind: "text", text: (at) => shapeText(entries[at]!.shape, entries[at]!.dtype) },
      {
        head: "MiB",
        kind: "number",
        text: (at) => mib(entries[at]!.bytes),
        value: (at) => entries[at]!.bytes,
        bar: (at) => entries[at]!.bytes / Math.max(1, entries[0]!.bytes),
      },
      { head: "Where", kind: "text", text: (at) => entries[at]!.where },
      { head: "Kind", kind: "text", text: (at) => (entries[at]!.constant ? "constant" : "parameter") },
    ],
  });
  session.on(["search"], () => table.filter(session.words));
  const places = [
    device_bytes && `${amount(device_bytes)} on the device`,
    host_only_bytes && `${amount(host_only_bytes)} only on the host`,
  ]
    .filter(Boolean)
    .join(", ");
  const question = count
    ? `${counted(count, "weight")}, ${amount(bytes)} of elements on one chip, each counted once over all graphs${places ? ` (${places})` : ""}. A weight on the host only feeds const-eval.`
    : "The source does not mark weights.";
  return {
    name: "weights",
    title: "Weights",
    element: section("weights", "Weights", question, count ? table.element : null),
  };
}

export function warnings(session: Session): View {
  const { notes, warnings: warned, facts, next_command } = session.profile.header;
  const list = (items: string[], kind: string) =>
    items.length
      ? h(
          "ul",
          { class: kind },
          items.map((text) => h("li", {}, text)),
        )
      : null;
  const element = section(
    "warnings",
    "Warnings and source",
    notes.length + warned.length
      ? `${counted(notes.length + warned.length, "remark")} on this run and its source.`
      : "No warnings.",
    list(notes, "notes"),
    list(warned, "remarks"),
    h("dl", { class: "facts" }, facts.map(([label, text]) => [h("dt", {}, label), h("dd", {}, text)]).flat()),
    h("p", { class: "muted" }, "Next: ", h("code", {}, next_command)),
  );
  return { name: "warnings", title: "Warnings", element };
}
