package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"qwb"
	"qwb/graph"
	"qwb/internal/file"
	"qwb/internal/kind"
	"qwb/internal/options"
	"qwb/internal/shard"
	"qwb/kernels/cpu"
)

// part does a part of a command's run and writes its file.
func (e *env) part(c *cobra.Command, args []string, cut options.Cut, run func(*cobra.Command, []string) error) error {
	switch {
	case cut.Shard == qwb.Shard{}:
		return usagef("--part needs --shard")
	case cut.File == "":
		return usagef("--shard needs --part: the file to write")
	}
	if err := replaces(c.Name(), cut.File, kind.Plan, kind.ONNX, kind.Overlay, kind.Statistics, kind.Grams); err != nil {
		return err
	}
	words, err := e.partWords(c, args)
	if err != nil {
		return err
	}
	r := shard.New(c.Name(), words, cut.Shard.Index, cut.Shard.Of)
	if err := sameFiles(r); err != nil {
		return err
	}
	c.SetContext(shard.With(c.Context(), r))
	if err := run(c, args); err == nil {
		return usagef("%s: nothing of this is done in parts", c.Name())
	} else if !errors.Is(err, shard.ErrDone) {
		return err
	}
	if _, err := qwb.WriteFile(qwb.OS{}, cut.File, r.Write); err != nil {
		return fmt.Errorf("%s: %w", c.Name(), err)
	}
	result := struct {
		Part  string `json:"part"`
		Shard string `json:"shard"`
		Units int    `json:"units"`
	}{cut.File, cut.Shard.String(), r.Units()}
	asJSON, _ := c.Flags().GetBool("json")
	return e.print(asJSON, result, nil, func() error {
		_, err := fmt.Fprintf(e.stdout, "%s: part %s of qwb %s, %d units of work\n", result.Part, result.Shard, r.Command, result.Units)
		return err
	})
}

// partWords are the options and arguments of a command that all parts have to share. What only the merge can do is refused.
func (e *env) partWords(c *cobra.Command, args []string) (words []string, err error) {
	t := e.tables[c]
	c.Flags().Visit(func(f *pflag.Flag) {
		o := t.Find(f.Name)
		switch {
		case o == nil || o.Anyhow():
		case o.Name == "metric-cmd":
			err = usagef("--metric-cmd has no parts: leave out --shard")
		case !o.InPart():
			err = usagef("--%s does not go with --shard: say it when the parts are put together, qwb merge PART ... -- --%[1]s ...", f.Name)
		default:
			values := []string{f.Value.String()}
			if list, ok := f.Value.(pflag.SliceValue); ok {
				values = list.GetSlice()
			}
			for _, v := range values {
				if f.Value.Type() == "stringSlice" && strings.ContainsAny(v, "\",\n") {
					v = `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
				}
				words = append(words, "--"+f.Name+"="+v)
			}
		}
	})
	return append(append(words, "--"), args...), err
}

// sameFiles notes the build of qwb, how this machine rounds, and the files that options name.
func sameFiles(r *shard.Run) error {
	rounding := "separate multiply and add"
	if f := cpu.Detect(); f.AVX2 || f.NEON {
		rounding = "fused multiply-add"
	}
	if err := r.Fact("build", version+" "+revision()); err != nil {
		return err
	}
	if err := r.Fact("arithmetic", rounding); err != nil {
		return err
	}
	for _, w := range r.Words {
		name, value, option := strings.Cut(w, "=")
		info, err := os.Stat(value)
		if !option || err != nil || !info.Mode().IsRegular() {
			continue
		}
		sum, err := fingerprint(value, info.Size())
		if err == nil {
			err = r.Fact(name, sum)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fingerprint is the SHA-256 of a file; of a large one, which may be all of the data and is named by each part, that of its ends and size.
func fingerprint(name string, size int64) (string, error) {
	const large, end = 64 << 20, 1 << 20
	f, err := file.OpenRead(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h, from := sha256.New(), io.Reader(f)
	if size > large {
		from = io.MultiReader(io.NewSectionReader(f, 0, end), io.NewSectionReader(f, size-end, end), strings.NewReader(fmt.Sprint(size)))
	}
	_, err = io.Copy(h, from)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// mergeRun puts the parts of a command's run together by running it once more on what they have. more are options that only concern
// what becomes of the result, out is the file that it is written to.
func (e *env) mergeRun(c *cobra.Command, names []string, out string, more []string) error {
	list := make([]*shard.Run, len(names))
	for i, name := range names {
		b, err := file.ReadFile(name)
		if err != nil {
			return fmt.Errorf("merge: %w", err)
		}
		if list[i], err = shard.Read(b); err != nil {
			return fmt.Errorf("merge: %s: not a whole part that qwb wrote with --shard: %w", name, err)
		}
	}
	r, err := shard.Join(names, list)
	if err != nil {
		return err
	}
	run, _, err := c.Root().Find([]string{r.Command})
	t := e.tables[run]
	end := slices.Index(r.Words, "--")
	if err != nil || !t.HasParts() || end < 0 {
		return fmt.Errorf("merge: %s: no command has such parts", names[0])
	}
	given, args := r.Words[:end], r.Words[end+1:]
	for _, w := range given { // a part is a file from anybody: it starts no program and writes nothing else than the command does
		name, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		if o := t.Find(name); !strings.HasPrefix(w, "--") || o == nil || !o.InPart() || o.Anyhow() {
			return fmt.Errorf("merge: %s: %q is no option of a part", names[0], w)
		}
	}
	switch o := t.Find("output"); {
	case out == "":
	case o == nil || o.Short != "o":
		return usagef("merge: -o is for parts of statistics and of sweep; what other parts make is printed, or written where options behind " +
			"-- say")
	default:
		more = append(more, "--output="+out)
	}
	if err := run.ParseFlags(more); err != nil {
		return usagef("%s: %w", run.Name(), err)
	}
	run.Flags().Visit(func(f *pflag.Flag) {
		if o := t.Find(f.Name); o != nil && (o.InPart() || slices.Contains([]string{"shard", "part", "metric-cmd"}, o.Name)) {
			err = usagef("--%s is as it was when the parts were made", f.Name)
		}
	})
	if rest := run.Flags().Args(); err == nil && len(rest) > 0 {
		err = usagef("merge: %q behind --: there stand options of qwb %s", rest[0], run.Name())
	}
	if err != nil {
		return err
	}
	if err := run.ParseFlags(given); err != nil {
		return usagef("%s: %w", run.Name(), err)
	}
	if err := sameFiles(r); err != nil {
		return err
	}
	run.SetContext(shard.With(c.Context(), r))
	err = graph.Try(func() error { return run.RunE(run, args) })
	if bug := (*graph.Bug)(nil); errors.As(err, &bug) {
		e.detail("%s", bug.Stack)
		return fmt.Errorf("merge: the parts hold what no run of qwb gives: %v", bug.Value)
	}
	return err
}
