package table

import (
	"io/fs"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/onnx"
)

// Open reads the model that a doctor is asked about, with inferred shapes, and the file beside it that ends in ext. The model has to be
// closed. Errors are those of reading either.
func Open(in *export.DoctorInput, ext string) (text []byte, m *onnx.Model, err error) {
	if text, err = fs.ReadFile(in.FS, export.Beside(in.Name, ext)); err != nil {
		return nil, nil, err
	}
	if m, err = in.Model(); err != nil {
		return nil, nil, err
	}
	graph.InferShapes(m.Graph)
	return text, m, nil
}
