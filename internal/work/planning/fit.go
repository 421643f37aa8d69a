package planning

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/graph/onnx"
	"qwb/internal/work/open"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// PlanKey is the key of a file's metadata under which export names the plan.
const PlanKey = "qwb.plan"

// EncodingsKey is that under which import keeps the hash of the encodings that it made a file's pairs of.
const EncodingsKey = "qwb.encodings"

// ReadQuantized takes the graph of a quantized file apart. Activations that other tools leave to the quantizers are put back.
func ReadQuantized(ctx context.Context, m *open.Model) (*qdq.Quantized, error) {
	q, err := qdq.Read(ctx, m.Graph)
	own := func(kv onnx.KeyValue) bool { return kv.Key == PlanKey || kv.Key == EncodingsKey }
	if err == nil && !slices.ContainsFunc(m.Metadata, own) {
		err = q.PutBack()
	}
	return q, err
}

// Fitting configures for the platform asked for, or for the first likely one that would take what is exported again. What the
// platform asked for would refuse is a warning.
func Fitting(m *open.Model, q *qdq.Quantized, c target.Catalog, forced *target.Target) (*qdq.Imported, error) {
	list := q.Platforms(c)
	if m.Lite {
		name := target.TFLite.Name
		switch {
		case q.Wide():
			name = target.TFLite16x8.Name
		case q.RunTime(): // the target that has such
			name = target.TFLiteInt8.Name
		}
		if t, err := c.Find(name); err == nil {
			list = append([]*target.Target{t}, list...)
		}
	}
	if forced != nil {
		list = []*target.Target{forced}
		q.IntegerBiases = true
	}
	for i, t := range list {
		im, err := q.Configure(t)
		if err != nil {
			return nil, err
		}
		why := refusal(m, im)
		switch {
		case why == nil:
			return im, nil
		case i == len(list)-1:
			im.Warnings = append(im.Warnings, tqc.Warning{Text: fmt.Sprintf("%s does not take this as it is: %v", t.Name, why)})
			return im, nil
		}
	}
	return nil, errors.New("none of the platforms known here takes a file that does not say what it is for: name one with --platform")
}

// refusal says why the platform of an imported graph would not take its export.
func refusal(m *open.Model, im *qdq.Imported) error {
	findings := refused(m, im.Graph, im.Set, im.Target)
	switch {
	case len(findings) == 0:
		return nil
	case findings[0].Rule == "export":
		return errors.New(findings[0].Text)
	}
	return fmt.Errorf("%d findings, the first is %s", len(findings), findings[0])
}
