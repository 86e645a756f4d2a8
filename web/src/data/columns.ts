// SPDX-License-Identifier: Apache-2.0
// Unpacks what reports/kit/columns.py packs: a header and columns of integers, as byte planes of folded differences.

export type Column = Float64Array | Int32Array;

interface Described {
  name: string;
  width: number;
  steps: boolean;
  count: number;
}

export interface Block<Header> {
  header: Header;
  columns: Map<string, Column>;
  texts: Map<string, Uint8Array>;
}

export function bytesOf(base64: string): Uint8Array {
  const binary = atob(base64.trim());
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

export async function inflated(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export function unpacked<Header>(bytes: Uint8Array): Block<Header> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as Header & {
    columns: Described[];
  };
  const columns = new Map<string, Column>();
  const texts = new Map<string, Uint8Array>();
  let at = 4 + length;
  for (const { name, width, steps, count } of header.columns) {
    const size = width === 0 ? count : width * count;
    const part = bytes.subarray(at, at + size);
    if (width === 0) texts.set(name, part);
    else columns.set(name, width === 8 ? wide(part, count, steps) : narrow(part, count, width, steps));
    at += size;
  }
  return { header, columns, texts };
}

function narrow(planes: Uint8Array, count: number, width: number, steps: boolean): Column {
  const values = new Int32Array(count);
  for (let plane = 0; plane < width; plane++) {
    const shift = 8 * plane;
    const from = plane * count;
    for (let at = 0; at < count; at++) values[at] = values[at]! | (planes[from + at]! << shift);
  }
  for (let at = 0; at < count; at++) {
    const folded = values[at]!;
    values[at] = (folded >>> 1) ^ -(folded & 1);
  }
  if (!steps) return values;
  // Differences fit into 32 bits; what they sum up to need not.
  let sum = 0;
  let fits = true;
  for (let at = 0; at < count; at++) {
    sum += values[at]!;
    if (sum > 0x7fffffff || sum < -0x80000000) {
      fits = false;
      break;
    }
  }
  const sums = fits ? values : new Float64Array(count);
  sum = 0;
  for (let at = 0; at < count; at++) {
    sum += values[at]!;
    sums[at] = sum;
  }
  return sums;
}

function wide(planes: Uint8Array, count: number, steps: boolean): Column {
  const values = new Float64Array(count);
  let sum = 0;
  for (let at = 0; at < count; at++) {
    let folded = 0;
    let negative = false;
    for (let plane = 7; plane >= 0; plane--) folded = folded * 256 + planes[plane * count + at]!;
    negative = (planes[at]! & 1) === 1;
    const value = negative ? -(folded + 1) / 2 : folded / 2;
    sum = steps ? sum + value : value;
    values[at] = sum;
  }
  return values;
}

/** Texts that lie one after the other; decoded one by one, when somebody looks. */
export class Texts {
  private readonly decoder = new TextDecoder();
  constructor(
    private readonly pool: Uint8Array,
    private readonly ends: Column,
  ) {}
  get length(): number {
    return this.ends.length;
  }
  at(index: number): string {
    if (index < 0 || index >= this.ends.length) return "";
    return this.decoder.decode(this.pool.subarray(index ? this.ends[index - 1]! : 0, this.ends[index]!));
  }
}
