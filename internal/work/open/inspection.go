package open

import (
	"context"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/passes"
	"qwb/internal/work/fault"
)

// mostFaults is how many nodes that cannot be computed inspect names.
const mostFaults = 8

func (j *Job) Inspect(ctx context.Context, path string) (*analysis.Inspection, error) {
	m, err := j.OpenModel(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, err := range m.Faults {
		if i == mostFaults {
			j.Warn("%s: %d more nodes cannot be computed", path, len(m.Faults)-i)
			break
		}
		j.Warn("%s: %v", path, err)
	}
	normal := m.Loaded.Clone()
	if _, err := passes.Run(ctx, normal, passes.Normalize); err != nil {
		j.Warn("%s: cannot say what targets would quantize: %v", path, err)
		normal = nil
	} else {
		graph.InferShapes(normal)
	}
	r, err := analysis.Inspect(path, m.Graph, normal, j.Catalog.Targets().All)
	if err != nil {
		return nil, &fault.FileError{Stage: "inspect", File: path, Err: err}
	}
	return r, nil
}
