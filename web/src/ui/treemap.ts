// SPDX-License-Identifier: Apache-2.0
// Areas in proportion to sizes, as square as they can be (Bruls, Huizing and van Wijk's squarified treemap).

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** One box per size, in their order; sizes are expected largest first. */
export function squarified(sizes: readonly number[], room: Box): Box[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const boxes: Box[] = [];
  if (total <= 0 || room.w <= 0 || room.h <= 0) return sizes.map(() => ({ x: room.x, y: room.y, w: 0, h: 0 }));
  const scale = (room.w * room.h) / total;
  let left = { ...room };
  let at = 0;
  while (at < sizes.length) {
    const side = Math.min(left.w, left.h);
    let end = at;
    let sum = 0;
    let worst = Infinity;
    while (end < sizes.length) {
      const grown = sum + sizes[end]! * scale;
      const longest = Math.max(
        (side * side * sizes[at]! * scale) / (grown * grown),
        (grown * grown) / (side * side * Math.max(sizes[end]! * scale, 1e-9)),
      );
      if (longest > worst) break;
      worst = longest;
      sum = grown;
      end++;
    }
    if (end === at) end = at + 1;
    if (sum === 0) sum = sizes[at]! * scale;
    const thickness = side > 0 ? sum / side : 0;
    let offset = 0;
    for (; at < end; at++) {
      const length = thickness > 0 ? (sizes[at]! * scale) / thickness : 0;
      boxes.push(
        left.w >= left.h
          ? { x: left.x, y: left.y + offset, w: thickness, h: length }
          : { x: left.x + offset, y: left.y, w: length, h: thickness },
      );
      offset += length;
    }
    left =
      left.w >= left.h
        ? { ...left, x: left.x + thickness, w: Math.max(0, left.w - thickness) }
        : { ...left, y: left.y + thickness, h: Math.max(0, left.h - thickness) };
  }
  return boxes;
}
