package main

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	benchcmd "qwb/internal/bench/cmd"
	"qwb/internal/options"
	"qwb/reports"
	"qwb/reports/png"
)

func newInspect(e *env) *cobra.Command {
	var nodes, roof, asJSON bool
	var picture, device, platform, data string
	var threads int
	return e.takes(&cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show the contents of a model: operators, shapes, work, what each target would quantize",
		Long: `Inspect shows what is in a model. With --platform it also says where each operator runs on that target: on integers, in float on
the target, on the host, nowhere (unsupported: the files of the target have no form for it, or the target has no float), or that nobody
knows; with the rule that decides it. Operators are those of the normal form, which calibrate quantizes; nothing runs. See docs/targets.md.`,
		Example: lines(
			"qwb inspect model.onnx",
			"qwb inspect model.onnx --nodes --roofline",
			"qwb inspect model.onnx --platform openvino_int8                  # which operator runs where, and why?"),
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			if picture != "" && !roof {
				return usagef("--plot needs --roofline")
			}
			if device != "" && !roof {
				return usagef("--device needs --roofline")
			}
			if data != "" && platform == "" {
				return usagef("--model-explorer needs --platform")
			}
			p := e.project(args[0], "")
			r, _, err := p.Inspect(c.Context())
			if err != nil {
				return err
			}
			if platform != "" {
				if r.Support, _, err = p.Support(c.Context(), platform); err != nil {
					return err
				}
			}
			if data != "" {
				write := func(w io.Writer) error { return reports.SupportData(w, r.Support) }
				if _, err := qwb.WriteFile(qwb.OS{}, data, write); err != nil {
					return err
				}
			}
			if roof {
				peaks := func() (analysis.Roofline, error) { return benchcmd.Roofline(c.Context(), max(threads, 1)) }
				if device != "" {
					peaks = func() (analysis.Roofline, error) { return benchcmd.RooflineOf(device) }
				}
				most, err := peaks()
				if err != nil {
					return err
				}
				r.SetRoofline(most)
			}
			if picture != "" {
				if err := writePicture(picture, png.Roofline(r)); err != nil {
					return err
				}
			}
			return e.print(asJSON, r, nil, func() error { return reports.InspectText(e.stdout, r, nodes) })
		},
	}, slices.Concat(options.Platform(e.catalog(), &platform, "say where each operator runs on this target: "+
		strings.Join(options.Platforms(e.catalog()), ", ")), options.Table{
		{Name: "model-explorer", At: &data, Help: "with --platform: write where operators run as node data of Model Explorer (JSON)"},
		{Name: "nodes", At: &nodes, Help: "also list every node"},
		{Name: "roofline", At: &roof,
			Help: "measure the peak speed of this machine; show for each node if compute or memory limits it, and the possible speedup of INT8"},
		{Name: "device", See: "formats.md#device-files", At: &device,
			Help: "with --roofline: the peak speed of the machine of this device file (YAML), instead of this machine's"},
		{Name: "plot", See: "reports.md#plots", At: &picture, Help: "with --roofline: draw the operators below what the machine can do at most"},
		{Name: "threads", At: &threads, Default: 1, Help: "number of threads for --roofline"},
	}, options.JSON(&asJSON)))
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
