// SPDX-License-Identifier: Apache-2.0
// The page: unpacks its data, builds the views, and says when it is ready.

import "./styles.css";
import { type Block, bytesOf, inflated, unpacked } from "./data/columns";
import type { DiffHeader, ProfileHeader } from "./data/document";
import { Profile } from "./data/profile";
import { dock } from "./dock";
import { livePage, type LiveHeader } from "./pages/live";
import { storePage, type StoreHeader } from "./pages/store";
import { Session } from "./session";
import { Shell } from "./shell";
import { h } from "./ui/dom";
import { compare } from "./views/compare";
import { compareWith } from "./views/compare_with";
import { documentViews, type DocumentHeader } from "./views/document";
import { fit } from "./views/fit";
import { lifetimes } from "./views/lifetimes";
import { map } from "./views/map";
import { operations } from "./views/operations";
import { overview } from "./views/overview";
import { padding } from "./views/padding";
import { tensors } from "./views/tensors";
import { tests } from "./views/tests";
import { timeline } from "./views/timeline";
import { warnings, weights } from "./views/weights";

type Header =
  ProfileHeader | DiffHeader | DocumentHeader | StoreHeader | LiveHeader | { part?: undefined; left_out?: number };

async function start(): Promise<void> {
  const root = document.getElementById("ttmem-report")!;
  try {
    const elements = [...document.querySelectorAll("[data-role=block]")];
    const blocks = await blocksOf(elements.map((element) => element.textContent));
    for (const element of elements) element.remove();
    build(root, blocks);
    root.dataset["ready"] = "true";
  } catch (error) {
    root.append(
      h(
        "p",
        { class: "broken", role: "alert" },
        `This page could not be drawn: ${String(error)}. Its figures are in 'ttmem profile SOURCE'.`,
      ),
    );
    throw error;
  }
}

async function blocksOf(texts: string[]): Promise<Block<Header>[]> {
  return Promise.all(texts.map(async (text) => unpacked<Header>(await inflated(bytesOf(text)))));
}

/** The profile in another report's file; its markup is never made into elements. */
async function profileIn(file: File): Promise<Profile> {
  const found = [...(await file.text()).matchAll(/data-role="block">([A-Za-z0-9+/=\s]*)</g)].map((match) => match[1]!);
  const blocks = await blocksOf(found);
  const at = blocks.findIndex((block) => block.header.part === "profile");
  if (at < 0) throw new Error("this file is not the report of a profile");
  return profileAt(blocks, at);
}

function build(root: HTMLElement, blocks: Block<Header>[]): void {
  const first = blocks[0]!;
  const { header } = first;
  if (header.part === "profile") return profilePage(root, profileAt(blocks, 0));
  if (header.part === "compare") {
    const sides = blocks.flatMap((block, at) => (block.header.part === "profile" ? [profileAt(blocks, at)] : []));
    return comparePage(root, header, sides[0]!, sides[1]!);
  }
  if (header.part === "document") return documentPage(root, header);
  if (header.part === "store") return storePage(root, header);
  if (header.part === "live") return livePage(root, header);
  throw new Error("unknown kind of page");
}

/** A profile's columns, and the texts that follow them where they were not too large. */
function profileAt(blocks: Block<Header>[], at: number): Profile {
  const next = blocks[at + 1];
  return new Profile(
    blocks[at] as Block<ProfileHeader>,
    next?.header.part === undefined ? (next as Block<{ left_out?: number }>) : null,
  );
}

const MOST_CHANGES = 100;
const FOOT = "figures are per bank unless marked otherwise";
const KEYS: [string, string][] = [
  ["n, p", "next, previous peak"],
  ["← →", "along operations (with Shift: ten at a time)"],
  ["Home, End", "first, last operation"],
  ["+, -, 0", "zoom in, out, whole run"],
  ["m", "next memory"],
  ["x", "unmark the tensor"],
];

