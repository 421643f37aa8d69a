package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"qwb/calib/data/npy"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

func newRun(e *env) *cobra.Command {
	var f flags
	var inputs []string
	var output string
	c := &cobra.Command{
		Use:   "run MODEL --input name=x.npy --output DIR",
		Short: "Run a model once and write each output as npy",
		Long: `Run executes a model as it is (float, or with QuantizeLinear and DequantizeLinear) on inputs from npy files, or from one
npz file that holds all inputs by name, and writes each output to DIR, named after the output.`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if output == "" {
				return usagef("run needs --output DIR")
			}
			return e.run(c.Context(), args[0], inputs, output, exec.Options{Threads: f.workers(), Memory: f.budget()})
		},
	}
	c.Flags().StringArrayVar(&inputs, "input", nil, "name=file.npy, once per input; or file.npz with all inputs")
	c.Flags().StringVarP(&output, "output", "o", "", "folder for the outputs")
	f.addRun(c)
	f.addBudget(c)
	return c
}

func (e *env) run(ctx context.Context, path string, inputs []string, output string, o exec.Options) error {
	m, err := e.openModel(path)
	if err != nil {
		return err
	}
	defer m.Close()
	feeds, err := readFeeds(inputs)
	if err != nil {
		return err
	}
	s, err := exec.New(m.Graph, o)
	if err != nil {
		return budgetHint(fmt.Errorf("run: %s: %w", path, err))
	}
	out, err := s.NewRunner().Run(ctx, feeds, nil)
	if err != nil {
		return budgetHint(fmt.Errorf("run: %s: %w", path, err))
	}
	names := make([]string, len(out))
	byName := map[string]*tensor.Tensor{}
	for i, v := range m.Graph.Outputs {
		names[i] = fileName(m.Graph.Value(v).Name) + ".npy"
		if _, taken := byName[names[i]]; taken {
			names[i] = fmt.Sprintf("%d-%s", i, names[i])
		}
		byName[names[i]] = out[i]
	}
	var files staging
	defer files.discard()
	for _, name := range names {
		if err := files.add(filepath.Join(output, name), func(w io.Writer) error { return npy.Write(w, byName[name]) }); err != nil {
			return err
		}
	}
	return files.commit()
}

// fileName turns the name of a tensor into the name of a file.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || r < ' ' {
			return '_'
		}
		return r
	}, name)
}

// readFeeds reads the inputs of one run.
func readFeeds(inputs []string) (map[string]*tensor.Tensor, error) {
	feeds := map[string]*tensor.Tensor{}
	for _, in := range inputs {
		name, file, ok := strings.Cut(in, "=")
		if !ok && strings.EqualFold(filepath.Ext(in), ".npz") {
			if err := readArchive(in, feeds); err != nil {
				return nil, fmt.Errorf("%s: %w", in, err)
			}
			continue
		}
		if !ok || name == "" || file == "" {
			return nil, usagef("--input %q: not name=file.npy", in)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		t, err := npy.Read(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if feeds[name] != nil {
			return nil, usagef("--input: %q is given twice", name)
		}
		feeds[name] = t
	}
	return feeds, nil
}

func readArchive(file string, feeds map[string]*tensor.Tensor) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	a, err := npy.OpenArchive(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	for _, name := range a.Names() {
		if feeds[name] != nil {
			return usagef("--input: %q is given twice", name)
		}
		if feeds[name], err = a.Read(name); err != nil {
			return err
		}
	}
	return nil
}
