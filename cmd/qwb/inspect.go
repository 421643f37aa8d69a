package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/passes"
	"qwb/reports"
)

func newInspect(e *env) *cobra.Command {
	var f flags
	var nodes, roof bool
	c := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show what is in a model: operators, shapes, work, what each platform would quantize",
		Args:  exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			r, err := e.inspect(args[0])
			if err != nil {
				return err
			}
			if roof {
				measured, err := roofline(c.Context(), max(f.threads, 1))
				if err != nil {
					return err
				}
				r.SetRoofline(measured)
			}
			if f.json {
				return e.printJSON(r)
			}
			return reports.InspectText(e.stdout, r, nodes)
		},
	}
	c.Flags().BoolVar(&nodes, "nodes", false, "list every node too")
	c.Flags().BoolVar(&roof, "roofline", false, "measure what this machine can do at most, and show what bounds each node and what INT8 can gain there")
	c.Flags().IntVar(&f.threads, "threads", 1, "number of threads that --roofline measures")
	f.addJSON(c)
	return c
}

// mostFaults is how many nodes that cannot be computed inspect names.
const mostFaults = 8

func (e *env) inspect(path string) (*analysis.Inspection, error) {
	m, err := e.openModel(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	for i, err := range m.faults {
		if i == mostFaults {
			e.warn("%s: %d nodes more cannot be computed", path, len(m.faults)-i)
			break
		}
		e.warn("%s: %v", path, err)
	}
	normal := m.loaded.Clone()
	if _, err := passes.Run(normal, passes.Normalize); err != nil {
		e.warn("%s: what platforms would quantize is not known: %v", path, err)
		normal = nil
	} else {
		graph.InferShapes(normal)
	}
	r, err := analysis.Inspect(path, m.Graph, normal)
	if err != nil {
		return nil, fmt.Errorf("inspect: %s: %w", path, err)
	}
	return r, nil
}
