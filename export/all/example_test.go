package all_test

// The example of docs/adding-an-exporter.md: all the code of a format, which tests export with.

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Table is a calibration table: the scale of every quantized tensor, and beside it the policies.
func Table() export.Format {
	return export.Format{
		Name: "table", Doc: "a table of scales, and a file with the policies beside it", Ext: ".table", From: export.Plan,
		Options: []export.Option{{Name: "digits", Kind: export.Whole, Min: 1, Default: "9", Doc: "digits of a scale"}},
		Check: func(in *export.Input) error {
			for _, id := range in.Model.Graph.Nodes() {
				for _, slot := range in.Set.Outputs(id) {
					if slot != tqc.NoSlot && in.Set.Slot(slot).Config.Policy.Has(tqc.PerChannel) {
						return in.Model.Graph.ErrorAt("export table", id, fmt.Errorf("a tensor with a scale per channel"))
					}
				}
			}
			return nil
		},
		Write: writeTable,
	}
}

func writeTable(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	digits := int(in.Options.Whole("digits"))
	var scales, policies strings.Builder
	for i := range in.Set.NumSlots() {
		id := tqc.SlotID(i)
		slot := in.Set.Slot(id)
		if slot.Weight || slot.State() != tqc.Activated {
			continue
		}
		name := in.Model.Graph.Value(slot.Value).Name
		fmt.Fprintf(&scales, "%s\t%.*g\n", name, digits, in.Set.Params(id).Scale[0])
		fmt.Fprintf(&policies, "%s\t%s\n", name, slot.Config.Policy)
	}
	for _, f := range [][2]string{{out.Name(), scales.String()}, {out.Name() + ".policies", policies.String()}} {
		err := out.Write(f[0], func(w io.Writer) error {
			_, err := io.WriteString(w, f[1])
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// The example works.
func TestExample(t *testing.T) {
	g, set, _ := lowertest.Configured(t, lowertest.Networks["residual"], "onnxruntime")
	f := Table()
	values, err := f.Resolve(map[string]string{"digits": "3"})
	require.NoError(t, err)
	in := &export.Input{Options: values, Set: set, Target: &target.ONNXRuntime, Model: modelOf(g)}
	require.NoError(t, f.Check(in))
	path := filepath.Join(t.TempDir(), "m.table")
	out := f.NewOutput(path, nil)
	defer out.Discard()
	_, err = f.Write(context.Background(), in, out)
	require.NoError(t, err)
	files, err := out.Commit()
	require.NoError(t, err)
	require.Equal(t, path, files[0].Path)
	require.Equal(t, path+".policies", files[1].Path)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `^x\t0\.0\d{2,4}\n`, string(text))
}

func modelOf(g *graph.Graph) *onnx.Model { return &onnx.Model{Graph: g} }
