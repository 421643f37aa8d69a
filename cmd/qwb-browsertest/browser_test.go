package browsertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long a page has for what a test waits for: long for a machine that is busy with other tests, too. running is for what
// waits for a model that takes a minute.
const (
	patience = time.Minute
	running  = 8 * time.Minute
)

// answer is how long the browser has for one thing that it is asked.
const answer = 5 * time.Minute

var (
	browser context.Context // Chromium, running
	qwb     string          // the program under test
	scratch string          // a folder for what several tests use
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	path := chromium()
	if path == "" {
		fmt.Println("SKIP: there is no Chromium here, the tests in a browser were not run (apt-get install chromium, " +
			"or name one in QWB_CHROMIUM)")
		return 0
	}
	dir, err := os.MkdirTemp("", "qwb-browsertest-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	scratch = dir
	if qwb = os.Getenv("QWB"); qwb == "" {
		qwb = filepath.Join(dir, "qwb")
		build := exec.Command("go", "build", "-o", qwb, "./cmd/qwb")
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			panic(string(out))
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("font-render-hinting", "none"), chromedp.Flag("enable-precise-memory-info", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	started, end := chromedp.NewContext(allocator)
	defer end()
	if err := chromedp.Do(started); err != nil {
		fmt.Println("SKIP: Chromium does not start here, the tests in a browser were not run:", err)
		return 0
	}
	browser = started
	return m.Run()
}

func chromium() string {
	for _, name := range []string{os.Getenv("QWB_CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// command runs a command line of qwb in a folder and returns what it prints on standard output.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command(qwb, args...)
	c.Dir = dir
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	require.NoErrorf(t, err, "qwb %s\n%s%s", strings.Join(args, " "), out, said.String())
	return string(out)
}

// made is a folder that is filled once, by the first test that asks.
type made struct {
	name string
	fill func(t *testing.T, dir string)
	once sync.Once
	ok   bool
}

// folder is the folder itself, which no test may change.
func (m *made) folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(scratch, m.name)
	m.once.Do(func() {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		m.fill(t, dir)
		m.ok = true
	})
	require.True(t, m.ok, "another test could not make %s", m.name)
	return dir
}

// copied is a copy of it, of the test's own, beside it: a plan names its data by the way from its folder.
func (m *made) copied(t *testing.T) string {
	t.Helper()
	from := m.folder(t)
	dir, err := os.MkdirTemp(scratch, m.name+"-*")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	return dir
}

// server is a `qwb serve` that runs.
type server struct {
	*exec.Cmd
	url  string
	once sync.Once
}

func serve(t *testing.T, dir string, args ...string) *server {
	t.Helper()
	s := &server{Cmd: exec.Command(qwb, append([]string{"serve", "--no-browser"}, args...)...)}
	s.Dir, s.Stderr = dir, os.Stderr
	out, err := s.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.Start())
	t.Cleanup(s.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	s.url = strings.TrimSpace(line)
	return s
}

// kill ends the server at once, as a crash would.
func (s *server) kill() {
	s.once.Do(func() {
		_ = s.Process.Kill()
		_ = s.Wait() // which says that it was killed
	})
}

// look is how a page is looked at.
type look struct {
	width, height int64
	dark          bool
}

var desk = look{1400, 900, false}

// tab is a page in the browser, with all that went wrong on it.
type tab struct {
	t        *testing.T
	ctx      context.Context
	patience time.Duration

	mu      sync.Mutex
	wrong   []string
	allowed []string // what may be wrong, since the test does it
}

// open opens an address in a tab of its own, with a storage of its own. Whatever the page says on the console fails the test in the end.
func open(t *testing.T, url string, l look) *tab { return opened(t, url, l, "") }

// opened is open with a script that runs before those of the page.
func opened(t *testing.T, url string, l look, before string) *tab {
	t.Helper()
	p := &tab{t: t, patience: patience}
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.hear))
	p.ctx = ctx
	t.Cleanup(func() {
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, w := range p.wrong {
			if !slices.ContainsFunc(p.allowed, func(a string) bool { return strings.Contains(w, a) }) {
				t.Errorf("the page: %s", w)
			}
		}
	})
	require.NoError(t, chromedp.Do(ctx)) // the first has no limit: its end would be that of the tab
	p.do(ask(log.Enable, cdp.Empty{}), ask(page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: before}), p.sized(l), chromedp.Navigate(url))
	return p
}

// allow says what may be wrong from now on.
func (p *tab) allow(texts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = append(p.allowed, texts...)
}

// hear notes what should not be.
func (p *tab) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		p.wrong = append(p.wrong, text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			text := string(e.Type)
			for _, a := range e.Args {
				text += " " + a.Description + string(a.Value)
			}
			p.wrong = append(p.wrong, text)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			p.wrong = append(p.wrong, e.Entry.Text+" "+e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		p.wrong = append(p.wrong, "it opened a dialog: "+e.Message)
	}
}

// ask makes an action of a command of the protocol.
func ask[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (p *tab) sized(l look) chromedp.Action[chromedp.Void] {
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	return chromedp.Steps(ask(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: l.height,
		DeviceScaleFactor: 1}), ask(emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: "reduce"}}}))
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, answer)
	defer stop()
	require.NoError(p.t, chromedp.Do(ctx, actions...))
}

