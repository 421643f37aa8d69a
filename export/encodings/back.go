package encodings

import (
	"context"
	"fmt"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
)

// back reads the model and the encodings beside it.
func back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	version := in.Options.Text("encodings")
	linear := version == v200 || version == v210
	read := func(b []byte, _ *graph.Graph) ([]table.Entry, error) {
		x := &examination{}
		if err := x.read(b); err != nil {
			return nil, err
		}
		if x.version != version {
			return nil, fmt.Errorf("version %q, not %s", x.version, version)
		}
		return x.Entries, nil
	}
	return table.Back(in, out, []table.File{{Ext: suffix, Read: read}}, func(_ *table.Encoding, _ string, kind export.ItemKind) string {
		switch {
		case kind == export.Clamp:
			return "the lowest and the highest code"
		case kind == table.Axis && !linear:
			return "axes of scales"
		case kind == table.Ranges && version != v061:
			return "ranges beside scales"
		}
		return ""
	})
}
