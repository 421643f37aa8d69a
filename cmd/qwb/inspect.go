package main

import (
	"errors"

	"github.com/spf13/cobra"

	"qwb"
	benchcmd "qwb/internal/bench/cmd"
	"qwb/reports"
	"qwb/reports/png"
)

func newInspect(e *env) *cobra.Command {
	var f flags
	var nodes, roof bool
	var picture string
	c := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show the contents of a model: operators, shapes, work, what each target would quantize",
		Args:  exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if picture != "" && !roof {
				return usagef("--plot needs --roofline")
			}
			r, _, err := e.project(args[0], "").Inspect(c.Context())
			if err != nil {
				return err
			}
			if roof {
				measured, err := benchcmd.Roofline(c.Context(), max(f.threads, 1))
				if err != nil {
					return err
				}
				r.SetRoofline(measured)
			}
			if picture != "" {
				if err := writePicture(picture, png.Roofline(r)); err != nil {
					return err
				}
			}
			if f.json {
				return e.printJSON(r)
			}
			return reports.InspectText(e.stdout, r, nodes)
		},
	}
	c.Flags().BoolVar(&nodes, "nodes", false, "also list every node")
	c.Flags().BoolVar(&roof, "roofline", false, "measure the peak speed of this machine; show for each node if compute or memory limits it, and the possible speedup of INT8")
	c.Flags().StringVar(&picture, "plot", "", "with --roofline: draw the operators below what this machine can do at most")
	c.Flags().IntVar(&f.threads, "threads", 1, "number of threads for --roofline")
	f.addJSON(c)
	return c
}

// writePicture writes one plot to a file.
func writePicture(file string, im *png.Image) error {
	if im == nil {
		return errors.New("there is nothing to draw: no peak was measured")
	}
	s := qwb.OS{}.Stage()
	defer s.Discard()
	if err := s.Add(file, im.Write); err != nil {
		return err
	}
	return s.Commit()
}
