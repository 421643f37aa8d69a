// The report: verdict and advice first, then the network with its error, linked with a table and the panel of one operator, then
// what a search found, the tensors, and the decisions of the plan.
import { adviceList } from "./advice_cards.js";
import { operatorColumns } from "./columns.js";
import { operators, rowsOf } from "./data.js";
import { drawDecisions } from "./decisions.js";
import { download, el } from "./dom.js";
import { plural } from "./format.js";
import { drawGraph } from "./graph.js";
import { agreed, drawSlices, estimated, headlineList, slicesOf } from "./judged.js";
import { drawLosses } from "./losses.js";
import { drawOrder } from "./order.js";
import { drawPanel } from "./panel.js";
import { drawScatter } from "./scatter.js";
import { drawTable } from "./table.js";
import { headline, notKnown, verdictTiles } from "./verdict.js";
import { tensorsView } from "./views/tensors.js";

// drawReport fills host with a view (reports/view.go).
/** @param {HTMLElement} main @param {Core.View & { partial?: boolean }} view @param {Selected} selection */
export function drawReport(main, view, selection) {
  const report = /** @type {Partial<Core.Report>} */ (view.report || {}), rows = rowsOf(view), list = operators(rows),
    contents = el("nav", { class: "contents", "aria-label": "Contents" });
  const missing = view.missing || {}, later = [];

  main.append(el("h1", null, el("bdi", null, view.model)),
    el("p", { class: "soft" }, "Quantization report · platform ", el("b", null, view.platform),
      view.plan && [" · plan ", el("bdi", null, view.plan)], report.samples > 0 && " · " + plural(report.samples, "sample"),
      view.version && " · qwb " + view.version), contents);
  main.append(headline(view), ...[headlineList(report)].filter(Boolean), verdictTiles(view));
  for (const w of report.warnings || []) {
    main.append(el("p", { class: "warn" }, w.node && [el("b", null, el("bdi", null, w.node)), ": "], w.text));
  }

  section("Advice",
    "What is wrong and what helps, the most helpful first. A predicted effect is of the simulation, on the at most 8 calibration samples that the statistics keep.",
    (host) => host.append(adviceList(view, selection)));
  if (slicesOf(report).length) {
    section("Parts of the outputs",
      "Each part by itself: one figure for an output says nothing of its small parts. The worst that counts is the verdict.", (host) =>
      drawSlices(host, slicesOf(report)));
  }
  section("Network and operators",
    "Click an operator in the network or in a row to see all about it on the right. NSR (noise-to-signal ratio) is the power of the error over the power of the signal: 0 is no error.",
    (host) => {
      const left = el("div", { class: "beside" }),
        panel = el("div", { class: "layer sticky", tabindex: "0", role: "region", "aria-label": "The selected operator" }),
        table = el("div");
      host.append(el("div", { class: "columns" }, left, panel));
      if (view.picture && view.picture.nodes.length) {
        const network = el("div", { class: "network" });
        left.append(network);
        drawGraph(network, { picture: view.picture, rows, selection, colouring: (report.layerwise || []).length ? "nsr" : "format",
          title: "Network of " + view.model });
      }
      left.append(table, ...[estimated(report), agreed(report)].filter(Boolean));
      drawTable(table, { rows: list, columns: operatorColumns(list), selection,
        sort: { key: (report.layerwise || []).length ? "nsr" : "index", down: (report.layerwise || []).length > 0 }, label: "Operators" });
      const worst = list.reduce((m, row) => ((row.nsr || 0) > (m ? m.nsr || 0 : -1) ? row : m), null);
      if (!selection.node && worst) selection.set(worst.name, "report");
      drawPanel(panel, { view, rows, selection });
    });
  const order = list.filter((row) => row.accumulated !== null || row.nsr !== null);
  if (order.length) {
    section("Error in the order of the network", order.some((row) => row.accumulated !== null)
      ? "Where the error enters, and where later operators average it out. A click selects the operator."
      : "How much each operator makes alone. What piles up on the way comes with qwb analyze --graphwise. A click selects the operator.",
      (host) =>
        drawOrder(host, order.map((row) => ({ name: row.name, bar: row.accumulated, dot: row.nsr, error: row.nsrError })), {
          pick: (name) => selection.set(name, "order"),
        }));
  }
  section("Search",
    "Choices that a search or a sweep measured, by error and cost. The dashed line joins those that no other beats in both; the grey band cannot be told from float.",
    (host) => {
      if (view.search) drawScatter(host, view.search);
      else if (view.partial) {
        host.append(notKnown("The JSON of an analysis has no search in it, and no network. The HTML report has both."));
      } else host.append(notKnown("No search was run on this plan.", missing.search));
    });
  if (report.explained) {
    section("What the loss is made of", "The integer program under profile " + report.explained.profile
      + " against float. Each part is the error of the float network with this one change.", (host) =>
      drawLosses(host, report.explained, selection));
  }
  section("Tensors", tensorsView.doc, (host) => tensorsView.draw(host, { view, rows, selection }));
  if (view.decisions) {
    section("Decisions", "Every command that made this plan what it is, the first at the top. The plan follows from them.", (host) =>
      drawDecisions(host, view.decisions));
  }
  section("Files", "The report stands in this file as JSON, exactly as qwb analyze --json prints it.",
    (host) => host.append(el("p", null, el("button", { type: "button", onclick: save }, "Save the report as JSON"))));

  function section(heading, doc, draw) {
    const id = heading.toLowerCase().replace(/\W+/g, "-"), host = el("div");
    contents.append(el("a", { href: "#" + id }, heading));
    main.append(
      el("section", { id, "aria-labelledby": id + "-heading" }, el("h2", { id: id + "-heading" }, heading), el("p", { class: "soft" }, doc),
        host)
    );
    later.push([host, draw]);
  }

  // The verdict is painted before the rest is drawn: of networks with thousands of operators that takes a moment.
  const drawLater = () => {
    for (const [host, draw] of later.splice(0)) {
      try {
        draw(host);
      } catch (problem) { // a file that says something else than its form does: the other parts are shown
        host.append(el("p", { class: "error" }, "This part cannot be shown: " + problem.message));
      }
    }
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (target) target.scrollIntoView();
  };
  requestAnimationFrame(() => setTimeout(drawLater));
  addEventListener("beforeprint", () => { // chromium --print-to-pdf does not wait for a moment
    if (!later.length) return;
    drawLater();
    dispatchEvent(new Event("beforeprint")); // for tables and the network, which came to listen only now
  });

  function save() {
    download(view.model + ".analyze.json", JSON.stringify(report, null, 2), "application/json");
  }
}
