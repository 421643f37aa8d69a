// A verification in one file.
import { embedded } from "./data.js";
import { el } from "./dom.js";
import { newSelection } from "./selection.js";
import { drawVerification } from "./verification_body.js";

const main = el("main", { class: "document" });
document.body.append(main);
drawVerification(main, document.title.replace(/: verification$/, ""), embedded("verification"), newSelection({ hash: true }));
