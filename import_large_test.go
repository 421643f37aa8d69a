package qwb

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/graph/onnx"
	"qwb/internal/work/bring"
)

// TestLargeImportIsAllOrNone: a float model with its weights in a file of their own, and the plan. Where the plan cannot get its name, the
// model and the weights of an earlier import stay, and nothing is left beside them.
func TestLargeImportIsAllOrNone(t *testing.T) {
	stores(t, func(t *testing.T, p *Project) {
		if p.Store != (OS{}) {
			t.Skip("only files of the system can be so large")
		}
		calibrateOn(t, p, "m")
		_, _, err := p.Export(context.Background(), ExportOptions{Out: "q.onnx", Threads: 1})
		require.NoError(t, err)
		require.NoError(t, os.Mkdir("i", 0o755))
		q := &Project{Model: "q.onnx", Plan: filepath.Join("i", "q"+PlanSuffix), Store: p.Store, Catalog: p.Catalog}
		files := func() map[string]string {
			held := map[string]string{}
			entries, err := os.ReadDir("i")
			require.NoError(t, err)
			for _, e := range entries {
				b, _ := os.ReadFile(filepath.Join("i", e.Name()))
				held[e.Name()] = string(b)
			}
			return held
		}

		// A folder has the plan's name: the import fails at the end.
		for _, was := range []string{"", "of an earlier import"} {
			require.NoError(t, os.Mkdir(q.Plan, 0o755))
			if was != "" {
				for _, name := range []string{"q.float.onnx", "q.float.onnx.data"} {
					require.NoError(t, os.WriteFile(filepath.Join("i", name), []byte(was), 0o600))
				}
			}
			before := files()
			_, err = bring.Import(context.Background(), q.job(), ImportOptions{Threads: 1}, 1)
			require.Error(t, err)
			require.Equal(t, before, files())
			require.NoError(t, os.Remove(q.Plan))
		}

		r, err := bring.Import(context.Background(), q.job(), ImportOptions{Threads: 1}, 1)
		require.NoError(t, err)
		require.Len(t, files(), 3)
		m, _, err := onnx.Open(r.Model)
		require.NoError(t, err)
		defer m.Close()
		opened, _, err := q.OpenPlan()
		require.NoError(t, err)
		opened.Close()
	})
}
