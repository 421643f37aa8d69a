// What the drawn network says in words: on boxes, under the pointer, and to screen readers.
import { foldValues, textOfFold } from "./colours.js";
import { el } from "./dom.js";
import { bytes, count, plural, rankDoc } from "./format.js";
import { marks } from "./graph_paint.js";

// makeWords speaks about the picture, index, rows and colouring that get gives.
export function makeWords(get) {
  const rowsOfBlock = (block) => get().index.members[block].map((n) => get().rows[n] || {});
  const size = (block) => plural(get().index.members[block].length, "operator");
  // sizeOf counts the boxes, too, where an operator is drawn in the box of another one.
  const sizeOf = (block) => {
    const { members, parts } = get().index, boxes = members[block].filter((n) => parts[n].length).length;
    return size(block) + (boxes < members[block].length ? ` in ${plural(boxes, "box", "boxes")}` : "");
  };
  const join = (...parts) => parts.filter(Boolean).join(" · ");

  function blockName(b) {
    const block = get().picture.blocks[b];
    return block.repeat > 1 ? `${block.name} × ${block.repeat}` : block.name;
  }

  // opsOf are the types of an operator and of what is fused into it: "Conv + Clip".
  const opsOf = (node) => get().index.parts[node].map((n) => get().picture.nodes[n].op).join(" + ");

  const nameOf = (box) => box.node >= 0 ? get().picture.nodes[box.node].name : blockName(box.block);

  // onBox is what stands in a box; under has more and less of it, for boxes with more and less room.
  function onBox(box) {
    const { picture, rows, colouring: c } = get();
    if (box.node >= 0) {
      const n = picture.nodes[box.node], all = opsOf(box.node), known = c.scale !== "class" || c.order;
      const fold = foldValues(c, get().index.parts[box.node].map((i) => rows[i] || {}));
      return { type: all, name: n.name, under: [join(all, n.domain), all, n.op],
        value: known ? fold.from ? (c.brief || c.text)(fold.from) : textOfFold(c, fold) : "" };
    }
    const fold = foldValues(c, rowsOfBlock(box.block)), many = get().index.members[box.block].length;
    return { type: picture.blocks[box.block].name, name: blockName(box.block), under: [size(box.block), `${many} op.`, `${many}`],
      value: c.scale === "class" ? fold.value || "" : fold.from ? (c.brief || c.text)(fold.from) : textOfFold(c, fold) };
  }

  const fusedInto = (n) => (n.fused >= 0 ? `fused into ${get().picture.nodes[n.fused].name}` : "");

  function ofNode(node) {
    const { picture, rows, colouring: c } = get(), n = picture.nodes[node], row = rows[node] || {};
    return [n.name, n.op, n.domain, (c.scale !== "class" || c.order) && c.value(row) != null && `${c.label} ${c.text(row)}`, fusedInto(n)]
      .filter(Boolean).join(", ");
  }

  function ofBlock(block) {
    const { colouring: c } = get(), text = textOfFold(c, foldValues(c, rowsOfBlock(block)));
    return [`${blockName(block)}`, `${get().picture.blocks[block].kind} block of ${size(block)}`, text && `${c.label} ${text}`].filter(
      Boolean
    ).join(", ");
  }

  const ofBox = (box) => box.node >= 0 ? ofNode(box.node) : `${ofBlock(box.block)}, ${box.open ? "open" : "closed"}`;

  function tipOfBox(box) {
    const { picture, rows, colouring: c } = get(), lines = [el("b", null, nameOf(box))];
    if (box.node >= 0) {
      const n = picture.nodes[box.node], row = rows[box.node] || {};
      lines.push(
        join(opsOf(box.node), n.domain, n.weights && `weights ${n.weights}`, n.activations && `activations ${n.activations}`,
          n.macs && `${count(n.macs)} MACs`)
      );
      lines.push(fusedInto(n), c.value(row) != null && `${c.label}: ${c.text(row)}`);
      if (row.rank) {
        lines.push(
          rankDoc(row.rank, row.rankAmong)
        );
      }
      if (row.stale) lines.push("measured before the last change");
    } else {
      const text = textOfFold(c, foldValues(c, rowsOfBlock(box.block)));
      lines.push(`${picture.blocks[box.block].kind} block of ${sizeOf(box.block)}`, text && `${c.label}: ${text}`);
      lines.push(box.open ? "Click the title to close it." : "Double-click or Enter opens it.");
    }
    return lines.filter(Boolean).map((line) => el("div", null, line));
  }

  function tipOfWire(wire) {
    const { picture } = get(), lines = [];
    for (const i of wire.edges.slice(0, 6)) {
      const e = picture.edges[i];
      lines.push(el("b", null, e.value), join(e.type, (e.shape || []).join("×"), e.bytes && `${bytes(e.bytes)} per sample`));
      if (marks[e.mark]) lines.push(`${marks[e.mark].text}: ${marks[e.mark].doc}`);
    }
    if (wire.edges.length > 6) lines.push(`and ${plural(wire.edges.length - 6, "more tensor", "more tensors")}`);
    return lines.filter(Boolean).map((line) => el("div", null, line));
  }

  return { blockName, nameOf, onBox, ofNode, ofBlock, ofBox, tipOf: (thing) => thing.box ? tipOfBox(thing.box) : tipOfWire(thing.wire),
    frameName: (b) => `${blockName(b)}, ${size(b)}` };
}
