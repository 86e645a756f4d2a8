// SPDX-License-Identifier: Apache-2.0
// The stored reports in `ttmem serve`: find, open, compare, delete.

import { Shell } from "../shell";
import { fill, h } from "../ui/dom";
import { amount, mib, percent, thousands } from "../ui/format";
import { announce } from "../ui/save";
import { Table, type TableColumn } from "../ui/table";
import { section } from "../views/view";

interface Report {
  name: string;
  stored_at: string | null;
  kind: string | null;
  operations_executed: number | null;
  peak_dram_bytes_per_bank: number | null;
  peak_dram_percent: number | null;
  peak_l1_bytes_per_bank: number | null;
  peak_l1_percent: number | null;
  status: string | null;
  bytes_on_disk: number;
}

export interface StoreHeader {
  part: "store";
  title: string;
  folder: string;
  reports: Report[];
  follows: string;
  ttmem: string;
}

/** The peak of one memory, MiB per bank and share of the bank. */
function peakColumn(
  memory: string,
  bytes: (one: Report) => number | null,
  share: (one: Report) => number | null,
): TableColumn<Report> {
  return {
    head: `${memory} MiB/bank`,
    kind: "number",
    text: (one) => (bytes(one) === null ? "-" : `${mib(bytes(one)!)} (${percent(share(one))})`),
    value: (one) => bytes(one) ?? -1,
    bar: (one) => (share(one) ?? 0) / 100,
  };
}

/** Every address of the server needs the token of this one. */
export function address(path: string, more: Record<string, string> = {}): string {
  const query = new URLSearchParams(more);
  query.set("token", new URLSearchParams(location.search).get("token") ?? "");
  return `${path}?${query.toString()}`;
}

export function storePage(root: HTMLElement, header: StoreHeader): void {
  const chosen: string[] = [];
  const choices = h("div", { class: "choices", "data-role": "chosen", "aria-live": "polite" });
  // The newest first: it is what most come for.
  let reports = [...header.reports].sort((a, b) => (b.stored_at ?? "").localeCompare(a.stored_at ?? ""));
  function actions(one: Report): HTMLElement[] {
    return [
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-pressed": String(chosen.includes(one.name)),
          "aria-label": `Choose ${one.name} to compare`,
          click: () => choose(one.name),
        },
        "Compare",
      ),
      h(
        "button",
        {
          type: "button",
          class: "quiet danger",
          "aria-label": `Delete ${one.name}`,
          click: () => void remove(one.name),
        },
        "Delete",
      ),
    ];
  }
  const table = new Table<Report>({
    key: "reports",
    label: "Stored reports",
    file: "ttmem-reports",
    rows: reports,
    height: 640,
    columns: [
      {
        head: "Name",
        kind: "name",
        text: (one) => one.name,
        link: (one) => address(`report/${encodeURIComponent(one.name)}`),
      },
      { head: "Actions", kind: "text", text: () => "" },
      { head: "Status", kind: "text", text: (one) => one.status ?? "-" },
      { head: "Stored (UTC)", kind: "text", text: (one) => one.stored_at?.replace("T", " ").slice(0, 16) ?? "-" },
      { head: "Kind", kind: "text", text: (one) => one.kind ?? "-" },
      {
        head: "Ops",
        kind: "number",
        text: (one) => (one.operations_executed === null ? "-" : thousands(one.operations_executed)),
        value: (one) => one.operations_executed ?? -1,
      },
      peakColumn(
        "DRAM",
        (one) => one.peak_dram_bytes_per_bank,
        (one) => one.peak_dram_percent,
      ),
      peakColumn(
        "L1",
        (one) => one.peak_l1_bytes_per_bank,
        (one) => one.peak_l1_percent,
      ),
      { head: "On disk", kind: "number", text: (one) => amount(one.bytes_on_disk), value: (one) => one.bytes_on_disk },
    ],
    empty: "No stored reports: 'ttmem profile LOG' and 'ttmem run SCRIPT' store one.",
    onDraw: (rows, elements) => rows.forEach((one, at) => fill(elements[at]!.cells[1]!, ...actions(one))),
  });
  const choose = (name: string) => {
    const at = chosen.indexOf(name);
    if (at >= 0) chosen.splice(at, 1);
    else chosen.push(name);
    if (chosen.length > 2) chosen.shift();
    showChosen();
    table.redraw();
  };
  const showChosen = () =>
    fill(
      choices,
      chosen.length === 0 && h("span", { class: "muted" }, "Choose two reports to compare them."),
      chosen.length === 1 && h("span", { class: "muted" }, `${chosen[0]!}: choose a second one.`),
      chosen.length === 2 &&
        h(
          "a",
          {
            class: "choice",
            "data-role": "compare",
            href: address("compare", { before: chosen[0]!, after: chosen[1]! }),
          },
          `Compare ${chosen[0]!} with ${chosen[1]!}`,
        ),
    );
  const remove = async (name: string) => {
    if (!confirm(`Delete the report '${name}'? Its log is not deleted.`)) return;
    const answer = await fetch(address(`api/reports/${encodeURIComponent(name)}`), { method: "DELETE" });
    if (answer.ok) {
      reports = reports.filter((one) => one.name !== name);
      table.setRows(reports);
      const at = chosen.indexOf(name);
      if (at >= 0) chosen.splice(at, 1);
      showChosen();
      announce(`${name} is deleted`);
    } else announce(`${name} was not deleted: ${await answer.text()}`);
  };
  showChosen();
  const live = h(
    "p",
    { class: "choices" },
    h("a", { class: "choice", href: address("live") }, "Running processes"),
    header.follows ? h("a", { class: "choice", href: address("follow") }, `Follow ${header.follows}`) : null,
  );
  const element = section(
    "reports",
    "Stored reports",
    `In ${header.folder}. Each name is a source for every verb of ttmem.`,
    live,
    choices,
    table.element,
  );
  new Shell(root, {
    title: header.title,
    views: [{ name: "reports", title: "Reports", element }],
    foot: `ttmem ${header.ttmem}`,
    search: {
      hint: "Search the reports",
      changed: (text) => table.filter(text.toLowerCase().split(/\s+/).filter(Boolean)),
    },
  });
}
