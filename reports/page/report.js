// The report in one file.
import { el } from "./dom.js";
import { embeddedView } from "./data.js";
import { newSelection } from "./selection.js";
import { drawReport } from "./report_body.js";

const main = el("main", { class: "document", id: "top" });
document.body.append(main);
drawReport(main, embeddedView(), newSelection({ hash: true }));
