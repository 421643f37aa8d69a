// Package exporttest runs formats on small networks.
//
// Unstable: it may change without notice.
package exporttest

import (
	"context"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// Input makes the input of a format from a network in the text of graphtest, calibrated for a platform, with options by name.
func Input(t testing.TB, f *export.Format, text, platform string, options map[string]string) *export.Input {
	t.Helper()
	tg, err := target.Known(platform)
	require.NoError(t, err)
	free := *tg
	free.BorderCost = 0 // everything is small here
	g, set, feeds := lowertest.ConfiguredFor(t, text, &free)
	graph.InferShapes(g)
	values, err := f.Resolve(options)
	require.NoError(t, err)
	in := &export.Input{Title: "m.onnx", Options: values, Producer: "qwb", Version: "test", Model: &onnx.Model{Graph: g}, Set: set,
		Target:   &free,
		Progress: func(string, int) (func(int), func()) { return func(int) {}, func() {} }}
	if f.From == export.Program {
		profile, err := free.ProfileNamed("")
		require.NoError(t, err)
		in.Program, err = lower.Compile(g, set, &free, profile)
		require.NoError(t, err)
		in.Sample = func() (map[string]*tensor.Tensor, error) { return feeds, nil }
	}
	return in
}

// Write exports to a new folder, through Check and Doctor, and returns it and the names of the files. The first is called m, with the
// ending of the format.
func Write(t testing.TB, f *export.Format, in *export.Input) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	names, err := Try(f, in, dir)
	require.NoError(t, err)
	return dir, names
}

// Try is Write that may fail, to a folder that is there.
func Try(f *export.Format, in *export.Input, dir string) (names []string, err error) {
	if f.Check != nil {
		if err := f.Check(in); err != nil {
			return nil, err
		}
	}
	out := f.NewOutput(filepath.Join(dir, "m"+f.Ext), nil)
	defer out.Discard()
	if _, err := f.Write(context.Background(), in, out); err != nil {
		return nil, err
	}
	if _, err := f.Equal(context.Background(), in, out); err != nil {
		return nil, err
	}
	if err := f.Conforms(context.Background(), in, out); err != nil {
		return nil, err
	}
	files, err := out.Commit()
	for _, w := range files {
		name, _ := filepath.Rel(dir, w.Path)
		names = append(names, filepath.ToSlash(name))
	}
	return names, err
}

// Fault is a violation of one rule: Plant changes the files of a good export.
type Fault struct {
	Rule    string
	Options map[string]string
	Plant   func(t testing.TB, dir string)
}

// Replace returns a Plant that replaces text in a file, which has to be there.
func Replace(file, old, new string) func(t testing.TB, dir string) {
	return func(t testing.TB, dir string) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Contains(t, string(b), old)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(strings.Replace(string(b), old, new, 1)), 0o600))
	}
}

// Damaged is a fault of a writer: Plant changes one number of the files of a good export.
type Damaged struct {
	What    string // the number
	Options map[string]string
	Plant   func(t testing.TB, dir string)
}

// ReadBack checks that what a format writes is read back as it was written, and that each fault is found.
func ReadBack(t *testing.T, f *export.Format, text, platform string, faults []Damaged) {
	t.Helper()
	for _, fault := range faults {
		t.Run(fault.What, func(t *testing.T) {
			in := Input(t, f, text, platform, fault.Options)
			if b := damaged(t, f, in, fault.Plant); b != nil {
				require.Positive(t, b.Different)
			}
		})
	}
}

// Equal writes and requires that what is read back is what was written; it returns the outcome.
func Equal(t testing.TB, f *export.Format, in *export.Input) *export.ReadBack {
	t.Helper()
	return damaged(t, f, in, nil)
}

// Found checks that what is planted in a file of in is found when it is read back.
func Found(t testing.TB, f *export.Format, in *export.Input, plant func(t testing.TB, dir string)) {
	t.Helper()
	damaged(t, f, in, plant)
}

// damaged writes, changes what was written, and compares it. nil is the outcome of a file that cannot be read.
func damaged(t testing.TB, f *export.Format, in *export.Input, plant func(t testing.TB, dir string)) *export.ReadBack {
	t.Helper()
	if f.Check != nil {
		require.NoError(t, f.Check(in))
	}
	out := f.NewOutput(filepath.Join(t.TempDir(), "m"+f.Ext), nil)
	defer out.Discard()
	_, err := f.Write(context.Background(), in, out)
	require.NoError(t, err)
	b, err := f.Equal(context.Background(), in, out)
	require.NoError(t, err)
	require.Positive(t, b.Compared)
	if plant == nil {
		return b
	}
	before := content(t, out.Folder())
	plant(t, out.Folder())
	require.NotEqual(t, before, content(t, out.Folder()), "nothing was changed")
	b, err = f.Equal(context.Background(), in, out)
	require.Error(t, err)
	return b
}

