package main

import (
	"github.com/spf13/cobra"

	"qwb"
	benchcmd "qwb/internal/bench/cmd"
	"qwb/internal/gpu"
	"qwb/internal/options"
)

func newBench(e *env) *cobra.Command {
	return benchcmd.New(&benchcmd.Host{Stdout: e.stdout, Raw: raw(e.stdout), Project: e.project, Flags: func() benchcmd.Flags { return &benchFlags{} },
		Backend: backendNamed, OpenDevice: gpu.Open, Floats: options.FloatBackends, PeakMemory: peakRSS})
}

// benchFlags are the shared flags of one command below bench.
type benchFlags struct {
	table   options.Table
	data    qwb.DataOptions
	threads int
	memory  int64
	json    bool
}

func (f *benchFlags) add(c *cobra.Command, t options.Table) {
	f.table = append(f.table, t...)
	addFlags(c, t)
}

func (f *benchFlags) AddData(c *cobra.Command, samples int) {
	t := options.Data(&f.data)
	t.Find("samples").Default = samples
	f.add(c, t)
}

func (f *benchFlags) AddRun(c *cobra.Command)    { f.add(c, options.Threads(&f.threads, &f.data.Threads)) }
func (f *benchFlags) AddMemory(c *cobra.Command) { f.add(c, options.Memory(&f.memory)) }
func (f *benchFlags) AddJSON(c *cobra.Command)   { f.add(c, options.JSON(&f.json)) }
func (f *benchFlags) Check() error               { return f.table.Check() }
func (f *benchFlags) Data() qwb.DataOptions      { return f.data }
func (f *benchFlags) Workers() int               { return f.threads }
func (f *benchFlags) JSON() bool                 { return f.json }
func (f *benchFlags) Memory() int64              { return f.memory }
