package target

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The document has a row for each built-in target, in their order.
func TestTheDocumentSaysWhoseArithmetic(t *testing.T) {
	doc, err := os.ReadFile("../../docs/engines.md")
	require.NoError(t, err)
	var rows strings.Builder
	for _, x := range append(append([]*Target{}, All...), Foreign...) {
		e := EngineOf(x.Name)
		name, compared, unread := e.Name, "none", ""
		if name == "" {
			name = "nobody in particular"
		}
		var list []string
		for _, profile := range e.Compared {
			if profile == x.Name || !IsBuiltin(profile) { // not the other chips'
				list = append(list, "`"+profile+"`")
			}
		}
		if len(list) > 0 {
			compared = strings.Join(list, ", ")
		}
		if e.Unread != "" {
			unread = "yes"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", x.Name, name, compared, unread)
	}
	require.Contains(t, string(doc), rows.String())
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
