// Export: the file for the engine, verified before it gets its name, to be downloaded.
import { judging } from "../context.js";
import { commandLine, download, el } from "../dom.js";
import { bytes, percent, plural, problemText, small } from "../format.js";
import { shell } from "../panel.js";
import { drawForm, fields, grid, message, part, steady } from "./parts.js";
import { task } from "./task.js";
import { exactCount, knownText, trafficLight } from "./verify.js";

export const exportView = {
  key: "export",
  label: "Export",
  doc: "Writes the quantized model for the engine. It is verified before the file gets its name; if that fails nothing is written.",
  draw: drawExport,
  usable: /** @param {App} app */ (app) => app.state.exists || app.state.language,
};

/** @param {HTMLElement} host @param {App} app */
function drawExport(host, app) {
  const s = app.state, result = el("div", { class: "result" });
  const formats = (s.formats || []).filter((f) =>
      f.language === Boolean(s.language) && (!f.platforms || !f.platforms.length || f.platforms.includes(s.platform))
    ), own = el("div", {});
  const usual = !s.language && formats.find((f) => f.name === s.format);
  let options = null, chosen = usual;
  const drawOptions = (name) => { // the options that only this format has
    const f = chosen = formats.find((x) => x.name === name) || usual;
    options = f && f.options && f.options.length
      ? drawForm(app, f.options.map((o) => ({ name: `option_${o.name}`, label: o.name, doc: o.doc, ...(o.choices && o.choices.length
        ? { type: "select", value: o.default || o.choices[0], options: o.choices.map((v) => ({ name: v })) }
        : { placeholder: o.default }) })
      )) : null;
    own.replaceChildren(
      el("p", { class: "hint" },
        f ? f.doc || "" : s.language ? "The first of the list." : "The format that the target of the plan is usually written in."),
      options ? el("details", {}, el("summary", {}, "Options of this format"), options.node) : ""
    );
  };
  const beside = `beside the ${s.language ? "model" : "plan"}`;
  const form = drawForm(app, fields(app, "export", {
    format: {
      options: [
        ...(s.language ? [] : [{ name: "", label: `${usual ? usual.name : "usual"} (usual for ${s.platform || "the target"})` }]),
        ...formats.filter((f) => f !== usual).map((f) => ({ name: f.name, label: f.name, doc: f.doc })),
      ],
      changed: drawOptions,
    },
    output: { placeholder: beside, doc: `A name under the folders that this page may write to. Empty: ${beside}.` },
  }).filter((row) => !s.language || row.name !== "unverified"));
  drawOptions(form.read().format);
  const run = task(app, { label: "Export", kind: "export", options: () => {
    const extra = {};
    for (const [key, value] of Object.entries(options ? options.read() : {})) {
      const own = chosen.options.find((o) => o.name === key.slice(7));
      if (String(value) !== (own.default || own.choices && own.choices[0])) extra[own.name] = String(value);
    }
    return { ...form.read(), ...(Object.keys(extra).length ? { options: extra } : {}) };
  }, into: result, show: (r) => showExport(result, app, r) });
  host.replaceChildren(part("Export the quantized model", exportView.doc, form.node, own, s.language ? "" : ahead(app), run, result),
    s.language ? "" : afterwards(app));
  return steady(app, () => drawExport(host, app));
}

// ahead is what will be written, as far as it is known before: how much of it runs on integers, where it changes to float, how large it is.
/** @param {App} app */
function ahead(app) {
  const view = app.view, of = app.state.verification, size = view && view.verdict && view.verdict.size_bytes;
  if (!view || !view.picture) return "";
  const own = app.rows.filter((r) => r.domain), whole = own.filter((r) => r.domain === "INT8").length,
    edges = view.picture.edges.filter((e) => e.mark === "q" || e.mark === "dq").length;
  const line = (what, text) => [el("dt", null, what), el("dd", null, text)];
  return el("dl", { class: "figures" },
    line("on integers",
      `${whole} of ${plural(own.length, "operator")}${
        view.verdict.work.length ? `, ${view.verdict.work.map((w) => `${percent(w.share)} of the work in ${w.format}`).join(", ")}` : ""
      }`), line("boundaries", `${plural(edges, "tensor")} between integers and float, those of the ends among them`), size
    && line("weights", `${bytes(size.quantized)}, ${bytes(size.float)} in float`), line("verified", of
      ? `${["equal", "ties"].includes(of.verdict) ? "OK" : of.verdict} on ${
        plural(of.samples, "sample")
      }; done again where the plan has changed since`
      : "by this command, on 8 samples, before the file gets its name"));
}

