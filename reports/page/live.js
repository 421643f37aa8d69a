// The entry of the page that `qwb serve` hands out.
import { startApp } from "./app.js";
import { openClient } from "./client.js";

const host = document.getElementById("app");
startApp(openClient(), host).catch((problem) => {
  host.textContent = problem.status === 403
    ? "This address is of an earlier start of qwb serve. Open the one that it printed, with its token."
    : `The page cannot start: ${problem.message}`;
});
