package browsertest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTheStepsSayHowThingsStand: each step has the sign of its state, one line says what is to be done next and has the button for it, and
// Back and Forward go along the views.
func TestTheStepsSayHowThingsStand(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, planned(t), "glyphs.plan.json").url, look{1440, 900, false})
	states := func(want string) {
		t.Helper()
		p.until(`all("nav.tabs button.name").map(nameOf).join("; ") === ` + quoted(want))
	}
	states("Model: done; Data: done; Measure: not yet; Improve: not yet; Prove: not yet; Ship: not yet")
	p.until(`one("header .verdict", /not measured/)`)
	p.click("header button", "Measure the error") // a figure that nobody measured is the button that measures it
	states("Model: done; Data: done; Measure: done; Improve: not yet; Prove: not yet; Ship: not yet")
	p.until(isMeasured + ` && one("header .verdict", /ready|look at/)`)
	p.operators()
	p.js(`all(".tablehost tbody tr").find((r) => /Conv/.test(r.textContent)).click(), true`, nil)
	p.choose("select", "What to decide", "fp32")
	p.click(".decide button", "Use")
	p.until(`one(".stateline.warned", /measured before the last change/)`)
	states("Model: done; Data: done; Measure: not of the plan as it is; Improve: done; Prove: not yet; Ship: not yet")
	var said string
	p.js(`text()`, &said)
	assert.NotContains(t, said, "of another state of the plan", "one fact is said once")

	p.view("Tune")
	p.view("Advice")
	p.until(`one("[role=tab][aria-selected=true]", "Advice") && /view=advice/.test(location.hash)`)
	here := func(name string) { p.until(`one("nav.tabs button[aria-current]", ` + quoted(name) + `)`) }
	p.js(`history.back(), true`, nil)
	here("Tune")
	p.js(`history.forward(), true`, nil)
	here("Advice")
	p.choose("select", "Colour", "macs")
	p.js(`setTimeout(() => location.reload()), true`, nil)
	p.until(`!document.querySelector("nav.tabs")`)
	here("Advice")
	p.until(`one("select", "Colour").value === "macs"`)
}

// TestOneDataContext: samples and labels that one view was told are proposed in the others, drawn already or not, and outlive a reload.
func TestOneDataContext(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, planned(t), "glyphs.plan.json").url, desk)
	p.view("Compare")
	p.view("Samples")
	p.choose("input[type=text]", "Samples", "data")
	p.choose("input[type=text]", "Labels", "labels.tsv")
	p.choose("input[type=number]", "How many samples", "24")
	for range 2 {
		p.view("Compare")
		p.until(`one(".datafold summary", "Samples: data, at most 24, labels labels.tsv")`)
		p.view("Tune") // which fits something: never on these only because they judge
		p.until(`one(".datafold summary", "Samples: those that the plan was calibrated on, at most 64")`)
		p.js(`setTimeout(() => location.reload()), true`, nil)
		p.until(`!document.querySelector("nav.tabs")`)
	}
	p.click("header button", "Measure accuracy") // it knows them too
	p.until(`/top-1\s+[0-9.]+ % drop/.test(document.querySelector("header.top").innerText)`)
	p.until(`/eval glyphs.plan.json --mode sim --samples 24|--labels labels.tsv/.test(document.querySelector("footer").textContent)`)
}
