package qwb

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/file"
	"qwb/internal/filetest"
)

// TestStageOfTheSystemIsAllOrNone: a plan, its .bak and its statistics, whatever step fails, also on a file system without hard links.
func TestStageOfTheSystemIsAllOrNone(t *testing.T) {
	before := map[string]string{"m.plan.json.bak": "older plan", "m.plan.json": "plan", "m.stats": "statistics"}
	after := map[string]string{"m.plan.json.bak": "plan", "m.plan.json": "new plan", "m.stats": "new statistics", "new/more": "more"}
	filetest.AllOrNone(t, before, after, func(dir string, n file.Names) error {
		stage := OS{}.Stage().(*osStage)
		stage.names = n
		defer stage.Discard()
		for _, name := range []string{"m.plan.json.bak", "new/more", "m.plan.json", "m.stats"} {
			require.NoError(t, stage.Add(filepath.Join(dir, name), func(w io.Writer) error { _, err := io.WriteString(w, after[name]); return err }))
		}
		return stage.Commit()
	})
}
