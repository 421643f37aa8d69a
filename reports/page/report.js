// The report in one file.
import { embeddedView } from "./data.js";
import { el } from "./dom.js";
import { drawReport } from "./report_body.js";
import { newSelection } from "./selection.js";

const main = el("main", { class: "document", id: "top" });
document.body.append(main);
drawReport(main, embeddedView(), newSelection({ hash: true }));
