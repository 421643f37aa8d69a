package export

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/file"
	"qwb/internal/filetest"
)

// TestOutputIsAllOrNone: several files of one export, whatever step fails, also on a file system without hard links.
func TestOutputIsAllOrNone(t *testing.T) {
	before := map[string]string{"m.param": "old param", "m.bin": "old bin"}
	after := map[string]string{"m.param": "new param", "m.bin": "new bin", "more/m.json": "new json"}
	filetest.AllOrNone(t, before, after, func(dir string, n file.Names) error {
		f := Format{Ext: ".param"}
		out := f.NewOutput(filepath.Join(dir, "m.param"), nil)
		out.stage.Names = n
		defer out.Discard()
		for _, name := range []string{"m.bin", "more/m.json", "m.param"} {
			require.NoError(t, out.Write(name, func(w io.Writer) error { _, err := io.WriteString(w, after[name]); return err }))
		}
		_, err := out.Commit()
		return err
	})
}
