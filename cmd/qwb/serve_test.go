//go:build unix

package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
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
	c, token, get := started(t, "m.plan.json")
	status, page := get("/?token="+token, "")
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

// started starts qwb serve, and returns it, its token and what asks it for a path.
func started(t *testing.T, args ...string) (c *exec.Cmd, token string, get func(path, token string) (status int, text string)) {
	t.Helper()
	c = process(0, append([]string{"serve", "--no-browser"}, args...)...)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() }) // it is over by then, unless the test failed
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	url := strings.TrimSpace(line)
	base, token, ok := strings.Cut(url, "/?token=")
	require.True(t, ok, url)
	return c, token, func(path, token string) (int, string) {
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
}

// TestServeReadsWhatItIsToldOf: the page reads model and samples of the plan that is named on the command line and what its options name,
// wherever they lie, and nothing beside them.
func TestServeReadsWhatItIsToldOf(t *testing.T) {
	calibrated(t)
	for _, dir := range []string{"plans", "names"} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	for _, name := range []string{"names/classes.txt", "names/secret.txt", "other.txt"} {
		require.NoError(t, os.WriteFile(name, []byte("cat\ndog\n"), 0o600))
	}
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "-o", "plans/m.plan.json")
	there, err := filepath.Abs(".")
	require.NoError(t, err)
	t.Chdir("plans")
	c := process(0, "serve", "m.plan.json", "--no-browser", "--classes", "../names/classes.txt")
	said, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "nothing is written there: ../m.onnx, ../data")
	require.NoError(t, c.Process.Kill())
	_ = c.Wait() // which says that it was killed

	_, token, get := started(t, "m.plan.json", "--classes", "../names/classes.txt")
	status, state := get("/api/state", token)
	require.Equal(t, http.StatusOK, status, state)
	require.Contains(t, state, `"outside":[],"outside_command":""`)
	require.Contains(t, state, `"dog"`)
	status, view := get("/api/view", token)
	require.Equal(t, http.StatusOK, status, view)
	for name, want := range map[string]int{"../m.onnx": http.StatusOK, "../names/secret.txt": http.StatusForbidden,
		there + "/other.txt": http.StatusForbidden} {
		status, _ := get("/api/download?file="+name, token)
		require.Equal(t, want, status, name)
	}
}

// TestServeOnlyWhatItIsFor: another kind of file, or one outside of the folders, is refused at once.
func TestServeOnlyWhatItIsFor(t *testing.T) {
	calibrated(t)
	require.NoError(t, os.Mkdir("elsewhere", 0o755))
	fails(t, exitFailed, `m\.stats.*statistics`, "serve", "m.stats", "--no-browser")
	fails(t, exitFailed, `nothing\.onnx.*no such file`, "serve", "nothing.onnx", "--no-browser")
	require.NoError(t, os.WriteFile("bad.json", []byte(`{"x": "cat"}`), 0o600))
	fails(t, exitUsage, `bad\.json: "x" is no number of a class`, "serve", "m.plan.json", "--no-browser", "--classes", "bad.json")
	fails(t, exitFailed, `none.*no such file`, "serve", "m.plan.json", "--root", "none", "--no-browser")
}
