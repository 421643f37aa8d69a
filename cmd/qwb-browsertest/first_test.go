package browsertest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// slow makes the first answers of the server late, and clicks a view once: as soon as the page has a button for it and what is asked for
// in between is true.
const slow = `
window.answered = 0;
window.fetch = ((plain) => async (...a) => {
	if (!/api.(state|view)/.test(a[0])) return plain(...a);
	await new Promise((later) => setTimeout(later, 300));
	const answer = await plain(...a);
	window.answered++;
	return answer;
})(window.fetch);
const watch = setInterval(() => {
	const button = [...document.querySelectorAll("nav.tabs button.to:not([hidden])")].find((b) => b.textContent === %s);
	if (!button || !(%s)) return;
	clearInterval(watch);
	window.early = window.answered;
	if (!button.checkVisibility()) button.closest(".step").querySelector(".name").click();
	button.click();
}, 1);`

// TestAViewClickedAtOnceStays: what is clicked before the page has heard of the plan, or between its first, brief view and the whole one,
// is what is shown in the end, and the address says so.
func TestAViewClickedAtOnceStays(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	command(t, dir, "analyze", "glyphs.plan.json")
	s := serve(t, dir, "glyphs.plan.json")
	moments := map[string]string{"before the plan": `true`, "in the brief view": `document.querySelector(".graphhost canvas")`}
	for when, condition := range moments {
		for view, shown := range map[string]string{"Samples": "section.view-samples", "Advice": "#page-advice"} {
			t.Run(when+"/"+view, func(t *testing.T) {
				p := opened(t, s.url, desk, fmt.Sprintf(slow, quoted(view), condition))
				p.until(`window.early < 4 && window.answered >= 4`)
				p.js(`new Promise((later) => setTimeout(later, 100))`, nil) // what was answered is shown
				var here, at string
				p.js(`(all("nav.tabs [aria-current]")[0] || {}).textContent`, &here)
				require.Equal(t, view, here)
				p.js(`location.hash`, &at)
				require.Contains(t, at, "view=")
				p.until(`one(` + quoted(shown) + `)`)
			})
		}
	}
}