function profilePage(root: HTMLElement, profile: Profile): void {
  const session = new Session(profile);
  const { header } = profile;
  const hasTime = profile.timelines.length > 0;
  const makers = header.small
    ? [overview, ...(hasTime ? [timeline] : [])]
    : [
        ...(header.suite ? [tests] : []),
        overview,
        ...(header.document.facts.fit ? [fit] : []),
        ...(hasTime ? [timeline, tensors, lifetimes, map] : []),
        padding,
        ...(hasTime ? [operations] : []),
        weights,
        warnings,
      ];
  const views = makers.map((make) => make(session));
  if (!header.small && hasTime) views.splice(-1, 0, compareWith(profile, profileIn));
  const bar = hasTime ? dock(session) : null;
  root.classList.toggle("small", header.small);
  let moving = false;
  // Browsers let an address be changed so many times in so many seconds; a key that is held asks for more.
  const changed: number[] = [];
  let waiting = 0;
  const remember = () => {
    if (moving) return;
    clearTimeout(waiting);
    const now = performance.now();
    while (changed.length && now - changed[0]! > 30_000) changed.shift();
    if (changed.length >= MOST_CHANGES && now - changed.at(-1)! < 500) {
      waiting = window.setTimeout(remember, 500);
      return;
    }
    changed.push(now);
    try {
      history.replaceState(null, "", session.hash(shell.current));
    } catch {
      // inside a notebook's frame there is no address to keep
    }
  };
  const shell: Shell = new Shell(root, {
    title: header.title,
    views,
    foot: `ttmem ${header.ttmem} · ${FOOT}`,
    search: { hint: "Search tensors and operations", changed: (text) => session.search(text) },
    keys: KEYS,
    themeChanged: () => session.tell("theme"),
    chosen: () => {
      if (root.dataset["ready"]) remember();
    },
  });
  if (bar) {
    root.append(bar.element);
    bar.redraw();
  }
  const follow = (hash: string) => {
    moving = true;
    const view = session.follow(hash);
    moving = false;
    if (!view) return;
    shell.announce(view); // the address must not name the former view until the next frame
    requestAnimationFrame(() => shell.go(view));
  };
  session.on(["cursor", "range", "memory", "tensor"], remember);
  // The event comes late: by then a scroll may have written the place where the page was into the address.
  window.addEventListener("hashchange", (event) => {
    follow(new URL(event.newURL).hash);
    remember();
  });
  if (location.hash.length > 1) follow(location.hash);
  if (hasTime) document.addEventListener("keydown", (event) => moveByKey(event, session));
}

function moveByKey(event: KeyboardEvent, session: Session): void {
  const target = event.target as HTMLElement;
  if (target.matches("input:not([type=range]), textarea, select") || event.ctrlKey || event.metaKey || event.altKey)
    return;
  if (target.matches(".scroll") && /^Arrow|^Home$|^End$/.test(event.key)) return; // a wide table is scrolled by them
  if (document.querySelector("dialog[open]")) return;
  const far = event.shiftKey ? 10 : 1;
  const [first, last] = session.timeline.range;
  const acts: Record<string, () => void> = {
    ArrowLeft: () => session.toOperation(session.operation - far),
    ArrowRight: () => session.toOperation(session.operation + far),
    Home: () => session.toOperation(first),
    End: () => session.toOperation(last),
    n: () => session.stepPeak(1),
    p: () => session.stepPeak(-1),
    "+": () => session.zoomBy(0.5),
    "=": () => session.zoomBy(0.5),
    "-": () => session.zoomBy(2),
    "0": () => session.zoomOut(),
    x: () => session.chooseTensor(-1),
    m: () => session.nextMemory(),
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

function comparePage(root: HTMLElement, header: DiffHeader, before: Profile, after: Profile): void {
  const view = compare(header, before, after);
  const sides = [before, after].map((profile, at) => {
    const one = overview(new Session(profile));
    one.name = at ? "after" : "before";
    one.title = at ? "After" : "Before";
    one.element.dataset["view"] = one.name;
    one.element.querySelector("h2")!.textContent = `${one.title}: ${profile.header.title}`;
    for (const part of one.element.querySelectorAll("[role=region], [data-role=failure]"))
      part.setAttribute("aria-label", `${one.title}: ${part.getAttribute("aria-label")}`);
    return one;
  });
  const shell = new Shell(root, {
    title: header.title,
    views: [view, ...sides],
    foot: `ttmem ${header.ttmem} · ${FOOT}`,
    search: {
      hint: "Search tensors and operations",
      changed: (text) => view.filter(text.toLowerCase().split(/\s+/).filter(Boolean)),
    },
    keys: [
      ["← →", "along operations"],
      ["Home, End", "first, last operation"],
    ],
  });
  shell.followAddress();
  document.addEventListener("keydown", (event) => {
    if ((event.target as HTMLElement).matches("input, textarea, select")) return;
    if ((event.target as HTMLElement).matches(".scroll")) return; // a wide table is scrolled by them
    const far = event.shiftKey ? 10 : 1;
    const steps: Record<string, number> = { ArrowLeft: -far, ArrowRight: far, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    view.step(step);
  });
}

function documentPage(root: HTMLElement, header: DocumentHeader): void {
  const { views, filter } = documentViews(header);
  const lead =
    views[0]?.name === "overview" || !header.subtitle ? null : h("p", { class: "lead muted" }, header.subtitle);
  const shell = new Shell(root, {
    title: header.title,
    views,
    before: lead,
    foot: `ttmem ${header.ttmem}${header.foot ? ` · ${header.foot}` : ""}`,
    search: { hint: "Search the tables", changed: (text) => filter(text.toLowerCase().split(/\s+/).filter(Boolean)) },
  });
  shell.followAddress();
}

void start();
