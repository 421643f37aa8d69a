package main

import (
	"github.com/spf13/cobra"

	benchcmd "qwb/internal/bench/cmd"
	"qwb/internal/gpu"
)

func newBench(e *env) *cobra.Command {
	return benchcmd.New(&benchcmd.Host{Stdout: e.stdout, Raw: raw(e.stdout), Project: e.project, Takes: e.takes, Backend: backendNamed,
		OpenDevice: gpu.Open, PeakMemory: peakRSS})
}
