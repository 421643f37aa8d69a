package export_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/quantizer/target"
)

// A format whose doctor counts the bytes x; a file without any is unreadable.
func counted(ext string) export.Format {
	return export.Format{Name: "counted", Ext: ext, Rules: []export.Rule{{Name: "no-x", Doc: "there is no x", Fix: "take it away"}},
		Doctor: func(_ context.Context, in *export.DoctorInput) ([]export.Finding, error) {
			name := in.Name
			if name == "." {
				name = "a/b.txt"
			}
			b, err := fs.ReadFile(in.FS, name)
			if err != nil {
				return nil, err
			}
			if len(b) == 0 {
				return nil, errors.New("it is empty")
			}
			var list []export.Finding
			for i := range bytes.Count(b, []byte("x")) {
				list = append(list, export.Finding{Rule: "no-x", Node: fmt.Sprint("x", i), Text: "an x"})
			}
			return list, nil
		}}
}

// What is written is read back before it has its name, on disk and in memory, as a file and as a folder.
func TestConforms(t *testing.T) {
	for _, ext := range []string{".txt", ""} {
		for _, into := range []export.Stage{nil, &memory{}} {
			for text, want := range map[string]string{"abc": "", "": "what was written cannot be read: it is empty",
				"axbx":    `the file would break rules of counted for onnxruntime, nothing was written: no-x: node "x0": an x; no-x: node "x1": an x`,
				"xxxxxxx": "; and 2 more"} {
				f := counted(ext)
				out := f.NewOutput(filepath.Join(t.TempDir(), "b.txt"), into)
				name := out.Name()
				if ext == "" {
					name = "a/b.txt"
				}
				put(t, out, name, text)
				err := f.Conforms(context.Background(), &export.Input{Target: &target.ONNXRuntime}, out)
				if want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, want)
				}
				out.Discard()
			}
		}
	}
}

// A finding has the fix of its rule; a format without a doctor says so when it is asked.
func TestDiagnose(t *testing.T) {
	f := counted(".txt")
	out := f.NewOutput(filepath.Join(t.TempDir(), "b.txt"), &memory{})
	put(t, out, "b.txt", "x")
	found, err := f.Diagnose(context.Background(), &export.DoctorInput{FS: only("x"), Name: "any"})
	require.NoError(t, err)
	require.Equal(t, []export.Finding{{Rule: "no-x", Node: "x0", Text: "an x", Fix: "take it away"}}, found)
	f.Doctor = nil
	_, err = f.Diagnose(context.Background(), &export.DoctorInput{})
	require.EqualError(t, err, "format counted has no doctor")
	require.NoError(t, f.Conforms(context.Background(), &export.Input{}, out), "it is not read")
}

// only is a file system of files with one content.
type only string

func (o only) Open(name string) (fs.File, error) { return nil, fs.ErrNotExist }
func (o only) ReadFile(string) ([]byte, error)   { return []byte(o), nil }

// A file as a whole: in float, for another chip, with integers of another width.
func TestSuits(t *testing.T) {
	wide, err := target.Known("tflite_16x8")
	require.NoError(t, err)
	for want, w := range map[string]export.AsWhole{
		"": {Narrow: true, Bits: []int{8, 16}},
		"quantized: nothing in this file is " +
			"quantized: it runs in float": {Platform: "tflite_int8"},
		"platform: it was written for espdl_int8, and a file for one chip is wrong on another": {Narrow: true,
			Exact: true, Platform: "espdl_int8", Bits: []int{16}},
		"platform: it has integers of 8 bits between operators, and was written for tflite_int8; those of tflite_16x8 have 16": {Narrow: true,
			Platform: "tflite_int8", Bits: []int{8}},
		"platform: it has integers of 8 bits between operators; those of tflite_16x8 have 16": {Narrow: true, Bits: []int{8}},
	} {
		var got string
		for _, f := range w.Suits(wide) {
			require.NotEmpty(t, f.Fix)
			got += f.String()
		}
		require.Equal(t, want, got)
	}
	own := export.AsWhole{Narrow: true, Platform: "tflite_16x8", Bits: []int{8}}
	require.Empty(t, own.Suits(wide), "all operators were decided to have 8 bits")
}
