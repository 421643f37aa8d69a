// The report on a language model in one file.
import { embedded } from "./data.js";
import { el } from "./dom.js";
import { drawLanguageReport } from "./language_body.js";

const main = el("main", { class: "document" });
document.body.append(main);
drawLanguageReport(main, embedded("report"));
