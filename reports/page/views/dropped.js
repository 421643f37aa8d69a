// A report of qwb that somebody dropped on the page: the HTML of analyze or verify, or what they print with --json. It is read and drawn
// here: nothing of it is run, and neither its model nor the core is asked.
import { el } from "../dom.js";
import { known } from "../format.js";
import { drawLanguageReport } from "../language_body.js";
import { drawReport } from "../report_body.js";
import { newSelection } from "../selection.js";
import { drawVerification } from "../verification_body.js";

export const droppedView = {
  key: "report",
  label: "Report",
  doc: "The report that was dropped on this page, as its file has it.",
  usable: /** @param {App} app */ (app) => Boolean(app.report),
  /** @param {HTMLElement} host @param {App} app */
  draw(host, app) {
    let now = null;
    const update = () => {
      if (!app.report || now === app.report) return; // closed, or something else changed
      now = app.report;
      const main = el("div", { class: "document" });
      host.replaceChildren(
        now.note
          || el("p", { class: "measure" }, "From the file ", el("b", null, el("bdi", null, now.file)), "; no plan of this page. ",
            el("button", { type: "button", onclick: () => app.present(null) }, "Close the report")),
        main
      );
      try {
        now.draw(main);
      } catch (problem) {
        main.replaceChildren(el("p", { class: "error", role: "alert" }, "This report cannot be shown: " + problem.message));
      }
    };
    update();
    return { update };
  },
};

// reportOf reads a file: {file, draw(main)}, or null where it is no report.
export async function reportOf(file) {
  if (!/\.(html?|json)$/i.test(file.name) || /\.(plan|analysis)\.json$/i.test(file.name)) return null;
  const text = await file.text(), html = /\.html?$/i.test(file.name),
    title = file.name.replace(/\.(analyze\.|verify\.)?(json|html?)$/i, "");
  const part = (id) => { // <, > and & are escaped in what lies between
    const start = `<script type="application/json" id="${id}">`, at = text.indexOf(start);
    return at < 0 ? null : parsed(text.slice(at + start.length, text.indexOf("<" + "/script>", at)));
  };
  const report = html ? part("report") : parsed(text), verification = html ? part("verification") : report, view = html && part("view");
  if (verification && verification.per_tensor && verification.static) {
    return { file: file.name, draw: (main) => drawVerification(main, title, verification, newSelection()) };
  }
  if (!report || !("layerwise" in report)) {
    if (html) throw new Error(`${file.name} is no report of qwb`);
    return null;
  }
  if (report.whole) return { file: file.name, draw: (main) => drawLanguageReport(main, report) };
  return { file: file.name, draw: (main) => drawReport(main, view ? { ...view, report } : viewOf(report), newSelection()) };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// viewOf is a view of a report alone: the error at the output where it is the largest is the verdict; the rest is not known.
function viewOf(report) {
  const name = report.model || "";
  let verdict = null;
  for (const o of report.outputs || []) {
    const noise = o.centred || o;
    if (!verdict || noise.nsr > verdict.nsr) verdict = { ...noise, output: o.output, centred: Boolean(o.centred), samples: report.samples };
  }
  return { title: name, model: name, plan: report.plan, platform: report.platform, report, verdict: known(verdict) ? verdict : {},
    picture: null, partial: true };
}
