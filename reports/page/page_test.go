package page

import (
	"bytes"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryModuleCanBeBundled holds all modules to the part of the language that Bundle knows, and what they may not do: markup from text,
// styles and handlers as attributes, code from text, other hosts, and the end of the script that a file has them in.
func TestEveryModuleCanBeBundled(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new ` +
		`Function\(|setAttribute\("style"|</script|https?://(?:[^w]|w[^w]|ww[^w])`)
	n := 0
	require.NoError(t, fs.WalkDir(Files(), ".", func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() || !strings.HasSuffix(name, ".js") {
			return nil
		}
		n++
		src, err := fs.ReadFile(Files(), name)
		require.NoError(t, err)
		require.Empty(t, forbidden.FindString(string(src)), name)
		script, err := Bundle(name)
		require.NoError(t, err, name)
		require.NotRegexp(t, `(?m)^(import|export)\b`, string(script), name)
		return nil
	}))
	require.Greater(t, n, 5)
}

// otherDialect is what no formatter of these modules (dprint.json) leaves.
var otherDialect = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"a parameter without parentheses", regexp.MustCompile(`(?:^|[(,=:?]) *(?:async )?[A-Za-z_$][\w$]* =>`)},
	{"braces without blanks", regexp.MustCompile(`^import \{\S|^(?:const|let) \{\S`)},
	{"a text in single quotes", regexp.MustCompile(`(?:^|\(|[=:?,] )'[^']*'`)},
	{"a tab", regexp.MustCompile(`\t`)},
	{"blanks at an end", regexp.MustCompile(` $`)},
	{"an indentation that is no multiple of two", regexp.MustCompile(`^(?:  )* [^ *]`)},
}

// TestModulesAreOfOneDialect: where the formatter is not at hand, as in CI, this finds what was written past it. A line is longer than 140
// only where a text makes it so: texts are not broken.
func TestModulesAreOfOneDialect(t *testing.T) {
	texts := regexp.MustCompile("\"[^\"]*\"|`[^`$]*|\\}[^`{}]*`")
	require.NoError(t, fs.WalkDir(Files(), ".", func(name string, _ fs.DirEntry, err error) error {
		require.NoError(t, err)
		if !strings.HasSuffix(name, ".js") {
			return nil
		}
		src, err := fs.ReadFile(Files(), name)
		require.NoError(t, err)
		for i, line := range strings.Split(string(src), "\n") {
			code := texts.ReplaceAllString(line, `""`)
			for _, other := range otherDialect {
				assert.Falsef(t, other.pattern.MatchString(code), "%s:%d has %s", name, i+1, other.what)
			}
			if utf8.RuneCountInString(line) > 140 {
				assert.Lessf(t, len(code), 100, "%s:%d is too long", name, i+1)
			}
		}
		return nil
	}))
}

// TestBundlesHoldEachModuleOnce: what two modules import stands before both, in one copy.
func TestBundlesHoldEachModuleOnce(t *testing.T) {
	script, err := Bundle("views/tensors.js")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(script), "// dom.js\n"))
	require.Less(t, strings.Index(string(script), "// dom.js"), strings.Index(string(script), "// table.js"))
	_, err = Bundle("none.js")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestDocumentsAllowNothingButThemselves: the policy has the hash of the one script and the one style, and of no other source.
func TestDocumentsAllowNothingButThemselves(t *testing.T) {
	var b bytes.Buffer
	d := Document{Title: "<script>alert(1)</script>", Entry: "dom.js", Data: []Data{{ID: "x", JSON: []byte(`{"a":"\u003c/script\u003e"}`)}}}
	require.NoError(t, d.Write(&b))
	text := b.String()
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]+)"`).FindStringSubmatch(text)[1]
	part := func(tag string) []byte {
		return []byte(regexp.MustCompile(`(?s)<` + tag + `>(.*?)</` + tag + `>`).FindStringSubmatch(text)[1])
	}
	require.Contains(t, policy, strings.ReplaceAll(hashed(part("script")), "'", "&#39;"))
	require.Contains(t, policy, strings.ReplaceAll(hashed(part("style")), "'", "&#39;"))
	require.Contains(t, policy, "default-src &#39;none&#39;")
	require.NotContains(t, policy, "unsafe")
	require.NotContains(t, text, "alert(1)</script>")
	require.Equal(t, 2, strings.Count(text, "</script>"))
}
