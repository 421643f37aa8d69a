package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheNetworkByTouch: one finger moves the network, two zoom it, a tap selects an operator. What is drawn is held as the pixels of the
// canvas.
func TestTheNetworkByTouch(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, planned(t), "glyphs.plan.json").url, look{500, 900, false})
	p.do(ask(emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true, MaxTouchPoints: 2}))
	p.until(`one(".graph-canvas") && document.querySelector(".graph-canvas").width > 100`)
	p.js(`document.querySelector(".graph-canvas").scrollIntoView({block: "center"}), true`, nil)
	var at struct{ X, Y float64 }
	p.js(`((b) => ({X: b.left + b.width / 2, Y: b.top + b.height / 2}))(document.querySelector(".graph-canvas").getBoundingClientRect())`, &at)
	touch := func(kind input.DispatchTouchEventType, points ...[2]float64) {
		e := input.DispatchTouchEventParams{Type: kind, TouchPoints: []*input.TouchPoint{}}
		for i, q := range points {
			e.TouchPoints = append(e.TouchPoints, &input.TouchPoint{X: at.X + q[0], Y: at.Y + q[1], ID: new(float64(i))})
		}
		p.do(ask(input.DispatchTouchEvent, e))
	}
	drawn := func() (s string) {
		p.js(`new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(() => `+
			`f(document.querySelector(".graph-canvas").toDataURL()))))`, &s)
		return s
	}
	var scrolled [2]float64
	p.js(`[document.scrollingElement.scrollTop, visualViewport.scale]`, &scrolled)
	before := drawn()
	touch("touchStart", [2]float64{0, 0})
	for i := range 5 {
		touch("touchMove", [2]float64{float64(8 * i), float64(12 * i)})
	}
	touch("touchEnd")
	moved := drawn()
	require.NotEqual(t, before, moved)
	touch("touchStart", [2]float64{-20, 0}, [2]float64{20, 0})
	for i := range 5 {
		touch("touchMove", [2]float64{-20 - float64(10*i), 0}, [2]float64{20 + float64(10*i), 0})
	}
	touch("touchEnd")
	require.NotEqual(t, moved, drawn())
	var now [2]float64
	p.js(`[document.scrollingElement.scrollTop, visualViewport.scale]`, &now)
	assert.Equal(t, scrolled, now, "the page itself has neither moved nor been zoomed")
	p.click(".graph button", "Show the whole network")
	var hash string
	for i := 0; hash == "" && i < 100; i++ { // an operator stands somewhere
		q := [2]float64{float64(i%10*40 - 180), float64(i/10*20 - 90)}
		touch("touchStart", q)
		touch("touchEnd")
		p.js(`(/node=[^&]*/.exec(location.hash) || [""])[0]`, &hash)
	}
	assert.Contains(t, hash, "node=")
}
