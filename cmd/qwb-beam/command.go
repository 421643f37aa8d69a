package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"

	"qwb"
	"qwb/export/all"
	"qwb/graph/exec"
	"qwb/internal/file"
	"qwb/internal/options"
	"qwb/internal/shard"
	"qwb/internal/work/store"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// spec is a run in parts, as every worker gets it.
type spec struct {
	Command string
	File    string   // model or plan
	Words   []string // options
	Shards  int
	Out     string
	Digest  string // SHA-256 of File
}

// maxPart bounds the bytes of a part: runners send elements in messages of gRPC, which end at 2 GiB.
const maxPart = 1 << 30

// newSpec reads a command line. Patterns of --data are replaced by the files that they match, so that all parts have the same.
func newSpec(ctx context.Context, shards int, out string, args []string) (*spec, error) {
	if len(args) < 2 || out == "" || shards < 1 || shards > shard.Most {
		return nil, fmt.Errorf("give -out, -shards from 1 to %d, a command, and a model or plan", shard.Most)
	}
	s := &spec{Command: args[0], File: args[1], Shards: shards, Out: out}
	for i, w := range args[2:] {
		name, value, whole := strings.Cut(strings.TrimLeft(w, "-"), "=")
		isData := whole && name == "data" || i > 0 && strings.TrimLeft(args[i+1], "-") == "data"
		if !whole {
			value = w
		}
		if !isData || !strings.ContainsAny(value, "*?[") {
			s.Words = append(s.Words, w)
			continue
		}
		files, err := matching(ctx, value)
		if err != nil {
			return nil, err
		}
		if !whole {
			s.Words = s.Words[:len(s.Words)-1]
		}
		for _, f := range files {
			s.Words = append(s.Words, "--data="+f)
		}
	}
	r, err := s.open(0)
	if err == nil {
		s.Digest, err = digest(r.file)
	}
	return s, err
}

// matching lists the files of a pattern, sorted.
func matching(ctx context.Context, pattern string) ([]string, error) {
	fs, err := filesystem.New(ctx, pattern)
	if err != nil {
		return nil, err
	}
	defer fs.Close()
	files, err := fs.List(ctx, pattern)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("--data %s: no such file", pattern)
	}
	slices.Sort(files)
	return files, err
}

