package browsertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJobsShowTheFiguresOfTheCommands runs what the views run and finds in each result the figures that the command line prints. After the
// page is loaded again the results are still there.
func TestJobsShowTheFiguresOfTheCommands(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	p := open(t, serve(t, dir, "glyphs.plan.json").url, desk)
	p.until(`document.querySelector("nav.tabs button[aria-current]")`)
	figures := func(into any, args ...string) {
		t.Helper()
		out := command(t, dir, append(args, "--json")...) // warnings stand before and after the object
		require.NoError(t, json.NewDecoder(strings.NewReader(out[strings.Index(out, "{"):])).Decode(into), out)
	}

	p.view("Samples")
	p.choose("input[type=text]", "Samples", "data")
	p.choose("input[type=text]", "Labels", "labels.tsv")
	p.click(".part button", "Find changed predictions")
	var eval struct {
		N, Top1, Flips int
		FloatTop1      int `json:"float_top1"`
	}
	figures(&eval, "eval", "glyphs.plan.json", "--data", "data", "--labels", "labels.tsv", "--mode", "int8")
	p.until(fmt.Sprintf(`/correct in float\s+%d of %d/.test(text()) && /correct on integers\s+%d of %d/.test(text())`, eval.FloatTop1, eval.N,
		eval.Top1, eval.N))
	if eval.Flips > 0 {
		p.until(`all("ul.samples canvas").length > 0`)
		p.click("ul.samples button", "Error by operator")
		p.until(`all("svg.bars rect").length > 3`)
	}

	p.view("Sweep")
	p.choose("input[type=text]", "Samples", "") // a hint, from the samples that the statistics keep
	p.click(".part button", "Sweep$")
	p.until(`/This is a hint/.test(text())`)
	var sweep struct{ Rows []struct{ NSR float64 } }
	figures(&sweep, "sweep", "glyphs.onnx", "--platforms", "trt_int8")
	require.NotEmpty(t, sweep.Rows)
	for _, r := range sweep.Rows {
		p.until(fmt.Sprintf(`all("td").some((e) => Number((/^NSR (\S+)/.exec(e.title) || [])[1]) === %v)`, r.NSR))
	}

	p.view("Verify")
	p.click(".part button", "Verify$")
	p.until(`/OK: 0 of [0-9,]+ integers differ/.test(text())`) // before the command, since both note the verdict in the plan
	var verify struct {
		Simulation struct{ Compared int }
		Verdict    string
	}
	figures(&verify, "verify", "glyphs.plan.json")
	require.Contains(t, []string{"equal", "ties"}, verify.Verdict)
	p.until(fmt.Sprintf(`text().includes("OK: 0 of " + Number(%d).toLocaleString("en-US") + " integers differ")`, verify.Simulation.Compared))

	p.view("Tune")
	p.click(".part button", "Tune$")
	p.until(`/held-out samples|Nothing was kept/.test(text()) && all("table.results tbody tr").length > 1`)
	p.shoot("tuned")

	command(t, dir, "set", "glyphs.plan.json", "type:Conv", "observer=kl") // another plan
	p.js(`setTimeout(() => location.reload()), true`, nil)
	p.until(`one("nav.tabs button", "Verify") && !document.querySelector("main .view-verify")`)
	p.view("Verify")
	p.until(`/OK: 0 of [0-9,]+ integers differ/.test(text())`)
	p.until(`one(".view-verify p.warn", "The plan has changed since")`)

	// answers come after events
	p.js(`window.fetch = ((plain) => async (...a) => { const r = await plain(...a); await new Promise((later) => setTimeout(later, 300)); `+
		`return r; })(window.fetch), true`, nil)
	p.choose("input[type=text]", "Samples", "nowhere")
	p.click(".part button", "Verify$")
	p.until(`/nowhere.*below is the result of an earlier run/.test(text()) && !/nowhere/.test(one(".stateline").innerText)`) // once
	p.until(`/Nothing runs/.test(one("footer").innerText)`)
	p.choose("input[type=text]", "Samples", "data")
	p.click(".part button", "Verify$")
	p.until(`!/nowhere|The plan has changed since/.test(text())`)
}
