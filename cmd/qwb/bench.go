package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"qwb"
	benchcmd "qwb/internal/bench/cmd"
	"qwb/internal/gpu"
)

func newBench(e *env) *cobra.Command {
	return benchcmd.New(&benchcmd.Host{Stdout: e.stdout, Raw: raw(e.stdout), Project: e.project, Flags: func() benchcmd.Flags { return &benchFlags{} },
		Backend: backendNamed, OpenDevice: gpu.Open, Floats: floatBackends, PeakMemory: peakRSS})
}

// benchFlags are the shared flags of one command below bench.
type benchFlags struct{ flags }

func (f *benchFlags) AddData(c *cobra.Command, samples int) {
	f.addData(c)
	c.Flags().Lookup("samples").DefValue = strconv.Itoa(samples)
	f.samples = samples
}

func (f *benchFlags) AddRun(c *cobra.Command)    { f.addRun(c) }
func (f *benchFlags) AddMemory(c *cobra.Command) { f.addMemory(c) }
func (f *benchFlags) AddJSON(c *cobra.Command)   { f.addJSON(c) }
func (f *benchFlags) Check() error               { return f.check() }
func (f *benchFlags) Data() qwb.DataOptions      { return f.dataOptions() }
func (f *benchFlags) Workers() int               { return f.workers() }
func (f *benchFlags) JSON() bool                 { return f.json }

func (f *benchFlags) Memory() int64 {
	n, _ := f.memory() // checked before
	return n
}
