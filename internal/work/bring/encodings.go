package bring

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"qwb/export/encodings"
	"qwb/graph/onnx"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/quantizer/target"
)

// maxEncodings bounds a file of encodings.
const maxEncodings = 1 << 30

// pairUp makes a quantized model of a float one and its encodings, which takes its place: X.qdq.onnx beside the plan. Without a platform it
// is for AIMET.
func pairUp(j *open.Job, o *ImportOptions) error {
	b, err := store.ReadFile(j.Files(), o.Encodings, maxEncodings)
	if err != nil {
		return err
	}
	m, err := j.OpenModel(j.Model)
	if err != nil {
		return err
	}
	defer m.Close()
	if open.Unquantized(m) != nil {
		return fault.Usagef("--encodings: %s is quantized already; name the float model", j.Model)
	}
	g := m.Graph.Clone()
	p, err := encodings.Pairs(g, b)
	if err != nil {
		return &fault.FileError{Stage: "import", File: o.Encodings, Err: err}
	}
	if p.Tensors == 0 {
		return &fault.FileError{Stage: "import", File: o.Encodings, Err: fault.Checkf("none of its encodings is of a tensor of %s", j.Model)}
	}
	if len(p.Unknown) > 0 {
		j.Warn("%s: %s of no tensor of %s, first %q", o.Encodings, plain.Count(len(p.Unknown), "encoding"), j.Model, p.Unknown[0])
	}
	j.Note("%s: %s with a pair, %d in front of an activation, %d in float, biases with 32 bits: %d", o.Encodings,
		plain.Count(p.Tensors, "tensor"), p.Fused, p.Floats, p.Biases)
	quantized, name := m.WithGraph(g), strings.TrimSuffix(j.Plan, store.PlanSuffix)+pairedSuffix
	if j.SameFile(j.Model, name) {
		return fmt.Errorf("import: the model with pairs would replace %s: name another plan with -o", j.Model)
	}
	quantized.Metadata = append(slices.Clone(m.Metadata), onnx.KeyValue{Key: planning.EncodingsKey,
		Value: fmt.Sprintf("%x", sha256.Sum256(b))})
	s := j.Files().Stage()
	defer s.Discard()
	if err := s.Add(name, quantized.Write); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if err := s.Commit(); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if o.Platform == "" {
		o.Platform = target.AIMET.Name
	}
	next := *j.Project
	next.Model, j.Project = name, &next
	return nil
}
