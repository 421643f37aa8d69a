//go:build unix

package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestServe: the first line is an address that shows the page, methods want its token, and an interrupt ends it without an error.
func TestServe(t *testing.T) {
	calibrated(t)
	c := process(0, "serve", "m.plan.json", "--no-browser")
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	defer func() { _ = c.Process.Kill() }() // it is over by then, unless the test failed
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	url := strings.TrimSpace(line)
	base, token, ok := strings.Cut(url, "/?token=")
	require.True(t, ok, url)
	get := func(path, token string) (int, string) {
		r, err := http.NewRequest(http.MethodGet, base+path, nil)
		require.NoError(t, err)
		r.Header.Set("X-Qwb-Token", token)
		a, err := (&http.Client{Timeout: 10 * time.Second}).Do(r)
		require.NoError(t, err)
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		require.NoError(t, err)
		return a.StatusCode, string(b)
	}
	status, page := get(strings.TrimPrefix(url, base), "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, page, "<!doctype html>")
	for _, src := range []string{"page/page.css", "page/client.js"} {
		status, _ = get("/"+src, "")
		assert.Equal(t, http.StatusOK, status, src)
	}
	status, _ = get("/api/state", "")
	assert.Equal(t, http.StatusForbidden, status)
	status, state := get("/api/state", token)
	assert.Equal(t, http.StatusOK, status, state)
	assert.Contains(t, state, `"plan":"m.plan.json"`)

	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait())
}

// TestServeOnlyWhatItIsFor: another kind of file, or one outside of the folders, is refused at once.
func TestServeOnlyWhatItIsFor(t *testing.T) {
	calibrated(t)
	require.NoError(t, os.Mkdir("elsewhere", 0o755))
	fails(t, exitFailed, `m\.stats.*statistics`, "serve", "m.stats", "--no-browser")
	fails(t, exitFailed, `nothing\.onnx.*no such file`, "serve", "nothing.onnx", "--no-browser")
	outside := filepath.Join(t.TempDir(), "names.txt")
	require.NoError(t, os.WriteFile(outside, []byte("cat\ndog\n"), 0o600))
	fails(t, exitFailed, `names\.txt lies in no folder`, "serve", "m.plan.json", "--no-browser", "--classes", outside)
	require.NoError(t, os.WriteFile("bad.json", []byte(`{"x": "cat"}`), 0o600))
	fails(t, exitUsage, `bad\.json: "x" is no number of a class`, "serve", "m.plan.json", "--no-browser", "--classes", "bad.json")
	fails(t, exitFailed, `none.*no such file`, "serve", "m.plan.json", "--root", "none", "--no-browser")
}
