package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/reports"
	"qwb/reports/page"
)

var given = parts{[]byte("the core, compressed"), []byte("/* Go's script: </script> */"), []byte(`{"model": "m"}`)}

func TestAFolderHasAllThatItsPageAsksFor(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, folder(dir, given))
	index, err := os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	require.Contains(t, string(index), "script-src 'self' 'wasm-unsafe-eval'")
	require.NotContains(t, string(index), "live.js")
	named := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(string(index), -1)
	require.Greater(t, len(named), 3)
	for _, m := range named {
		require.FileExists(t, filepath.Join(dir, m[1]))
	}
	require.NoError(t, fs.WalkDir(page.Files(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".js") {
			require.FileExists(t, filepath.Join(dir, "page", name))
		}
		return err
	}))
	for name, want := range map[string][]byte{wasmFile: given.core, "page/wasm_exec.js": given.goScript, resultFile: given.result} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestOneFileHasEverythingInside(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, single(&b, given))
	text := b.String()
	inside := func(id string) (s string) {
		m := regexp.MustCompile(`(?s)<script type="application/json" id="` + id + `">(.*?)</script>`).FindStringSubmatch(text)
		require.NotNil(t, m, id)
		require.NoError(t, json.Unmarshal([]byte(m[1]), &s))
		return s
	}
	wasm, err := base64.StdEncoding.DecodeString(inside("qwb-wasm"))
	require.NoError(t, err)
	require.Equal(t, given.core, wasm)
	require.True(t, strings.HasPrefix(inside("qwb-worker"), string(given.goScript)))
	require.Contains(t, inside("qwb-worker"), "core.qwbReady")
	policy := html.UnescapeString(regexp.MustCompile(`Content-Security-Policy" content="([^"]+)"`).FindStringSubmatch(text)[1])
	require.Contains(t, policy, "default-src 'none'")
	require.Contains(t, policy, "worker-src blob:")
	require.Contains(t, policy, "'wasm-unsafe-eval'")
	require.NotContains(t, policy, "connect-src")
	require.NotContains(t, policy, "'unsafe-inline'")
}

// TestThePageHasTheReleaseOfTheCommandLine: exported files name it, and have to be the same.
func TestThePageHasTheReleaseOfTheCommandLine(t *testing.T) {
	release := func(file string) string {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		return regexp.MustCompile(`(?m)^\s*(?:var )?version\s*= "([^"]+)"`).FindStringSubmatch(string(src))[1]
	}
	require.Equal(t, release("../qwb/version.go"), release("wasm/main.go"))
}

// TestTheDemoHasAResult: the page opens on a plan whose accuracy, operators and verification are known.
func TestTheDemoHasAResult(t *testing.T) {
	b, err := resultOf(t.Context(), "test")
	require.NoError(t, err)
	var v reports.View
	require.NoError(t, json.Unmarshal(b, &v))
	require.Greater(t, *v.Verdict.Quantized, 0.9)
	require.Equal(t, 1000, v.Verdict.Scored)
	require.NotEmpty(t, v.Report.Layerwise)
	require.NotEmpty(t, v.Picture.Nodes)
}
