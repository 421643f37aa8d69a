package browsertest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheNetworkByKeyboard follows tensors, searches, zooms and prints without a mouse. What is drawn is held as the pixels of the canvas:
// the same view is the same picture.
func TestTheNetworkByKeyboard(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, planned(t), "glyphs.plan.json").url, desk)
	p.until(`one(".graph-canvas")`)
	press := func(key string) {
		p.js(fmt.Sprintf(`document.querySelector(".graph-canvas").dispatchEvent(new KeyboardEvent("keydown", {key: %s, bubbles: true})), `+
			`new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(() => f(1))))`, quoted(key)), nil)
	}
	read := func(expression string) (s string) {
		p.js(expression, &s)
		return s
	}
	drawn := func() string { return read(`document.querySelector(".graph-canvas").toDataURL()`) }
	node := func() string { return read(`decodeURIComponent((/node=[^&]*/.exec(location.hash) || [""])[0])`) }
	// A canvas of one colour is a PNG of a few hundred bytes.
	p.until(`document.querySelector(".graph-canvas").toDataURL().length > 5000`)

	press("Home")
	press("ArrowDown")
	first := node()
	require.Contains(t, first, "node=")
	require.NotContains(t, first, "input:")
	press("ArrowDown")
	require.NotEqual(t, first, node())
	press("ArrowUp")
	require.Equal(t, first, node())
	require.Contains(t, read(`document.querySelector(".unseen[role=status]").textContent`), first[len("node="):], "it is said")

	press("0")
	whole := drawn()
	press("+")
	require.NotEqual(t, whole, drawn())
	press("0")
	require.Equal(t, whole, drawn())
	p.choose("select", "Colour", "macs")
	p.until(`/multiply-accumulates/.test(document.querySelector(".graph-legend").textContent)`)
	press("x") // which does nothing but wait for the next picture
	require.NotEqual(t, whole, drawn())

	p.choose("input[type=search]", "Find", "type:Conv")
	p.until(`/^[1-9][0-9]* match/.test(document.querySelector(".graph-hits").textContent)`)
	p.choose("input[type=search]", "Find", "/(/")
	p.until(`document.querySelector(".graph-hits").textContent === "not a regular expression"`)
	p.choose("input[type=search]", "Find", "")

	// The list has what is drawn: as many operators and blocks at its top as the network has.
	p.js(`document.querySelector(".graph-tree").open = true`, nil)
	p.until(`all("[role=treeitem]").length > 2`)
	p.js(`all("[role=treeitem]").find((e) => /Softmax|Gemm|Conv/.test(e.textContent) && e.dataset.node).click(), true`, nil)
	p.until(`one("[role=treeitem][tabindex='0']").textContent.startsWith(decodeURIComponent(/node=([^&]*)/.exec(location.hash)[1]) + ", ")`)

	p.js(`dispatchEvent(new Event("beforeprint")), true`, nil)
	var size []int
	p.js(`((c) => [c.width, c.height])(document.querySelector("canvas.graph-paper"))`, &size)
	require.Greater(t, size[0], 200)
	require.Greater(t, size[1], 200)
	p.js(`dispatchEvent(new Event("afterprint")), true`, nil)
	p.until(`!document.querySelector("canvas.graph-paper")`)
}

// TestTheNetworkComesFirst: of a model without a plan too, in most of a laptop's window, with the table as a drawer below it.
func TestTheNetworkComesFirst(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "glyphs.plan.json")))
	p := open(t, serve(t, dir, "glyphs.onnx").url, look{1440, 900, false})
	p.until(`one(".graph-canvas")`)
	p.until(`/no plan yet/.test(text())`)
	p.js(`document.querySelector(".graph-canvas").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true})), true`, nil)
	p.until(`one(".side h2")`)
	p.click(".stateline button", "Choose samples and target")
	p.until(`one("nav.tabs button", "Calibrate").getAttribute("aria-current") === "page"`)

	p = open(t, serve(t, planned(t), "glyphs.plan.json").url, look{1440, 900, false})
	p.until(`one(".drawer[aria-expanded=false]") && one(".graph-canvas")`)
	var share, header float64
	p.js(`((b) => b.width * b.height / innerWidth / innerHeight)(document.querySelector(".graph-stage").getBoundingClientRect())`, &share)
	p.js(`document.querySelector("header.top").offsetHeight`, &header)
	assert.Greater(t, share, 0.55)
	assert.LessOrEqual(t, header, 48.0)
	p.operators()
	p.js(`one(".drawer").click(), true`, nil)
	p.until(`all(".tablehost").length === 0`)
}

// TestUndoWaitsForItself: a second click before the first one is done would find another plan, and hear of another tab.
func TestUndoWaitsForItself(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	for _, property := range []string{"observer=minmax", "observer=mse", "observer=kl"} {
		command(t, dir, "set", "glyphs.plan.json", "type:Conv", property)
	}
	p := open(t, serve(t, dir, "glyphs.plan.json").url, desk)
	p.click("button", "↶ Undo")
	p.js(`one("button", "↶ Undo").click(), document.dispatchEvent(new KeyboardEvent("keydown", {key: "z", ctrlKey: true, bubbles: `+
		`true})), true`, nil)
	p.until(`all("button", "↶ Undo").some((b) => !b.disabled)`)
	var said string
	p.js(`text()`, &said)
	assert.NotContains(t, said, "another tab")
	var undone struct{ Undone []any }
	require.NoError(t, json.Unmarshal([]byte(command(t, dir, "plan", "log", "glyphs.plan.json", "--json")), &undone))
	assert.Len(t, undone.Undone, 1)
}