/** @param {HTMLElement} result @param {App} app @param {Core.ExportResult} r */
function showExport(result, app, r) {
  const v = r.verification, said = el("p", { class: "status", role: "status" });
  const take = async (file) => {
    try {
      download(file.path.split("/").pop(), await app.client.download(file.path));
      message(said, `${file.path}: saved by the browser`);
    } catch (problem) {
      message(said, problemText(problem), true);
    }
  };
  const wrong = v && (v.verdict === "different" || v.verdict === "other"),
    open = v && (v.verdict === "nothing" || v.verdict === "unverified");
  result.replaceChildren(
    v
      ? el("div", { class: "lighted" }, trafficLight(v.verdict),
        el("div", {},
          el("p", { class: wrong ? "headline large" : open ? "headline visible" : "headline" },
            wrong ? "The file was written although its integers differ."
              : v.verdict === "partial" ? "Written; verified as far as it has an integer form."
              : open ? `Written, not verified: ${v.reason || "nothing in it runs on integers"}.`
              : v.verdict === "ties"
              ? "Written and verified: no integer differs by more than rounding allows; those on a tie may round to either side."
              : "Written and verified: no integer differs."), v.samples
          ? el("p", { class: "hint" },
            `Arithmetic ${v.profile}${knownText(v)}, ${plural(v.samples, "sample")}${v.data ? ` of ${v.data} data` : ""}, by ${v.backend}.`)
          : "", backText(v.read_back))) : el("p", { class: "headline open" }, "Written without verification."),
    grid({ caption: `Files of format ${r.format}${r.platform ? ` for ${r.platform}` : ""}`, rows: r.files, pick: take,
      pickDoc: "download this file", columns: [
        { label: "download", cell: (f) => f.path },
        { label: "SHA-256", doc: "of the file's bytes: the same plan gives the same bytes everywhere",
          cell: (f) => el("code", {}, f.sha256) },
      ] }),
    said
  );
}

// backText says what reading the file back found.
/** @param {Core.ReadBack} b */
function backText(b) {
  if (!b) return "";
  const same = b.same_program ? "is the plan's, operation for operation and number for number, and " : "",
    of = b.integers < b.integers_of ? `${exactCount(b.integers)} of ` : "";
  const ran = b.samples
    ? ` Its own program ${same}computes ${of}the plan's ${exactCount(b.integers_of)} integers on ${plural(b.samples, "sample")}.`
    : b.same_program ? ` Its own program ${same}was not run again.`
    : b.not_run ? ` Its own program was not run: ${b.not_run}.` : "";
  return el("p", { class: "hint" },
    `Read back: ${exactCount(b.compared)} numbers of the file, ${b.different} are not the plan's.${ran}${
      b.not_held.length ? ` Not in the file: ${b.not_held.join("; ")}.` : ""
    }`);
}

// afterwards are the other things that are taken along: the plan, its recipe, the gate for CI.
/** @param {App} app */
function afterwards(app) {
  const box = el("div", { class: "result" }), plan = app.state.plan || "MODEL.plan.json", judge = judging(app);
  const { nsr = 0.05, nsr_error = 0 } = (app.view && app.view.verdict) || {}, limit = small(nsr + 2 * (nsr_error || 0)); // without labels
  const text = (name, get) =>
    el("button", { type: "button", onclick: async () => {
      try {
        const answer = await get();
        download(name, answer instanceof Blob ? answer
          : typeof answer === "string" ? answer : answer.recipe || answer.text || JSON.stringify(answer, null, 2));
        message(box, `${name}: saved by the browser`);
      } catch (problem) {
        message(box, problemText(problem), true);
      }
    } }, name);
  return part("Other files",
    "The plan holds all decisions and scales; the recipe repeats the decisions on another model; the gate fails a build (exit code 3) if a new plan is worse.",
    el("p", { class: "actions" }, text(plan.split("/").pop(), () => app.client.download(plan)), " ",
      text("recipe.yaml", () => app.client.call("recipe", {}))), box, commandLine(
      [
        "qwb gate",
        plan.split("/").pop(),
        judge.labels ? "--max-drop 1" : `--max-nsr ${limit}`,
        ...(judge.data || ["DATA"]).map((d) => `--data ${shell(d)}`),
        judge.labels ? `--labels ${shell(judge.labels)}` : "",
        judge.label_offset ? `--label-offset ${judge.label_offset}` : "",
        judge.metric ? `--metric ${judge.metric}` : "",
        "--junit gate.xml",
      ]
        .filter(Boolean).join(" ")
    ));
}
