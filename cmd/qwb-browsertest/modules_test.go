package browsertest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestModules runs the tests of the page's modules (reports/page/tests), which need no server and no network.
func TestModules(t *testing.T) {
	t.Parallel()
	const folder = "../../reports/page"
	files, err := filepath.Glob(folder + "/tests/*.js")
	require.NoError(t, err)
	server := httptest.NewServer(http.FileServerFS(os.DirFS(folder)))
	defer server.Close()
	p := open(t, server.URL+"/icon.svg", desk)
	p.allow("/favicon.ico")
	imports := ""
	for _, name := range files {
		imports += `await import("` + server.URL + "/tests/" + path.Base(filepath.ToSlash(name)) + `"); `
	}
	var done []struct{ Sentence, Wrong string }
	p.js(`(async () => { `+imports+`return (await import("`+server.URL+`/tests/unit.js")).run(); })()`, &done)
	require.Greater(t, len(done), len(files))
	for _, d := range done {
		assert.Empty(t, d.Wrong, d.Sentence)
	}
}
