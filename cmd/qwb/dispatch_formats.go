package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"qwb"
)

// mixFlags are the flags of a search in several formats.
type mixFlags struct {
	formats  string
	minimize string
	device   string
	most     [3]string // of what a plan may cost, in the order of qwb.Costings
}

func (m *mixFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&m.formats, "formats", "", "with --auto: formats that operators may get beside their own (fp32): fp32, fp16, int16, int8, int4, weights=int4-sym-g32, ...")
	c.Flags().StringVar(&m.minimize, "minimize", "", "with --auto: the cost to make small: macs, bytes or time")
	c.Flags().StringVar(&m.device, "device", "", "device file from which time is predicted (YAML; qwb bench device writes one)")
	for i, x := range qwb.Costings {
		example := map[string]string{"macs": "200M", "bytes": "1.5M", "time": "2ms"}[x.Name]
		c.Flags().StringVar(&m.most[i], "max-"+x.Name, "", fmt.Sprintf("with --auto: the most %s that a plan may cost, for example %s, or 80%% of the plan as it is; the error is made small", x.Name, example))
	}
}

// read fills in the options of a search.
func (m *mixFlags) read(c *cobra.Command, auto bool, o *qwb.DispatchOptions) (err error) {
	if m.formats != "" {
		o.Formats = strings.Split(m.formats, ",")
	}
	o.Costing.What, o.DeviceFile = m.minimize, m.device
	for i, x := range qwb.Costings {
		if m.most[i] == "" {
			continue
		}
		if o.MaxCost != nil || o.Budget != nil {
			return usagef("one budget at a time: on the error (--max-nsr, --min-cosine or --max-drop) or on the cost (--max-macs, --max-bytes or --max-time)")
		}
		if m.minimize != "" {
			return usagef("--minimize is for a budget on the error; with --max-%s the error is made small", x.Name)
		}
		if o.MaxCost, err = qwb.ParseCostLimit(m.most[i], x.Name == "time"); err != nil {
			return usagef("--max-%s %s: %w", x.Name, m.most[i], err)
		}
		o.Costing.What = x.Name
	}
	var without string
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == "formats" || f.Name == "minimize" || f.Name == "device" || strings.HasPrefix(f.Name, "max-") && o.MaxCost != nil {
			without = f.Name
		}
	})
	if without != "" && !auto {
		return usagef("--%s needs --auto", without)
	}
	return nil
}
