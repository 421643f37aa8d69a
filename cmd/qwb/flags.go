package main

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"qwb"
	"qwb/graph/exec"
	"qwb/internal/options"
	"qwb/internal/shard"
)

// takes gives a command its options as flags. They are checked, each by itself, before it does anything.
func (e *env) takes(c *cobra.Command, o options.Command) *cobra.Command {
	t := o.Table(e.catalog())
	if e.tables == nil {
		e.tables = map[*cobra.Command]options.Table{}
	}
	e.tables[c] = t
	addFlags(c, t)
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := t.Check(); err != nil {
			return err
		}
		if n := t.Memory(); n > 0 && c.Name() != "serve" { // which bounds its jobs
			defer bound(c, n)()
		}
		if cut := t.Part(); cut != (options.Cut{}) && shard.In(c.Context()) == nil {
			return e.part(c, args, cut, run)
		}
		return run(c, args)
	}
	return c
}

// bound lets a command take so many bytes of memory in all: what needs more is refused, and the collector works harder to stay below.
// It returns what ends that.
func bound(c *cobra.Command, bytes int64) (end func()) {
	const process, least = 40 << 20, 64 << 20 // what is not the collector's, and what it gets in any case
	c.SetContext(exec.WithMemory(c.Context(), bytes))
	old := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(old, max(bytes-process, least)))
	return func() { debug.SetMemoryLimit(old) }
}

// addFlags adds a flag for each row.
func addFlags(c *cobra.Command, t options.Table) {
	f := c.Flags()
	for i := range t {
		o := &t[i]
		switch at := o.At.(type) {
		case *bool:
			f.BoolVarP(at, o.Name, o.Short, given[bool](o), o.Help)
		case *string:
			f.StringVarP(at, o.Name, o.Short, given[string](o), o.Help)
		case *int:
			f.IntVarP(at, o.Name, o.Short, given[int](o), o.Help)
		case *uint64:
			f.Uint64VarP(at, o.Name, o.Short, given[uint64](o), o.Help)
		case *float64:
			f.Float64VarP(at, o.Name, o.Short, given[float64](o), o.Help)
		case *time.Duration:
			f.DurationVarP(at, o.Name, o.Short, given[time.Duration](o), o.Help)
		case *[]int:
			f.IntSliceVarP(at, o.Name, o.Short, given[[]int](o), o.Help)
		case *[]string:
			f.StringArrayVarP(at, o.Name, o.Short, nil, o.Help)
		case *options.List:
			f.StringSliceVarP((*[]string)(at), o.Name, o.Short, nil, o.Help)
		case **int:
			f.VarP(&optional[int]{at, given[int](o), parseInt}, o.Name, o.Short, o.Help)
		case **float64:
			f.VarP(&optional[float64]{at, given[float64](o), parseFloat}, o.Name, o.Short, o.Help)
		case options.Value:
			f.VarP(at, o.Name, o.Short, o.Help)
		default:
			panic(fmt.Sprintf("--%s: a flag cannot be a %T", o.Name, at))
		}
		if o.For == options.Checkpoints {
			underHeading(c, helpLanguage, o.Name)
		}
	}
}

// given is the default of a row.
func given[T any](o *options.Option) (v T) {
	if o.Default != nil {
		v = o.Default.(T)
	}
	return v
}

// optional is a flag whose place is nil unless it is given; help shows start.
type optional[T int | float64] struct {
	at    **T
	start T
	parse func(string) (T, error)
}

func (v *optional[T]) Type() string { return fmt.Sprintf("%T", v.start) }

func (v *optional[T]) String() string {
	if v.at == nil || *v.at == nil { // pflag asks a zero value too
		return fmt.Sprint(v.start)
	}
	return fmt.Sprint(**v.at)
}

func (v *optional[T]) Set(text string) error {
	x, err := v.parse(text)
	if err == nil {
		*v.at = &x
	}
	return err
}

func parseInt(text string) (int, error) {
	n, err := strconv.ParseInt(text, 0, 64)
	return int(n), err
}

func parseFloat(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

// networksOnly refuses flags that are for language models, checkpointsOnly those that are not.
func (e *env) networksOnly(c *cobra.Command) error {
	return e.refuse(c, options.Checkpoints, "--%s is for a checkpoint")
}

func (e *env) checkpointsOnly(c *cobra.Command) error {
	return e.refuse(c, options.Networks, "--%s is not for a checkpoint")
}

func (e *env) refuse(c *cobra.Command, kind options.Kind, format string) error {
	for _, o := range e.tables[c] {
		if o.For == kind && c.Flags().Changed(o.Name) {
			return usagef(format, o.Name)
		}
	}
	return nil
}

// print writes a result: as JSON where that was asked for, else as text. What a check that did not hold left is written all the same; err
// is its error, which print returns.
func (e *env) print(json bool, r any, err error, text func() error) error {
	write := text
	if json {
		write = func() error { return e.printJSON(r) }
	}
	if werr := write(); werr != nil {
		return werr
	}
	return err
}

// otherFlags lists the flags of a command that were given, but for some.
func otherFlags(c *cobra.Command, but ...string) (list []string) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if c.Flags().Lookup(f.Name) == c.LocalFlags().Lookup(f.Name) && !slices.Contains(but, f.Name) {
			list = append(list, "--"+f.Name)
		}
	})
	return list
}

// catalog is what the tables choose from.
func (e *env) catalog() *qwb.Catalog {
	if e.offers == nil {
		e.offers = &e.project("", "").Catalog
	}
	return e.offers
}