func digest(name string) (string, error) {
	f, err := file.OpenRead(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// check says whether a worker has the model or plan that the run began with.
func (s *spec) check() error {
	d, err := digest(s.File)
	if err == nil && d != s.Digest {
		err = fmt.Errorf("%s is another file here than where the run was started (SHA-256 %.12s..., not %.12s...)", s.File, d, s.Digest)
	}
	return err
}

// one is a command with its options, for one part or for all together.
type one struct {
	*spec
	*qwb.Project
	file    string
	files   *store.Scratch // nothing that a command writes gets to the disk
	name    string         // of the part's file, beside the result: paths in it are relative to that
	memory  int64
	observe func(context.Context) error        // writes a part of statistics to name
	run     func(context.Context) (any, error) // does a part, or all that a merge has
}

// open binds the options of part i, 0 for all parts together.
func (s *spec) open(i int) (*one, error) {
	catalog := qwb.Catalog{Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}
	c := &one{spec: s, file: s.File, files: &store.Scratch{Base: qwb.OS{}}, name: s.part(i)}
	c.Project = &qwb.Project{Plan: s.File, Store: c.files, Catalog: catalog}
	if !strings.HasSuffix(s.File, qwb.PlanSuffix) {
		c.Model, c.Plan = s.File, ""
	}
	cut := qwb.Shard{Index: max(i, 1), Of: s.Shards}
	var t options.Table
	var check func() error
	switch s.Command {
	case "calibrate":
		o := &options.Calibrate{}
		t, check, c.Stats = o.Table(&catalog), o.Check, c.name
		c.observe = func(ctx context.Context) error {
			o.Out, o.Shard = c.name, cut
			_, _, err := c.CalibratePart(ctx, o.CalibrateOptions)
			return err
		}
	case "tune":
		o := &options.Tune{}
		t, check = o.Table(&catalog), o.Check
		c.observe = func(ctx context.Context) error {
			o.TuneOptions.Out, o.TuneOptions.Shard = c.name, cut
			_, _, err := c.Grams(ctx, o.TuneOptions)
			return err
		}
	case "eval":
		o := &options.Eval{}
		t = o.Table(&catalog)
		check = func() error { return o.Check(&catalog, c.Model, false) }
		c.run = func(ctx context.Context) (any, error) { return second(c.Eval(ctx, o.EvalOptions)) }
	case "analyze":
		o := &options.Analyze{}
		t, check = o.Table(&catalog), o.Check
		c.run = func(ctx context.Context) (any, error) { return second(c.Analyze(ctx, o.AnalyzeOptions)) }
	case "verify":
		o := &options.Verify{}
		t, check = o.Table(&catalog), func() error { return nil }
		c.run = func(ctx context.Context) (any, error) { return second(c.Verify(ctx, o.VerifyOptions)) }
	default:
		return nil, fmt.Errorf("%s: the commands are calibrate, tune, eval, analyze and verify", s.Command)
	}
	if err := parse(s.Command, t, s.Words); err != nil {
		return nil, err
	}
	c.memory = t.Memory()
	return c, errors.Join(t.Check(), check())
}

// second leaves the warnings out: they are in the result.
func second[R, W any](r R, _ W, err error) (R, error) { return r, err }

func (s *spec) part(i int) string {
	return filepath.Join(filepath.Dir(s.Out), fmt.Sprintf(".%s.%d", filepath.Base(s.Out), i))
}

// context bounds the memory as --mem says.
func (c *one) context(ctx context.Context) context.Context {
	if c.memory > 0 {
		ctx = exec.WithMemory(ctx, c.memory)
	}
	return ctx
}

// do does part i and returns its file. The same part has the same bytes, and nothing else is left: a bundle may be repeated.
func (s *spec) do(ctx context.Context, i int) ([]byte, error) {
	c, err := s.open(i)
	if err != nil {
		return nil, err
	}
	ctx = c.context(ctx)
	var b []byte
	if c.observe != nil {
		err = c.observe(ctx)
		b = c.files.File(c.name)
	} else {
		r := shard.New(s.Command, append(slices.Clone(s.Words), s.File), i, s.Shards)
		if _, err = c.run(shard.With(ctx, r)); errors.Is(err, shard.ErrDone) {
			var w bytes.Buffer
			err = r.Write(&w)
			b = w.Bytes()
		} else if err == nil {
			err = errors.New("nothing of this is done in parts")
		}
	}
	if err == nil && len(b) > maxPart {
		err = fmt.Errorf("it has %d bytes, more than runners send: use more shards, or qwb %s --shard", len(b), s.Command)
	}
	if err != nil {
		return nil, fmt.Errorf("part %d/%d of qwb %s: %w", i, s.Shards, s.Command, err)
	}
	return b, nil
}

// merge puts all parts together and returns what one run writes: statistics, or the result as JSON, its durations 0.
func (s *spec) merge(ctx context.Context, list []part) ([]byte, error) {
	c, err := s.open(0)
	if err != nil {
		return nil, err
	}
	ctx = c.context(ctx)
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = s.part(p.Index)
	}
	if c.observe != nil {
		stage := c.files.Stage()
		defer stage.Discard()
		for i, p := range list {
			if err := stage.Add(names[i], func(w io.Writer) error { _, err := w.Write(p.Bytes); return err }); err != nil {
				return nil, err
			}
		}
		if err := stage.Commit(); err != nil {
			return nil, err
		}
		if _, _, err := c.Merge(ctx, names, s.Out); err != nil {
			return nil, err
		}
		return c.files.File(s.Out), nil
	}
	runs := make([]*shard.Run, len(list))
	for i, p := range list {
		if runs[i], err = shard.Read(p.Bytes); err != nil {
			return nil, fmt.Errorf("merge: part %d/%d: %w", p.Index, s.Shards, err)
		}
	}
	r, err := shard.Join(names, runs)
	if err != nil {
		return nil, err
	}
	v, err := c.run(shard.With(ctx, r))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	err = e.Encode(v) // before the bytes are taken
	return b.Bytes(), err
}

// parse sets options by their rows.
func parse(command string, t options.Table, words []string) error {
	f := flag.NewFlagSet(command, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	for i := range t {
		o := &t[i]
		if !o.InPart() && !o.Anyhow() && o.Name != "output" || slices.Contains([]string{"shard", "part"}, o.Name) {
			continue
		}
		switch at := o.At.(type) {
		case *bool:
			f.BoolVar(at, o.Name, given[bool](o), "")
		case *string:
			f.StringVar(at, o.Name, given[string](o), "")
		case *int:
			f.IntVar(at, o.Name, given[int](o), "")
		case *uint64:
			f.Uint64Var(at, o.Name, given[uint64](o), "")
		case *float64:
			f.Float64Var(at, o.Name, given[float64](o), "")
		case *[]string:
			f.Func(o.Name, "", func(v string) error { *at = append(*at, v); return nil })
		case *options.List:
			f.Func(o.Name, "", func(v string) error { *at = append(*at, strings.Split(v, ",")...); return nil })
		case options.Value:
			f.Var(at, o.Name, "")
		}
	}
	if threads := f.Lookup("threads"); threads != nil { // bundles run beside each other
		if err := threads.Value.Set("1"); err != nil {
			return err
		}
	}
	if err := f.Parse(words); err != nil {
		return qwb.Usagef("%s: %v (an option of a part, and not of the result)", command, err)
	}
	if f.NArg() > 0 {
		return qwb.Usagef("%s: %q stands behind the options", command, f.Arg(0))
	}
	return nil
}

func given[T any](o *options.Option) (v T) {
	if o.Default != nil {
		v = o.Default.(T)
	}
	return v
}

// write gives the result its name, once and whole.
func (s *spec) write(ctx context.Context, b []byte) error {
	if !strings.Contains(s.Out, "://") {
		_, err := qwb.WriteFile(qwb.OS{}, s.Out, func(w io.Writer) error { _, err := w.Write(b); return err })
		return err
	}
	fs, err := filesystem.New(ctx, s.Out)
	if err != nil {
		return err
	}
	defer fs.Close()
	w, err := fs.OpenWrite(ctx, s.Out)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return errors.Join(err, w.Close())
}
