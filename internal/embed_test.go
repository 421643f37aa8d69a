package internal_test

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// The module in examples/embed is one of somebody else: it uses stable packages alone, and its tests pass.
func TestEmbed(t *testing.T) {
	files, err := filepath.Glob("../examples/embed/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, i := range f.Imports {
			p, _ := strconv.Unquote(i.Path.Value)
			if local, ours := strings.CutPrefix(p, "qwb/"); ours {
				require.True(t, slices.Contains(stable, local), "%s imports %s, which is not stable", file, p)
			}
		}
	}
	longtest.Need(t, "building another module")
	c := exec.Command("go", "test", "./...")
	c.Dir = "../examples/embed"
	c.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -buildvcs=false", "GOPROXY=off", "GOWORK=off")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