// content is all that the files of a folder hold.
func content(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		x, err := os.ReadFile(path)
		b.WriteString(path)
		b.Write(x)
		return err
	}))
	return b.String()
}

// Doctor checks that the doctor of a format finds nothing in an export, for each fault its rule, that each rule has a fault, and that
// damaged files do not end the doctor otherwise than by findings or an error.
func Doctor(t *testing.T, f *export.Format, text, platform string, faults []Fault) {
	t.Helper()
	planted := map[string]bool{}
	for _, fault := range faults {
		planted[fault.Rule] = true
		t.Run(fault.Rule, func(t *testing.T) {
			in := Input(t, f, text, platform, fault.Options)
			dir, names := Write(t, f, in)
			d := &export.DoctorInput{FS: os.DirFS(dir), Name: names[0], Target: in.Target}
			found, err := f.Diagnose(context.Background(), d)
			require.NoError(t, err)
			require.Empty(t, found)
			fault.Plant(t, dir)
			found, err = f.Diagnose(context.Background(), d)
			require.NoError(t, err)
			var rules []string
			for _, x := range found {
				require.NotEmpty(t, x.Text)
				require.NotEmpty(t, x.Fix)
				rules = append(rules, x.Rule)
			}
			require.Contains(t, rules, fault.Rule)
		})
	}
	t.Run("damage", func(t *testing.T) { Damage(t, f, text, platform, faults[0].Options) })
	for _, r := range f.Rules {
		require.NotEmpty(t, r.Doc, r.Name)
		require.True(t, planted[r.Name], "no fault is planted for rule %q", r.Name)
	}
	require.Len(t, f.Rules, len(planted), "a fault of a rule that is none")
}

// Damage exports, truncates the files and changes bytes in them, always in the same way, and requires that the doctor of the format ends
// with findings or an error each time.
func Damage(t *testing.T, f *export.Format, text, platform string, options map[string]string) {
	t.Helper()
	in := Input(t, f, text, platform, options)
	dir, names := Write(t, f, in)
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range names {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		for i := range 24 {
			b := slices.Clone(whole)
			if i%3 == 0 {
				b = b[:len(b)*i/24]
			} else {
				for range 1 + r.IntN(4) {
					if len(b) > 0 {
						b[r.IntN(len(b))] = byte(r.Uint32())
					}
				}
			}
			require.NoError(t, os.WriteFile(path, b, 0o600))
			require.NotPanics(t, func() {
				_, _ = f.Diagnose(context.Background(), &export.DoctorInput{FS: os.DirFS(dir), Name: names[0], Target: in.Target})
			}, "%s, damage %d", name, i)
		}
		require.NoError(t, os.WriteFile(path, whole, 0o600))
	}
}

// EditModel returns a Plant that changes the graph of the ONNX file.
func EditModel(edit func(t testing.TB, g *graph.Graph)) func(t testing.TB, dir string) {
	return func(t testing.TB, dir string) {
		t.Helper()
		path := filepath.Join(dir, "m.onnx")
		m, _, err := onnx.Open(path)
		require.NoError(t, err)
		defer m.Close()
		edit(t, m.Graph)
		require.NoError(t, m.Save(path+".new", onnx.SaveOptions{}))
		require.NoError(t, os.Rename(path+".new", path))
	}
}

// number is one in a text file.
var number = regexp.MustCompile(`-?[0-9][0-9.]*(e[-+]?[0-9]+)?`)

// Nudged returns a Plant that changes the first number behind a text in a file: a whole one by 1, another by a tenth of a thousandth.
func Nudged(file, behind string) func(t testing.TB, dir string) {
	return func(t testing.TB, dir string) {
		t.Helper()
		path := filepath.Join(dir, file)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		text := string(b)
		at := strings.Index(text, behind)
		require.GreaterOrEqual(t, at, 0, "%s has no %q", file, behind)
		at += len(behind)
		where := number.FindStringIndex(text[at:])
		require.NotNil(t, where)
		old := text[at+where[0] : at+where[1]]
		x, err := strconv.ParseFloat(old, 64)
		require.NoError(t, err)
		if x == math.Trunc(x) {
			x++
		} else {
			x *= 1.0001
		}
		text = text[:at+where[0]] + strconv.FormatFloat(x, 'g', -1, 64) + text[at+where[1]:]
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}