// tools find what is on the page as somebody does who uses it: by role and by name, among what is visible.
const tools = `
const visible = (e) => e.checkVisibility({visibilityProperty: true}) && e.getClientRects().length > 0;
const nameOf = (e) => (e.getAttribute("aria-label") || (e.labels && e.labels.length ? e.labels[0].textContent : e.textContent) || e.title || "").replace(/\s+/g, " ").trim();
const all = (css, name = "") => [...document.querySelectorAll(css)].filter((e) => visible(e) && (name instanceof RegExp ? name.test(nameOf(e)) : nameOf(e).startsWith(name)));
const one = (css, name) => all(css, name)[0];
const text = () => document.body.innerText;
`

// js evaluates an expression, which may be a promise.
func (p *tab) js(expression string, into any) {
	p.t.Helper()
	require.NoError(p.t, p.try(expression, into), expression)
}

func (p *tab) try(expression string, into any) error {
	ctx, stop := context.WithTimeout(p.ctx, answer)
	defer stop()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte]("(async () => {"+tools+"return ("+expression+");})()", chromedp.EvalAwaitPromise,
		chromedp.EvalAsValue))
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	return err
}

// until waits for an expression to become true, as long as patience lasts; it begins anew whenever a job that runs comes further, so that a
// slow machine is not a fault.
func (p *tab) until(expression string) {
	p.t.Helper()
	var last error
	var was string
	for end := time.Now().Add(p.patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var now struct {
			OK  bool
			Job string
		}
		last = p.try(`{OK: Boolean(`+expression+`), Job: [...document.querySelectorAll("progress")].map((m) => m.value).join()}`, &now)
		if now.OK {
			return
		}
		if now.Job != was {
			was, end = now.Job, time.Now().Add(p.patience)
		}
	}
	var shown string
	_ = p.try("text()", &shown)
	var asked []string
	_ = p.try(`performance.getEntriesByType("resource").filter((e) => /api/.test(e.name)).map((e) => Math.round(e.startTime) + " ms " + new `+
		`URL(e.name).pathname + " " + e.responseStatus)`, &asked)
	p.shoot("failed-" + strings.ReplaceAll(p.t.Name(), "/", "-"))
	p.t.Fatalf("this never came true: %s (%v)\nthe page asked %s and shows:\n%s", expression, last, strings.Join(asked, ", "), shown)
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// click waits for a visible element that can be used and whose name begins so, or is all of it where a $ stands at the end, and clicks it.
func (p *tab) click(css, name string) {
	p.t.Helper()
	at := fmt.Sprintf("all(%s, %s).find((e) => !e.disabled)", quoted(css), quoted(name))
	if exact, ok := strings.CutSuffix(name, "$"); ok {
		at = fmt.Sprintf("all(%s).find((e) => !e.disabled && nameOf(e) === %s)", quoted(css), quoted(exact))
	}
	p.until(at)
	p.js(at+".click(), true", nil)
}

// isMeasured is true where the header has the error of the outputs; headNSR is that error, as its tooltip has it.
const (
	isMeasured = `/error\s+([0-9.-]+( ± [0-9.]+)? dB|exact)/.test(document.querySelector("header.top").innerText)`
	headNSR    = `Number((/NSR ([0-9.e-]+)/.exec((one("header.top button.tile", "error") || {}).title) || [])[1])`
)

// view goes to one of the views by the spine; in a narrow window those of a step are there once that is chosen.
func (p *tab) view(name string) {
	p.t.Helper()
	p.until(`document.querySelector("nav.tabs button[aria-current]")`) // before that the page has not read the plan
	at := fmt.Sprintf(`[...document.querySelectorAll("nav.tabs button.to:not([hidden])")].find((b) => b.textContent === %s)`, quoted(name))
	p.until(at)
	p.js("((b) => { if (!visible(b)) b.closest(\".step\").querySelector(\".name\").click(); b.click(); })("+at+"), true", nil)
	p.until(at + `.getAttribute("aria-current") === "page"`)
}

// samples unfolds the lines that say which samples the view uses, and forms that have a result.
func (p *tab) samples() {
	p.t.Helper()
	p.js(`all("main details.datafold:not([open])").forEach((d) => { d.open = true; }), `+
		`all("main button", "Change the options").forEach((b) => b.click()), true`, nil)
}

// operators opens the table of all operators, where it is not open, and waits until it has rows.
func (p *tab) operators() {
	p.t.Helper()
	p.until(`one(".drawer")`)
	p.js(`one(".drawer[aria-expanded=false]") && one(".drawer").click(), true`, nil)
	p.until(`all("[role=grid] [role=row], .tablehost tbody tr").length > 1`)
}

// drawn waits until what changed is on the screen: the page lays out and draws in the frame after a change, and what watches sizes in the
// one after that.
func (p *tab) drawn() {
	p.t.Helper()
	p.js(`(async () => { for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame); return true; })()`, nil)
}

// choose sets a control of a name to a value as a user does, so that the page hears of it.
func (p *tab) choose(css, name, value string) {
	p.t.Helper()
	p.samples()
	at := fmt.Sprintf("one(%s, %s)", quoted(css), quoted(name))
	p.until(at)
	p.js(fmt.Sprintf(`((e) => { e.value = %s; e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", `+
		`{bubbles: true})); return e.value; })(%s)`, quoted(value), at), nil)
}

// drag pulls an element by so many pixels, with a real mouse.
func (p *tab) drag(element string, dx, dy float64) {
	p.t.Helper()
	var at struct{ X, Y float64 }
	p.until(element)
	p.js("((b) => ({X: b.left + b.width / 2, Y: b.top + b.height / 2}))(("+element+").getBoundingClientRect())", &at)
	mouse := func(kind input.DispatchMouseEventType, x, y float64) chromedp.Action[chromedp.Void] {
		e := input.DispatchMouseEventParams{Type: kind, X: x, Y: y, Button: "left", ClickCount: 1}
		if kind != "mouseReleased" {
			e.Buttons = 1
		}
		return ask(input.DispatchMouseEvent, e)
	}
	p.do(mouse("mousePressed", at.X, at.Y))
	for i := 1.0; i <= 5; i++ {
		p.do(mouse("mouseMoved", at.X+dx*i/5, at.Y+dy*i/5))
	}
	p.do(mouse("mouseReleased", at.X+dx, at.Y+dy))
}

// shoot takes a picture of what is visible, where QWB_SCREENSHOTS says a folder for it.
func (p *tab) shoot(name string) {
	p.t.Helper()
	dir := os.Getenv("QWB_SCREENSHOTS")
	if dir == "" {
		return
	}
	ctx, stop := context.WithTimeout(p.ctx, answer)
	defer stop()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	require.NoError(p.t, os.MkdirAll(dir, 0o755))
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

// nameless lists what can be used on the page and has no name in the accessibility tree, and how much there is in all.
func (p *tab) nameless() (list []string, count int) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, answer)
	defer stop()
	tree, err := chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	require.NoError(p.t, err)
	value := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return strings.Trim(string(v.Value), `"`)
	}
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		switch role := value(n.Role); role {
		case "button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "slider", "tab", "tabpanel", "treeitem", "tree", "option",
			"table", "grid", "img", "image", "figure",
			"region", "dialog", "navigation", "separator", "spinbutton", "listbox", "application", "graphics-document", "switch", "menuitem",
			"progressbar":
			count++
			if strings.TrimSpace(value(n.Name)) == "" {
				list = append(list, fmt.Sprintf("%s (node %d)", role, n.BackendDOMNodeID))
			}
		}
	}
	return list, count
}
