package page

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// compiler finds TypeScript: on the path, or where tools.sh puts it.
func compiler(t *testing.T) string {
	t.Helper()
	cache, _ := os.UserCacheDir()
	for _, name := range []string{"tsc", os.Getenv("QWB_NODE_TOOLS") + "/node_modules/.bin/tsc",
		cache + "/qwb-node-tools/node_modules/.bin/tsc"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no TypeScript here: the names of keys were not checked (reports/page/tools.sh installs it)")
	return ""
}

// TestKeysAreThoseOfTheCore holds the modules to the types of what the core sends, and to one another.
func TestKeysAreThoseOfTheCore(t *testing.T) {
	said, err := exec.Command(compiler(t), "-p", ".").CombinedOutput()
	require.NoErrorf(t, err, "%s", said)
}

// TestAWrongKeyIsFound: in results of jobs, answers of methods, and options of jobs.
func TestAWrongKeyIsFound(t *testing.T) {
	tsc, dir := compiler(t), t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(".")))
	wrong := []struct{ file, old, now string }{
		{"views/export.js", "v.read_back", "v.readback"},
		{"views/sweep.js", "x.constant_bytes", "x.constants"},
		{"views/range.js", "r.shared", "r.sharing"},
		{"views/drop.js", `app.run("analyze", { samples: 32 })`, `app.run("analyze", { sample: 32 })`},
		{"data.js", "judged.nsr_error", "judged.error"},
	}
	for _, w := range wrong {
		name := filepath.Join(dir, filepath.FromSlash(w.file))
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Contains(t, string(text), w.old)
		require.NoError(t, os.WriteFile(name, []byte(strings.Replace(string(text), w.old, w.now, 1)), 0o666))
	}
	said, err := exec.Command(tsc, "-p", dir).CombinedOutput()
	require.Error(t, err)
	for _, w := range wrong {
		assert.Contains(t, string(said), w.file+"(")
	}
}
