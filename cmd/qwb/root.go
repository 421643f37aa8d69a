package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/graph"
	"qwb/internal/plain"
)

// Exit codes, as the contract of the command line fixes them.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitCheck  = 3
)

func usagef(format string, args ...any) error { return qwb.Usagef(format, args...) }

// run executes one command line and returns its exit code. The last line on stderr is the error.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out, messages := plain.NewWriter(stdout), plain.NewWriter(stderr)
	defer out.Flush()
	defer messages.Flush()
	stdout, stderr = out, &lockedWriter{w: messages}
	e := &env{stdout: stdout, stderr: stderr}
	root := newRoot(e)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		e.offerChoices(root) // only then: cobra keeps these functions, and with them the command, for as long as the process lives
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	c, err := execute(ctx, root)
	if ended := e.endOperators(); err == nil {
		err = ended
	}
	if err == nil {
		return exitDone
	}
	if bug := (*graph.Bug)(nil); errors.As(err, &bug) {
		_, _ = stderr.Write(bug.Stack)
	}
	fault := qwb.Describe(err)
	fault.Message = oneLine(err) + e.meant(c, err)
	if f := c.Flags().Lookup("json"); f != nil && f.Value.String() == "true" {
		b, _ := json.Marshal(map[string]qwb.Fault{"error": fault}) // plain strings always have a JSON form
		fmt.Fprintf(stderr, "%s\n", b)
	}
	fmt.Fprintln(stderr, "qwb: "+fault.Message)
	switch fault.Kind {
	case qwb.KindUsage:
		return exitUsage
	case qwb.KindCheck:
		return exitCheck
	}
	return exitFailed
}

// execute runs the command. A large model is read where it lies in its file: reading what is not there any more is an error.
func execute(ctx context.Context, root *cobra.Command) (c *cobra.Command, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if bug := graph.Recovered(recover()); bug != nil {
			c, err = root, bug
		}
	}()
	return root.ExecuteContextC(ctx)
}

// oneLine joins the lines of an error message, so that the last line on stderr is the whole error.
func oneLine(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "stopped: the time limit of --timeout was reached"
	}
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

func newRoot(e *env) *cobra.Command {
	var justVersion bool
	root := &cobra.Command{
		Use:   "qwb",
		Short: "Quantize a trained network to INT8, measure the error, export it",
		Long: `qwb converts a trained FP32 ONNX model into an INT8 model for deployment.

qwb calibrate runs the model on real data. It writes a plan and statistics. The plan is a readable JSON file
with every decision, scale and zero point. With the statistics, another method or target needs no data. The
other commands analyse, change, evaluate and export the plan:

  qwb calibrate model.onnx --data images/ --preprocess imagenet-torch --platform trt_int8
  qwb analyze --layerwise --graphwise --html report.html --png plots/
  qwb dispatch --auto --max-nsr 0.01
  qwb eval model.plan.json --data images/ --labels labels.tsv --mode sim
  qwb export --platform trt_int8 -o model.int8.onnx

Results go to standard output, progress and warnings to standard error. Exit codes: 0 done, 1 failed, 2 wrong
flags or arguments, 3 a check failed.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if word := nearest(args[0], commandNames(cmd)); word != "" {
					return usagef("unknown command %q; did you mean %q?", args[0], word)
				}
				return usagef("unknown command %q; qwb --help lists the commands", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if justVersion {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "qwb %s (revision %s)\n", version, revision())
				return err
			}
			return cmd.Help()
		},
	}
	// cobra has a flag like it, whose text is a template: with that the linker can leave out no method of any type.
	root.Flags().BoolVar(&justVersion, "version", false, "version for qwb")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd == root {
			return usagef("%w", err)
		}
		return usagef("%s: %w", cmd.Name(), err)
	})
	root.PersistentFlags().DurationVar(&e.timeout, "timeout", 0, "stop running a model after this time and fail, for example 90s or 10m (0: "+
		"no limit); a Loop in a model may never end")
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if e.timeout < 0 {
			return usagef("--timeout %s: must be 0 or more", e.timeout)
		}
		if e.timeout > 0 {
			ctx, stop := context.WithTimeout(cmd.Context(), e.timeout)
			context.AfterFunc(ctx, stop)
			cmd.SetContext(ctx)
		}
		return e.addOperators(cmd.Context())
	}
	root.PersistentFlags().StringArrayVar(&e.ops, "op", nil, "`DOMAIN::TYPE=COMMAND`: the program that computes an operator which qwb does "+
		"not know; may be repeated (docs/operators.md)")
	root.PersistentFlags().BoolVarP(&e.verbose, "verbose", "v", false, "print more: what each pass changed, and why a pass changed nothing")
	e.addCommands(root)
	e.addHelp(root)
	return root
}

// commandNames lists the commands below c.
func commandNames(c *cobra.Command) []string {
	var names []string
	for _, below := range c.Commands() {
		names = append(names, below.Name())
	}
	return names
}

// exactly, atMost and atLeast are argument checks that end in exit code 2.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s takes %s, not %d arguments", cmd.Name(), what, len(args))
		}
		return nil
	}
}

func atMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("%s takes %s, not %d arguments", cmd.Name(), what, len(args))
		}
		return nil
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("%s takes %s", cmd.Name(), what)
		}
		return nil
	}
}
