package page

import (
	"bytes"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryModuleCanBeBundled holds all modules to the part of the language that Bundle knows, and what they may not do: markup from text,
// styles and handlers as attributes, code from text, other hosts, and the end of the script that a file has them in.
func TestEveryModuleCanBeBundled(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function\(|setAttribute\("style"|</script|https?://(?:[^w]|w[^w]|ww[^w])`)
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
