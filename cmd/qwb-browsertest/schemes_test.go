package browsertest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSchemesAreThoseOfTheTarget: what is offered for an operator can be decided; a second folder of data stays in the form.
func TestSchemesAreThoseOfTheTarget(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	p := open(t, serve(t, dir, "glyphs.plan.json", "--data", "data", "--data", "data/00001.npy").url, desk)
	p.operators()
	p.js(`all("[role=grid] [role=row], .tablehost tbody tr").find((r) => /Conv/.test(r.textContent)).click(), true`, nil)
	p.choose("select", "What to decide", "weights")
	p.until(`one("select", "Scheme of weights") && one("select", "Scheme of weights").options.length > 1`)
	var names []string
	p.js(`[...one("select", "Scheme of weights").options].map((o) => o.value)`, &names)
	require.Contains(t, names, "int8-sym-channel")
	require.NotContains(t, names, "int4-sym-g32")
	p.choose("select", "Scheme of weights", "int8-sym-tensor")
	p.until(`/weights=int8-sym-tensor/.test(text()) && /SQNR of the outputs/.test(text())`)
	p.click(".decide button", "Use")
	p.until(`all("button", "↶ Undo").some((b) => !b.disabled)`)
	require.Len(t, inForce(t, dir), 1)

	p.view("Samples")
	p.until(`one("textarea", "Samples") && one("textarea", "Samples").value === "data\ndata/00001.npy"`)
	p.click(".part button", "Measure, simulated")
	p.until(`/--data data --data data.00001.npy/.test(text())`)
}
