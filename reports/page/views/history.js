// The decisions of the plan: what was decided, by what, and what was measured afterwards. Each one can be taken back.
import { measured, words } from "../decisions.js";
import { el, replace } from "../dom.js";
import { plural } from "../format.js";

const whose = { calibrate: "calibration", target: "target", import: "import", user: "you", recipe: "recipe", search: "search",
  tune: "tuning" };

export const historyView = {
  key: "history",
  label: "History",
  doc: "Every decision that made this plan, with what was measured after it; undo, redo, take one back",
  /** @param {HTMLElement} host @param {App} app */
  draw(host, app) {
    const list = el("ol", { class: "decisions" }), undone = el("ol", { class: "decisions undone" }), said = el("p", { class: "bad" });
    const recipeHost = el("div");
    host.append(
      el("p", { class: "soft" },
        "A plan is its decisions. All scales follow from them, so that any decision can be taken back without losing those after it."),
      said,
      list,
      undone,
      el("p", null,
        el("button", { type: "button",
          title: "All decisions as a YAML file that qwb calibrate --recipe reads: the same treatment for another model or another day",
          onclick: showRecipe }, "Show as a recipe")),
      recipeHost
    );

    async function showRecipe() {
      try {
        const r = await app.client.call("recipe", {});
        replace(recipeHost, el("pre", { tabindex: "0", "aria-label": "Recipe" }, r.recipe));
      } catch (problem) {
        replace(recipeHost, el("p", { class: "bad" }, problem.message));
      }
    }

    async function update() {
      /** @type {Partial<Core.Logged>} */
      let log;
      try {
        log = app.state.exists ? await app.client.call("log", {}) : { decisions: [] };
        said.textContent = "";
      } catch (problem) {
        said.textContent = problem.message;
        return;
      }
      replace(list,
        [...log.decisions].reverse().map((d) =>
          el("li", { class: d.in_force ? "" : "replaced" },
            el("p", null, el("span", { class: "number" }, `#${d.number}`), " ", el("b", null, whose[d.by] || d.by), ": ", decided(d),
              !d.in_force && el("span", { class: "soft" }, " (taken back or replaced)"),
              d.stale && el("span", { class: "soft", title: "Its evidence was measured under other decisions" }, " (outdated evidence)")),
            story(d.story || []), (d.runs || []).filter((run, i, all) =>
              // the last of each command
              (!d.story || run.command !== d.by) && !all.slice(i + 1).some((later) => later.command === run.command)
            ).map((run) => el("p", { class: "soft", title: JSON.stringify(run.figures) }, measured(run))),
            d.in_force && ["user", "search", "recipe", "tune"].includes(d.by)
              && el("button", { type: "button", title: `Take back this decision alone: qwb unset '#${d.number}'`, onclick: () =>
                app.change("unset", { what: `#${d.number}` }).catch(() => {}) }, "Take back"))
        ));
      replace(undone,
        (log.undone || []).map((u) => el("li", { class: "replaced" }, el("b", null, "undone"), ": ", u.decisions.map(decided).join("; "))));
    }
    update();
    return { update };
  },
};

// story is what a command says of a decision; methods that were taken back are folded.
/** @param {string[]} lines */
function story(lines) {
  const back = lines.filter((line) => line.includes("(taken back")), line = (text) => el("p", { class: "soft" }, text);
  return [
    lines.filter((text) => !back.includes(text)).map(line),
    back.length > 0 && el("details", null, el("summary", null, `${plural(back.length, "method")} taken back`), back.map(line)),
  ];
}

// decided is a decision as the command line writes it, without who made it, which stands before it.
/** @param {any} d */
function decided(d) {
  return d.text ? d.text.replace(/^[a-z]+: /, "") : words(d);
}
