package target

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The document has every built-in target in one of its three lists, in their order; QWB_REWRITE=1 writes them.
func TestTheDocumentSaysWhoseArithmetic(t *testing.T) {
	const file, head, end = "../../docs/engines.md", "| | targets |\n|---|---|\n", "\n## Faults of engines"
	doc, err := os.ReadFile(file)
	require.NoError(t, err)
	lists := map[string][]string{}
	for _, x := range append(append([]*Target{}, All...), Foreign...) {
		e, list, name := EngineOf(x.Name), "compared", "`"+x.Name+"`"
		switch {
		case e.Unread != "":
			list = "experimental"
		case len(e.Compared) == 0:
			list = "not compared"
		case !e.Knows(x.Name): // no target that brings its own arithmetic
			name += " (`" + strings.Join(e.Compared, "`, `") + "`)"
		}
		lists[list] = append(lists[list], name)
	}
	want := head
	for _, list := range []string{"compared", "not compared", "experimental"} {
		want += "| " + list + " | " + strings.Join(lists[list], ", ") + " |\n"
	}
	before, rest, ok := strings.Cut(string(doc), head)
	require.True(t, ok)
	rows, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if os.Getenv("QWB_REWRITE") != "" {
		require.NoError(t, os.WriteFile(file, []byte(before+want+end+after), 0o644))
		return
	}
	require.Equal(t, want, head+rows)
}

// A row is of built-in targets, and of no two engines; an own target is unknown whatever its profile is.
func TestEngineOf(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range evidence {
		for _, name := range row.targets {
			require.True(t, IsBuiltin(name), name)
			require.False(t, seen[name], name)
			seen[name] = true
		}
	}
	e := EngineOf("mynpu")
	require.False(t, e.Knows("ort"))
	require.Contains(t, e.Says("ort"), "not known")
	for _, x := range All {
		e := EngineOf(x.Name)
		require.False(t, e.Knows("onnx"), x.Name)
		require.Equal(t, len(e.Compared) > 0, e.Knows(x.Profile), x.Name)
		require.False(t, e.Unread != "" && e.Knows(x.Profile), x.Name)
	}
	e = EngineOf("onnxruntime")
	require.Equal(t, "not compared with ONNX Runtime 1.32, which ort was", e.Says("tflite2"))
}
