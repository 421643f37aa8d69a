// The bench itself: the network with its heat, the selected operator beside it, all operators in a table below.
import { place, placed } from "../address.js";
import { el, replace } from "../dom.js";
import { pages, splitter } from "../frame.js";
import { drawGraph } from "../graph.js";
import { adviceView } from "./advice.js";
import { historyView } from "./history.js";
import { inspectorView } from "./inspector.js";
import { rankingView } from "./ranking.js";

const narrow = matchMedia("(max-width: 860px)");

export const networkView = {
  key: "network",
  label: "Network",
  doc: "Where the error comes from: the network, one operator in detail, and all operators ranked",
  usable: /** @param {App} app */ (app) => app.state.exists || Boolean(app.view && app.view.picture),
  /** @param {HTMLElement} host @param {App} app */
  draw(host, app) {
    let exists = app.state.exists, bench = drawBench(host, app);
    return {
      update() {
        if (exists === app.state.exists) return bench.update();
        exists = app.state.exists; // the first plan, or none any more: there is more to show, or less
        bench.close();
        replace(host);
        bench = drawBench(host, app);
      },
      pane: (key) => bench.pane(key),
      close: () => bench.close(),
    };
  },
};

/** @param {HTMLElement} host @param {App} app */
function drawBench(host, app) {
  const graphHost = el("div", { class: "graphhost" }), below = el("div", { class: "below" });
  const planned = app.state.exists;
  const measured = () => app.rows.some((row) => row.nsr !== null);
  const begin = () => { // where it hurts most
    if (!app.selection.node && measured()) {
      app.selection.set(app.rows.reduce((worst, row) => ((row.nsr || 0) > (worst.nsr || 0) ? row : worst)).name, "start");
    }
  };
  begin();
  const parts = []; // handles of the panes that have been drawn
  const pane = (view) => ({ key: view.key, label: view.label, doc: view.doc, draw: (at) => parts.push(view.draw(at, app)) });
  const side = pages((planned ? [inspectorView, adviceView, historyView] : [inspectorView]).map(pane), "side", app.paned);
  const upper = el("div", { class: "upper" }), bench = el("div", { class: "bench" });
  upper.append(graphHost, splitter({ host: upper, property: "--graph", label: "Width of the network", vertical: true, first: 71 }),
    el("aside", { class: "side", "aria-label": "Details" }, side.row, side.body));
  const border = splitter({ host: bench, property: "--upper", label: "Height of the network", first: 62 });
  bench.append(upper, border, below);
  host.append(bench);
  parts.push(rankingView.draw(below, app, (open) => {
    bench.classList.toggle("closed", !open);
    border.hidden = !open;
  }));

  let graph = null, shape = "", heated = false;
  function drawNetwork() {
    const picture = app.view && app.view.picture;
    if (!picture) {
      graph = null;
      replace(graphHost, el("p", { class: "soft pad" }, "The network cannot be drawn: the view has no picture of it."));
      return;
    }
    const now = picture.nodes.map((n) => n.name).join("\n") + picture.edges.length;
    if (graph && graph.update && now === shape) { // place and zoom stay as they are
      graph.update({ picture, rows: app.rows });
      if (!heated && measured()) { // the first measurement is what everybody waits for
        graph.setColouring("nsr");
        begin();
      }
      heated = measured();
      return;
    }
    shape = now;
    heated = measured();
    replace(graphHost);
    graph = drawGraph(graphHost, { picture, rows: app.rows, selection: app.selection, colouring: placed("colour") || "nsr",
      sight: placed("zoom"), onSight: (zoom) => place({ zoom }), onColouring: (key) => place({ colour: key === "nsr" ? "" : key }) });
  }
  drawNetwork();
  const off = app.selection.on((change) => { // who picks an operator wants to see it; the page's own choice takes no pane away
    if (change.what === "node" && app.selection.node && !["start", "address", "advice"].includes(change.from)) side.show("inspector");
  });
  return {
    pane: (key) => {
      const asked = key === "history" || key === "advice";
      side.show(asked && planned ? key : "inspector");
      if (asked && narrow.matches) side.row.scrollIntoView({ block: "start" }); // it stands below the network there
    },
    update() {
      drawNetwork();
      for (const p of parts) if (p && p.update) p.update();
    },
    close() {
      off();
      for (const p of parts) if (p && p.close) p.close();
    },
  };
}
