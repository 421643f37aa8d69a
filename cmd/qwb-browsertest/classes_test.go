package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClassNames: names of classes stand wherever a class does, as text; too few of them are said.
func TestClassNames(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	names := make([]string, 32)
	for i := range names {
		names[i] = fmt.Sprintf("<img src=x onerror=alert(%d)>\u202esign%d", i, i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "names.txt"), []byte(strings.Join(names, "\n")), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "few.json"), []byte(`{"0": "cat"}`), 0o600))
	command(t, dir, "set", "glyphs.plan.json", "type:Conv", "observer=mse") // so that some predictions change
	p := open(t, serve(t, dir, "glyphs.plan.json", "--classes", "names.txt").url, desk)
	p.view("Samples")
	p.choose("input[type=text]", "Samples", "data")
	p.choose("input[type=text]", "Labels", "labels.tsv")
	p.click(".part button", "Find changed predictions")
	name := `/^<img src=x onerror=alert\([0-9]+\)>\\u202esign[0-9]+ \([0-9]+\)$/`
	p.until(`all("ul.samples .sample").length > 0 && [...all("ul.samples .sample ` +
		`table")[0].querySelectorAll("td:nth-child(2)")].every((c) => ` + name + `.test(c.firstChild.textContent))`)
	p.until(`all("table.results", "Which class became which")[0].querySelectorAll("tbody tr").length > 0 && ` + name +
		`.test(all("table.results", "Which class became which")[0].querySelector("tbody th").textContent)`)
	p.until(`/label: <img src=x/.test(text()) && !document.querySelector("ul.samples img, main img") && !/names.txt has/.test(text())`)
	p.looked("classes")

	p.view("Calibrate")
	p.until(`/32 names from names.txt/.test(text())`)
	p.choose("input[type=text]", "Class names", "few.json")
	p.click("button", "Use these names")
	p.until(`/few.json has 1 name, the model 32 classes: those without a name are shown by their number/.test(text())`)
	p.looked("classes-open")
	p.choose("input[type=text]", "Class names", "../elsewhere.txt")
	p.allow("404", "400", "403", "422", "500")
	p.click("button", "Use these names")
	p.until(`/elsewhere.txt/.test(one(".bad").innerText)`)
}
