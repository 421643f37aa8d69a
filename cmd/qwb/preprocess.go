package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"qwb/calib/data/npy"
	"qwb/graph/exec"
)

func newPreprocess(e *env) *cobra.Command {
	var f flags
	var dump string
	c := &cobra.Command{
		Use:   "preprocess MODEL --data D --preprocess P --dump DIR",
		Short: "Write the exact inputs a model is fed with, one npy per sample",
		Long: `Preprocess writes what calibrate and eval feed the model with: one npy per sample, or one npz where the model has several
inputs. Any other runtime that is fed from these files sees the same numbers.`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if dump == "" || len(f.data) == 0 {
				return usagef("preprocess needs --data and --dump DIR")
			}
			return e.preprocess(c.Context(), args[0], f.dataOptions(), dump)
		},
	}
	f.addData(c)
	f.addTokenizer(c)
	f.addRun(c)
	c.Flags().StringVar(&dump, "dump", "", "folder for the npy or npz files")
	return c
}

func (e *env) preprocess(ctx context.Context, path string, o dataOptions, dir string) error {
	m, err := e.openModel(path)
	if err != nil {
		return err
	}
	defer m.Close()
	set, _, err := e.openData(m.Graph, o.of(m))
	if err != nil {
		return err
	}
	var files staging
	defer files.discard()
	tick, finish := e.progress("preprocess", set.Len())
	defer finish()
	it := set.Iterator()
	for i := 0; ; i++ {
		s, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return files.commit()
		}
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%05d_%s", i, fileName(baseName(s.Name)))
		if err := writeSample(&files, filepath.Join(dir, name), s); err != nil {
			return err
		}
		tick(i + 1)
	}
}

func writeSample(files *staging, path string, s *exec.Sample) error {
	write, ext := func(w io.Writer) error { return npy.WriteArchive(w, s.Feeds) }, ".npz"
	if len(s.Feeds) == 1 {
		ext = ".npy"
		write = func(w io.Writer) error {
			for _, t := range s.Feeds {
				return npy.Write(w, t)
			}
			return nil
		}
	}
	return files.add(path+ext, write)
}
