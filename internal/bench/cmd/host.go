package cmd

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
	"qwb/kernels/cuda"
	"qwb/quantizer/program"
)

// Host is the program that has the commands: where results go, and what it offers.
type Host struct {
	Stdout  io.Writer                             // of text
	Raw     io.Writer                             // of JSON: what Stdout writes to
	Project func(model, plan string) *qwb.Project // of a model, a plan, or neither
	// Takes gives a command the options of a table as flags, which are checked before it runs.
	Takes      func(c *cobra.Command, o options.Command) *cobra.Command
	Backend    func(name string) (program.Backend, error) // that runs integers, and is here
	OpenDevice func(backend string) (*cuda.Device, error) // cuda or ptx
	PeakMemory func() int64                               // of the process so far, in bytes
}

// printJSON writes v as one indented JSON object.
func (e *Host) printJSON(v any) error {
	enc := json.NewEncoder(e.Raw)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// progress is told how far a piece of work is.
func (e *Host) progress(what string, total int) (set func(done int), finish func()) {
	return e.Project("", "").Events.Progress(what, total)
}

// backends are the names of what runs integers.
func (e *Host) backends() (names []string) {
	for _, b := range e.Project("", "").Catalog.Backends {
		names = append(names, b.Name)
	}
	return names
}

// defaultBackend is the one behind the reference: the CPU's kernels.
func (e *Host) defaultBackend() string {
	list := e.backends()
	return list[min(1, len(list)-1)]
}

func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return qwb.Usagef("%s takes %s, not %d arguments", c.Name(), what, len(args))
		}
		return nil
	}
}
