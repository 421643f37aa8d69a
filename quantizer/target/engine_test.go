package target

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The document has every built-in target in one of its three lists, in their order.
func TestTheDocumentSaysWhoseArithmetic(t *testing.T) {
	doc, err := os.ReadFile("../../docs/engines.md")
	require.NoError(t, err)
	var compared, unknown, unread []string
	for _, x := range append(append([]*Target{}, All...), Foreign...) {
		e := EngineOf(x.Name)
		switch {
		case e.Unread != "":
			unread = append(unread, "`"+x.Name+"`")
		case len(e.Compared) == 0:
			unknown = append(unknown, "`"+x.Name+"`")
		case e.Knows(x.Name): // a target that brings its own arithmetic
			compared = append(compared, "`"+x.Name+"`")
		default:
			compared = append(compared, "`"+x.Name+"` (`"+strings.Join(e.Compared, "`, `")+"`)")
		}
	}
	text := strings.Join(strings.Fields(string(doc)), " ")
	for list, names := range map[string][]string{"Compared": compared, "Not compared": unknown, "Experimental": unread} {
		require.Contains(t, text, "**"+list+"**: "+strings.Join(names, ", ")+".")
	}
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
