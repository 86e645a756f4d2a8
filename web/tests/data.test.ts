// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { bytesOf, inflated, Texts, unpacked } from "../src/data/columns";
import { fragments } from "../src/data/bank";
import { Levels } from "../src/data/levels";
import { isPath, lowerBound, moduleOf } from "../src/data/lookup";
import { amount, byteSteps, byteTicks, clean, mib, placeText, shapeText, short, signedMib } from "../src/ui/format";
import { csv, markdown } from "../src/ui/save";
import { squarified } from "../src/ui/treemap";

/** As reports/kit/columns.py writes: folded, in planes. */
function packed(values: number[], width: number, steps: boolean): Uint8Array {
  const folded = values
    .map((value, at) => BigInt(steps ? value - (values[at - 1] ?? 0) : value))
    .map((value) => (value < 0n ? -value * 2n - 1n : value * 2n));
  const planes = new Uint8Array(width * values.length);
  folded.forEach((value, at) => {
    for (let plane = 0; plane < width; plane++)
      planes[plane * values.length + at] = Number((value >> BigInt(8 * plane)) & 255n);
  });
  const header = new TextEncoder().encode(
    JSON.stringify({ columns: [{ name: "column", width, steps, count: values.length }] }),
  );
  const whole = new Uint8Array(4 + header.length + planes.length);
  new DataView(whole.buffer).setUint32(0, header.length, true);
  whole.set(header, 4);
  whole.set(planes, 4 + header.length);
  return whole;
}

describe("columns", () => {
  it.each([
    [[0, -1, 1, -64, 63], 1, false],
    [[5, 5, 4, 300, -1], 2, true],
    [[0, 1 << 30, -(1 << 30)], 4, false],
    [[2 ** 31 - 1, 2 ** 31 + 5, 2 ** 32], 8, true],
    [[2 ** 52, -(2 ** 52), 0], 8, false],
    [[1_500_000_000, 3_000_000_000, 1], 8, true],
  ])("come back as they were", (values, width, steps) => {
    expect([...unpacked(packed(values, width, steps)).columns.get("column")!]).toEqual(values);
  });
  it("whose sums outgrow 32 bits are wide, though their steps are not", () => {
    const values = [1_000_000_000, 2_000_000_000, 3_000_000_000];
    expect([...unpacked(packed(values, 4, true)).columns.get("column")!]).toEqual(values);
  });
  it("are inflated from text", async () => {
    const text = "eJzLSM3JyVcozy/KSQEAGgsEXQ=="; // "hello world" by zlib
    expect(new TextDecoder().decode(await inflated(bytesOf(text)))).toBe("hello world");
  });
  it("hold texts of any script", () => {
    const pool = new TextEncoder().encode("a模块");
    const texts = new Texts(pool, new Int32Array([1, 7]));
    expect([texts.at(0), texts.at(1), texts.at(2)]).toEqual(["a", "模块", ""]);
  });
});

describe("levels", () => {
  const values = Float64Array.from({ length: 20_000 }, (_, at) => (at * 7919) % 9973);
  values[12_345] = 1e9;
  values[777] = -5;
  const levels = new Levels(values);
  it("never lose a peak or a floor", () => {
    for (const most of [10, 100, 2000]) {
      const picked = levels.pick(0, values.length, most);
      expect(picked.length).toBeLessThanOrEqual(most + 2);
      expect(picked).toContain(12_345);
      expect(picked).toContain(777);
      expect(picked).toEqual([...new Set(picked)].sort((a, b) => a - b));
    }
  });
  it("find the extremes of any stretch", () => {
    for (const [from, to] of [
      [0, 1],
      [3, 900],
      [1000, 20_000],
      [12_300, 12_400],
    ] as const) {
      const part = [...values.slice(from, to)];
      const [low, high] = levels.extremes(from, to);
      expect(values[low]).toBe(Math.min(...part));
      expect(values[high]).toBe(Math.max(...part));
    }
  });
  it("give every point of a short stretch", () => {
    expect(levels.pick(5, 9, 100)).toEqual([5, 6, 7, 8]);
    expect(levels.pick(5, 5, 100)).toEqual([]);
  });
});

