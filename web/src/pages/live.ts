// SPDX-License-Identifier: Apache-2.0
// Charts that grow: the counters of running processes, or a log that is being written.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { Shell } from "../shell";
import { color, fill, h } from "../ui/dom";
import { amount } from "../ui/format";
import { axes } from "../views/bands";
import { section, type View } from "../views/view";
import { address } from "./store";

export interface LiveHeader {
  part: "live";
  title: string;
  subtitle: string;
  /** Where samples are asked for. */
  api: string;
  ttmem: string;
}

interface Sample {
  /** Seconds, or operations. */
  at: number;
  lines: { chart: string; name: string; bytes: number; of: number | null; mock?: boolean }[];
  told: string;
}

interface Chart {
  plot: uPlot | null;
  host: HTMLElement;
  names: string[];
  x: number[];
  columns: Map<string, (number | null)[]>;
  heading: HTMLElement;
  text: HTMLElement;
}

const KEPT = 3000;
const PAUSE = 1000;
const CLOCK: uPlot.Axis = {
  stroke: () => color("muted"),
  grid: { stroke: () => color("grid"), width: 1 },
  ticks: { show: false },
};

export function livePage(root: HTMLElement, header: LiveHeader): void {
  const charts = new Map<string, Chart>();
  const place = h("div", { "data-role": "live" });
  const told = h("p", { class: "readout", role: "status", "data-role": "told" });
  const element = section("live", header.title, header.subtitle, told, place);
  const view: View = {
    name: "live",
    title: "Live",
    element,
    redraw: () => {
      for (const chart of charts.values()) make(chart);
    },
  };
  const grows = header.api.includes("follow") ? "operation" : "time";
  let last = -Infinity;

  const make = (chart: Chart) => {
    chart.plot?.destroy();
    const stepped = uPlot.paths.stepped!({ align: 1 });
    const [across, up] = axes();
    chart.plot = new uPlot(
      {
        width: chart.host.clientWidth || 600,
        height: 200,
        legend: { show: chart.names.length > 1, live: false },
        cursor: { y: false },
        scales: { x: { time: grows === "time" }, y: { range: (_, __, high) => [0, (high || 1) * 1.1] } },
        axes: grows === "time" ? [CLOCK, up!] : [across!, up!],
        series: [
          { label: grows },
          ...chart.names.map((label, at) => ({
            label,
            stroke: () => color(`area-${(at % 8) + 1}`),
            width: 1.8,
            ...(chart.names.length === 1
              ? { fill: () => `color-mix(in srgb, ${color("area-1")} 18%, transparent)` }
              : {}),
            paths: stepped,
            spanGaps: true,
            points: { show: false },
          })),
        ],
      },
      data(chart),
      chart.host,
    );
  };
  const data = (chart: Chart) => [chart.x, ...chart.names.map((name) => chart.columns.get(name)!)] as uPlot.AlignedData;
  const add = (sample: Sample) => {
    if (sample.at <= last) return;
    last = sample.at;
    const byChart = new Map<string, Sample["lines"]>();
    for (const line of sample.lines) byChart.set(line.chart, [...(byChart.get(line.chart) ?? []), line]);
    for (const [title, lines] of byChart) {
      let chart = charts.get(title);
      if (!chart) {
        if (grows === "time" && lines.every((line) => !line.bytes)) continue; // the server counts them
        const host = h("div", { class: "plot" });
        const text = h("p", { class: "readout" });
        const heading = h("h3", { class: "sub" }, title);
        chart = { plot: null, host, names: [], x: [], columns: new Map(), heading, text };
        charts.set(title, chart);
        place.append(heading, host, text);
      }
      const mine = chart;
      // A process that ended is no mock any more: its device was one all the same.
      if (lines.some((line) => line.mock)) mine.heading.textContent = `${title} (mock)`;
      const added = lines.filter((line) => !mine.names.includes(line.name));
      for (const line of added) {
        mine.names.push(line.name);
        mine.columns.set(
          line.name,
          mine.x.map(() => null),
        );
      }
      mine.x.push(sample.at);
      for (const name of mine.names)
        mine.columns.get(name)!.push(lines.find((line) => line.name === name)?.bytes ?? null);
      if (mine.x.length > KEPT)
        for (const column of [mine.x, ...mine.columns.values()]) column.splice(0, column.length - KEPT);
      mine.text.textContent = lines
        .map((line) => `${line.name} ${amount(line.bytes)}${line.of ? ` of ${amount(line.of)}` : ""}`)
        .join(" · ");
      if (added.length || !mine.plot) make(mine);
    }
  };
  const ask = async () => {
    try {
      const answer = await fetch(address(header.api, { since: String(Number.isFinite(last) ? last : -1) }));
      if (!answer.ok) throw new Error(await answer.text());
      const { samples, note } = (await answer.json()) as { samples: Sample[]; note: string };
      for (const sample of samples) add(sample);
      for (const chart of charts.values()) chart.plot?.setData(data(chart));
      fill(told, samples.at(-1)?.told ?? note);
      root.dataset["samples"] = String(Number(root.dataset["samples"] ?? 0) + samples.length);
    } catch (error) {
      fill(told, `The server does not answer: ${String(error)}`);
    }
    setTimeout(() => void ask(), PAUSE);
  };
  new Shell(root, {
    title: header.title,
    views: [view],
    foot: `ttmem ${header.ttmem}`,
    before: h(
      "p",
      { class: "lead choices" },
      h("a", { class: "choice", href: address("./") }, "All reports"),
      grows === "operation" ? h("a", { class: "choice", href: address("follow/report") }, "Report so far") : null,
    ),
  });
  void ask();
}
