package browsertest

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/demo"
)

// goTool runs the Go tool in the module of qwb.
func goTool(t *testing.T, args ...string) {
	t.Helper()
	c := exec.Command("go", args...)
	c.Dir = "../.."
	out, err := c.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
}

// site is the page without a server, a folder and one file: that of QWB_SITE, or made here.
var site = made{name: "site", fill: func(t *testing.T, dir string) {
	if made := os.Getenv("QWB_SITE"); made != "" {
		require.NoError(t, os.CopyFS(dir, os.DirFS(made)))
		return
	}
	goTool(t, "run", "./cmd/qwb-page", "-o", dir)
}}

// TestTheDemoWithoutAServer does the demo in the page that is one file, opened from disk, and holds plan, statistics and export to those of
// a command line without assembly, byte for byte.
func TestTheDemoWithoutAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "qwb")
	goTool(t, "build", "-tags", "purego", "-o", plain, "./cmd/qwb")

	p := open(t, "file://"+filepath.Join(site.folder(t), "qwb.html"), desk)
	p.click("button", "Try the demo")
	// The finished result is there at once, while its plan is made behind it.
	p.until(`one(".view-report .tiles") && /top-1/.test(one(".view-report .tiles").innerText) && text().includes("last_dw")`)
	p.until(`/computed in this tab now/.test(text()) && !text().includes("glyphs.plan.json for")`)
	p.shoot("static")
	p.until(`/has been computed in this tab/.test(text())`)
	// What was computed is what was shown.
	var shown, here string
	figure := `((/(drop|DROP)[^]*?(-?[0-9.]+ ± [0-9.]+)/.exec(%s.innerText) || [])[2])`
	p.js(fmt.Sprintf(figure, `one(".view-report .tiles")`), &shown)
	p.js(fmt.Sprintf(figure, `one("header.top")`), &here)
	require.NotEmpty(t, shown)
	require.Equal(t, shown, here)
	p.view("Network")
	p.until(`text().includes("last_dw")`)
	// What lies only in the tab is named, and the browser asks before it goes.
	unsaved := `all(".unsaved button").map((b) => b.textContent)`
	leaves := `(() => { const e = new Event("beforeunload", {cancelable: true}); dispatchEvent(e); return !e.defaultPrevented; })()`
	p.until(unsaved + `.includes("glyphs.plan.json")`)
	p.until("!" + leaves)
	p.view("Export")
	// What the page saves is a Blob, by an address that is made for it.
	p.js(`(() => { window.saved = []; const make = URL.createObjectURL; URL.createObjectURL = (b) => { saved.push(b); return make.call(URL, `+
		`b); }; return true; })()`, nil)
	base64Of := `(async (b) => { let s = ""; for (const x of new Uint8Array(await b.arrayBuffer())) s += String.fromCharCode(x); ` +
		`return btoa(s); })`
	p.click("main button", "Export")
	p.until(`text().includes("Written and verified")`)
	p.click("table button", "qwb-demo/glyphs")
	p.until(`saved.length === 1`)
	p.click("main button", "glyphs.plan.json")
	p.until(`saved.length === 2`)
	p.until("!" + unsaved + `.includes("glyphs.plan.json") && ` + unsaved + `.includes("glyphs.stats") && !` + leaves)
	p.click(".unsaved button", "Save all")
	p.until(`one(".unsaved") === undefined && ` + leaves)
	var saved [2]string
	p.js(`Promise.all(saved.slice(0, 2).map(`+base64Of+`))`, &saved)

	require.NoError(t, demo.Files(context.Background(), demo.DefaultSeed, func(name string, content []byte) error {
		file := filepath.Join(dir, demo.Folder, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		return os.WriteFile(file, content, 0o600)
	}))
	for _, line := range [][]string{{"calibrate", "qwb-demo/glyphs.onnx", "--platform", "trt_int8", "--data", "qwb-demo/data/calibration",
		"-o", "qwb-demo/glyphs.plan.json"},
		{"export", "qwb-demo/glyphs.plan.json", "-o", "qwb-demo/own.onnx"}} {
		c := exec.Command(plain, line...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		require.NoErrorf(t, err, "%s", out)
	}
	for i, name := range []string{"own.onnx", "glyphs.plan.json"} {
		want, err := os.ReadFile(filepath.Join(dir, demo.Folder, name))
		require.NoError(t, err)
		got, err := base64.StdEncoding.DecodeString(saved[i])
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
}