describe("words", () => {
  it("amounts as the terminal prints them", () => {
    expect(mib(589_824)).toBe("0.562"); // half to even, as Python
    expect(mib(1_048_576 * 1234.5)).toBe("1,234.500");
    expect([signedMib(-1_048_576), signedMib(0), signedMib(1_048_576)]).toEqual(["-1.000", "0.000", "+1.000"]);
    expect([amount(0), amount(20_480), amount(5_242_880), amount(4_294_967_296)]).toEqual([
      "0 B",
      "20.0 KiB",
      "5.00 MiB",
      "4.00 GiB",
    ]);
    expect(shapeText([1, 32], "bfloat16")).toBe("1x32 (bf16)");
    expect(shapeText([])).toBe("scalar");
  });
  it("no control, escape or bidi character survives", () => {
    expect(clean("a\u001b[31m\u202eb\u2066\u0000\u2028c")).toBe("a [31m b   c");
    expect(short("x".repeat(500), 20)).toHaveLength(20);
  });
  it("the module of a location", () => {
    expect(moduleOf("layers.0.dot.2")).toBe("layers.0");
    expect(moduleOf("12|Linear[fc]|model.py:120|forward|131|aten__mm")).toBe("fc");
    expect(moduleOf("/home/me/examples/a.py:47")).toBe("a.py:47");
    expect(moduleOf("")).toBe("(no location)");
    expect(moduleOf("weights['</b>.x']")).toBe("weights");
    expect(moduleOf("blocks[12]")).toBe("blocks");
    expect(moduleOf("layers[1].w2")).toBe("layers[1]");
    expect(["model.layers[3].wqkv", "layers[0]", "w['a.b']"].map(isPath)).toEqual([true, true, true]);
    expect(["%12", "x", "result of ttnn.add", "%5#0"].map(isPath)).toEqual([false, false, false, false]);
  });
});

describe("exports", () => {
  it("a cell is a cell, and never a formula", () => {
    expect(csv(["a,b"], [['=cmd|"x"', "-1.5", "+1.000", "@x", "-x"]])).toBe(
      '"a,b"\n"\'=cmd|""x""",-1.5,+1.000,\'@x,\'-x\n',
    );
  });
  it("Markdown keeps its columns", () => {
    expect(markdown(["a"], [true], [["x|<b>\\"]])).toBe("| a |\n| ---: |\n| x\\|&lt;b>\\\\ |\n");
  });
});

describe("areas", () => {
  it("are in proportion and inside the room", () => {
    const room = { x: 0, y: 0, w: 300, h: 100 };
    const sizes = [50, 25, 12, 6, 3, 2, 1, 1];
    const boxes = squarified(sizes, room);
    boxes.forEach((box, at) => {
      expect((box.w * box.h) / 30_000).toBeCloseTo(sizes[at]! / 100, 6);
      expect(box.x + box.w).toBeLessThanOrEqual(300.001);
      expect(box.y + box.h).toBeLessThanOrEqual(100.001);
    });
    expect(squarified([0, 0], room)).toHaveLength(2);
    expect(squarified([], room)).toEqual([]);
  });
});

it("the first position whose value is not below", () => {
  expect([0, 1, 2, 3, 9].map((wanted) => lowerBound([1, 2, 2, 5], wanted))).toEqual([0, 0, 1, 3, 4]);
});

describe("fragmentation", () => {
  const piece = (row: number, start: number, end: number) => ({ row, start, end, kind: "", label: "" });
  it("names the tensor that keeps free blocks apart", () => {
    const bank = {
      held: [piece(1, 10, 20), piece(2, 50, 55), piece(3, 90, 100)],
      extent: [0, 100] as [number, number],
    };
    const [first] = fragments(bank);
    expect(first).toEqual({ row: 2, below: 30, above: 35, without: 70, gain: 35 });
    expect(fragments(bank).map((one) => one.without)).toEqual([70, 50, 45]);
  });
  it("knows that a view gives nothing back, and that programs stay", () => {
    const held = [piece(-1, 0, 10), piece(1, 20, 40), piece(2, 20, 30), piece(3, 60, 70)];
    const found = fragments({ held, extent: [0, 100] });
    expect(found.map((one) => [one.row, one.without])).toEqual([
      [3, 60],
      [1, 0],
      [2, 0],
    ]);
  });
});

describe("axes and places", () => {
  it("the ticks of an axis of bytes are all in one unit, and whole where the step is", () => {
    expect(byteTicks([0, 209715.2, 419430.4], 209715.2)).toEqual(["0", "0.2 MiB", "0.4 MiB"]);
    expect(byteTicks([0, 2048], 2048)).toEqual(["0", "2 KiB"]);
    expect(byteTicks([536870912, 1610612736], 536870912)).toEqual(["0.5 GiB", "1.5 GiB"]);
    expect([...byteSteps()].sort((a, b) => a - b)).toEqual(byteSteps());
  });
  it("a place in a file keeps its last folder, anything else stays", () => {
    expect(placeText("/work/me/models/demo/tt/block.py:41")).toBe("tt/block.py:41");
    expect(placeText("models/demo/tt/block.py:41")).toBe("tt/block.py:41");
    expect(placeText("block.py:41")).toBe("block.py:41");
    expect(placeText("encoder.layer.0.output/dense")).toBe("encoder.layer.0.output/dense");
    expect(placeText("")).toBe("");
  });
});
